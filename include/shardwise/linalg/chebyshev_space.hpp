// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The space of `eigsh`. It keeps each filtered block, not only the last one: a block Krylov space of the polynomial
/// (Fang and Saad, "A filtered Lanczos procedure for extreme and interior eigenvalue problems", 2012). Few
/// eigenvectors are not accurate then. The space grows by their filtered residuals, which may be computed in float
/// (Kodali, Ramakrishnan and Motamarri, "Residual-based Chebyshev filtered subspace iteration", 2025), each with the
/// degree that it needs (Winkelmann, Springer and Di Napoli, "ChASE", 2019). At last a filtered block of random
/// vectors looks for what was missed.

#include <shardwise/linalg/chebyshev_filter.hpp>
#include <shardwise/linalg/qr.hpp>

namespace shardwise::detail {

/// A space that grows until it contains the wanted eigenvectors.
template <TensorType A>
class ChebyshevSpace {
  using T = typename A::Element;
  using Low = typename ChebyshevFilter<A>::Low;
  using Numbers = ColumnNumbers;

 public:
  /// The eigenvectors of the k smallest eigenvalues of scale · a, where ‖a v - λ v‖ is at most `tolerance` times ‖a‖.
  constexpr ChebyshevSpace(const A& a, Index k, T scale, double tolerance, int max_steps)
      : filter_(a, scale),
        n_(a.shape()[0]),
        m_(a.local_shape()[0]),
        k_(k),
        kept_(k + k / 2 + 32),
        steps_(max_steps),
        relative_(tolerance),
        v_(a.mesh(), {n_, 3 * k + 80}),
        av_(a.mesh(), v_.shape()) {}
  /// Returns false where `eigh` of the whole matrix is the shorter way.
  constexpr bool solve() {
    const int degree = filter_.estimate(k_, kept_);
    A z = random(std::max<Index>(16, k_ / 7), 1);
    while (append(z)) z = filter_.enlarged(z, product_, degree);
    rayleigh_ritz();
    int steps = 0;
    for (bool checked = false; !checked; ++steps) {
      const std::vector<Index> left = unfinished();
      const double last = value(k_ - 1);
      checked = left.empty();
      if (!checked && is_expensive()) return false;
      if (steps >= steps_) fail_to_converge(left, steps);
      if (steps % 8 == 7) compute_again();
      checked ? look_for_missed() : refine(left);
      rayleigh_ritz();
      // A vector that was missed makes values smaller.
      checked = checked && (dry() || (value(k_ - 1) > last - 4 * tolerance() && unfinished().empty()));
    }
    return true;
  }
  constexpr double value(Index i) const { return dry() ? 0 : values_[static_cast<std::size_t>(i)]; }
  /// The vectors, and the number of columns of a row.
  constexpr const T* vectors() const { return v_.data(); }
  constexpr Index columns() const { return v_.shape()[1]; }

 private:
  constexpr const auto& mesh() const { return filter_.mesh(); }
  constexpr bool dry() const { return filter_.dry(); }
  /// Whether products have taken more than twice the work of `eigh` on every rank, of a matrix that fits there.
  constexpr bool is_expensive() const {
    constexpr AxisSet cut = A::layout.axes_sharding(0);
    const double n = static_cast<double>(n_);
    return n_ <= 8192 &&
           filter_.columns_multiplied() > 10 * n * group_size(mesh().sizes(), A::MeshOf::axes, cut);
  }
  constexpr double tolerance() const { return relative_ * filter_.norm(); }
  constexpr A random(Index columns, std::uint64_t seed) const {
    A z(mesh(), {n_, columns});
    fill_normal(z, seed);
    return z;
  }
  /// Makes z orthonormal, also to the space.
  constexpr void orthonormalize(A& z) const {
    using enum kernel::Transpose;
    const Index w = z.shape()[1], bytes = Index{sizeof(T)};
    bool done = false;
    for (int pass = 0; pass < 4 && !done; ++pass) {
      if (size_ > 0) {
        whole_of<A> along(mesh(), {size_, w});
        T* const sums = dry() ? nullptr : along.writable().data;
        count_work(mesh(), 4 * m_ * size_ * w, 2 * m_ * (size_ + w) * bytes, "eigsh");
        if (!dry()) kernel::gemm(yes, no, size_, w, m_, v_.data(), columns(), z.data(), w, sums, w, false);
        sum_over_rows(v_, sums, size_ * w);
        if (!dry())
          kernel::subtract_product(no, no, m_, w, size_, v_.data(), columns(), sums, w, z.writable().data, w);
      }
      auto f = qr(z);
      z = std::move(f.q);
      T least = 1;
      for (Index i = 0; i < w && !dry(); ++i) least = std::min(least, f.r.data()[i * (w + 1)]);
      done = pass > 0 && least > T{0.5};  // else z was nearly dependent, and is made of rounding errors
    }
  }
  /// Makes z orthonormal, computes its product, and adds both to the space. Returns whether there is room for more.
  constexpr bool append(A& z) {
    const Index w = std::min(z.shape()[1], columns() - size_);
    if (w < z.shape()[1]) {
      A first(mesh(), {n_, w});
      copy(z, 0, first, 0, w);
      z = std::move(first);
    }
    orthonormalize(z);
    product_ = filter_.product(z);
    copy(z, 0, v_, size_, w);
    copy(product_, 0, av_, size_, w);
    size_ += w;
    return size_ < columns();
  }
  constexpr void copy(const A& from, Index first, A& to, Index at, Index count) const {
    const Index wide = from.shape()[1], width = to.shape()[1];
    T* const y = dry() ? nullptr : to.writable().data;
    for (Index i = 0; i < m_ && !dry(); ++i)
      std::copy_n(from.data() + i * wide + first, count, y + i * width + at);
  }

  /// Reduces the space to its approximate eigenvectors of the smallest values.
  constexpr void rayleigh_ritz() {
    using enum kernel::Transpose;
    whole_of<A> small(mesh(), {size_, size_}), y(mesh(), {size_, size_});
    T* const h = dry() ? nullptr : small.writable().data;
    count_work(mesh(), 2 * m_ * size_ * (size_ + 2 * kept_) + 9 * size_ * size_ * size_, 0, "eigsh");
    if (!dry())
      kernel::gemm(yes, no, size_, size_, m_, v_.data(), columns(), av_.data(), columns(), h, size_, false);
    sum_over_rows(v_, h, size_ * size_);
    A x(mesh(), {n_, kept_}), ax(mesh(), {n_, kept_});
    if (!dry()) {
      std::vector<T> values(static_cast<std::size_t>(size_));
      if (!kernel::eigh(size_, h, values.data(), y.writable().data))
        throw std::runtime_error(
            "eigsh: the iteration for the eigenvalues of a small matrix did not converge");
      values_.assign(values.begin(), values.begin() + kept_);
      const auto times_y = [&](const A& from, A& to) {
        kernel::gemm(no, no, m_, kept_, size_, from.data(), columns(), y.data(), size_, to.writable().data,
                     kept_, false);
      };
      times_y(v_, x);
      times_y(av_, ax);
      filter_.narrow(values_[0], value(k_ - 1), values_.back(), static_cast<double>(values.back()));
    }
    copy(x, 0, v_, 0, kept_);
    copy(ax, 0, av_, 0, kept_);
    size_ = kept_;
    if (!dry()) {
      Numbers minus(values_);
      for (double& value : minus) value = -value;
      combine_columns(ax, Numbers(minus.size(), 1.), x, minus);
    }
    residuals_ = products_of_columns(ax, ax);
    for (double& r : residuals_) r = dry() ? 0 : std::sqrt(r);
    residual_vectors_ = std::move(ax);
  }
  /// The wanted vectors that are not accurate, and all others that are kept if some are far from it.
  constexpr std::vector<Index> unfinished() const {
    std::vector<Index> left;
    if (dry()) return left;
    for (Index i = 0; i < k_; ++i)
      if (!(residual(i) <= tolerance())) left.push_back(i);
    const auto far = [&](Index i) { return residual(i) > 1e-5 * filter_.norm(); };
    if (!std::any_of(left.begin(), left.end(), far)) return left;
    for (Index i = k_; i < kept_; ++i) left.push_back(i);
    return left;
  }
  constexpr double residual(Index i) const { return residuals_[static_cast<std::size_t>(i)]; }

  /// Adds filtered residuals.
  void refine(const std::vector<Index>& left) {
    const Index count = std::ssize(left), groups = std::max<Index>(1, count / 64);
    A all(mesh(), {n_, count});
    for (Index group = 0; group < groups; ++group) {
      const Index begin = count * group / groups, w = count * (group + 1) / groups - begin;
      Low r(mesh(), {n_, w});
      Numbers values;
      int degree = 1;
      for (Index j = 0; j < w; ++j) {
        const Index from = left[static_cast<std::size_t>(begin + j)];
        const double size = residual(from);
        // In float a filter gains at most five digits.
        const double factor = std::clamp(4 * size / tolerance(), 4., 1e5);
        if (from < k_) degree = std::max(degree, filter_.degree_for(factor, value(from), 1e4, 400));
        values.push_back(value(from));
        for (Index i = 0; i < m_; ++i) {
          const T x = residual_vectors_.data()[i * kept_ + from];
          r.writable().data[i * w + j] = size > 0 ? static_cast<float>(static_cast<double>(x) / size) : 0;
        }
      }
      const Low z = filter_.filtered_residuals(r, values, degree);
      for (Index i = 0; i < m_ * w; ++i)
        all.writable().data[i / w * count + begin + i % w] = static_cast<T>(z.data()[i]);
    }
    append(all);
  }
  /// Each reduction of the space adds rounding errors to its vectors and their products.
  constexpr void compute_again() {
    A z(mesh(), {n_, size_});
    copy(v_, 0, z, 0, size_);
    size_ = 0;
    append(z);
    rayleigh_ritz();
  }
  constexpr void look_for_missed() {
    A z = random(16, 3);
    orthonormalize(z);
    product_ = filter_.product(z);
    z = filter_.enlarged(z, product_, dry() ? 8 : filter_.degree_for(1e3, value(k_ - 1), 1e10, 100));
    append(z);
  }
  [[noreturn]] void fail_to_converge(const std::vector<Index>& left, int steps) const {
    Index wanted = 0;
    double largest = 0;
    for (const Index i : left) {
      if (i < k_) ++wanted, largest = std::max(largest, residual(i));
    }
    fail<std::runtime_error>({"eigsh: after ", steps, " steps, ", wanted, " of ", k_,
                              " eigenvectors have not converged: the largest residual is ",
                              largest / filter_.norm(), " of the norm, and the tolerance ", relative_});
  }

  ChebyshevFilter<A> filter_;
  Index n_, m_, k_, kept_, size_ = 0;
  int steps_;
  double relative_;
  A v_, av_;  ///< an orthonormal basis in the first `size_` columns, and its products
  A product_, residual_vectors_;
  Numbers values_, residuals_;
};

}  // namespace shardwise::detail
