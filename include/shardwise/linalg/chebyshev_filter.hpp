// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The polynomial filter of `eigsh`: a symmetric matrix whose rows are cut, bounds of its spectrum, and Chebyshev
/// polynomials of it times a block of vectors, which enlarge the parts of its smallest eigenvalues (Zhou, Saad, Tiago
/// and Chelikowsky, "Self-consistent-field calculations using Chebyshev-filtered subspace iteration", 2006).

#include <cmath>

#include <shardwise/kernel/gemm.hpp>
#include <shardwise/kernel/spectral.hpp>
#include <shardwise/linalg/batch.hpp>
#include <shardwise/tensor/factories.hpp>
#include <shardwise/tensor/redistribute.hpp>

namespace shardwise::detail {

/// A number for each column of a block of vectors.
using ColumnNumbers = std::vector<double>;

/// Sums `data` over the ranks that have other rows of x.
template <TensorType X>
constexpr void sum_over_rows(const X& x, auto* data, Index count) {
  constexpr AxisSet cut = X::layout.axes_sharding(0);
  constexpr DataType type = data_type_of<std::remove_pointer_t<decltype(data)>>();
  MeshView(x.mesh()).all_reduce(data, count, type, ReduceOp::sum, cut);
}
/// The products of the columns of x with those of y.
template <class X>
constexpr ColumnNumbers products_of_columns(const X& x, const X& y) {
  const Index w = x.shape()[1], elements = x.mesh().dry() ? 0 : x.local_shape()[0] * w;
  ColumnNumbers sums(static_cast<std::size_t>(w), 0.);
  for (Index i = 0; i < elements; ++i)
    sums[static_cast<std::size_t>(i % w)] +=
        static_cast<double>(x.data()[i]) * static_cast<double>(y.data()[i]);
  sum_over_rows(x, sums.data(), w);
  return sums;
}
/// x · diag(of_x) + y · diag(of_y), written to x.
template <class X>
void combine_columns(X& x, const ColumnNumbers& of_x, const X& y, const ColumnNumbers& of_y) {
  using E = typename X::Element;
  const std::vector<E> f(of_x.begin(), of_x.end()), g(of_y.begin(), of_y.end());
  const Index w = std::ssize(f);
  E* to = x.writable().data;
  const E* from = y.data();
  for (Index i = 0; i < x.local_shape()[0]; ++i, to += w, from += w) {
    for (Index j = 0; j < w; ++j)
      to[j] = f[static_cast<std::size_t>(j)] * to[j] + g[static_cast<std::size_t>(j)] * from[j];
  }
}

/// scale · a, whose smallest eigenvalues are wanted.
template <TensorType A>
class ChebyshevFilter {
  using T = typename A::Element;
  using Numbers = ColumnNumbers;

 public:
  using Low = tensor_with<float, 2, typename A::MeshOf, packed(A::layout)>;

  constexpr ChebyshevFilter(const A& a, T scale)
      : a_(a), n_(a.shape()[0]), m_(a.local_shape()[0]), scale_(scale) {
    if (dry()) return;
    low_.resize(static_cast<std::size_t>(m_ * n_));
    std::transform(a.data(), a.data() + m_ * n_, low_.begin(),
                   [=](T x) { return static_cast<float>(x * scale); });
  }
  constexpr const auto& mesh() const { return a_.mesh(); }
  constexpr bool dry() const { return a_.mesh().dry(); }
  double norm() const { return std::max(std::abs(lowest_), std::abs(upper_)); }
  /// Vectors that were multiplied by a until now.
  constexpr double columns_multiplied() const { return columns_multiplied_; }

  /// Bounds of the spectrum, and the ends of the `wanted` and of the `kept` eigenvalues, by Lanczos's iteration from
  /// four random vectors: the squares of first components are a density of eigenvalues. Returns a degree for the
  /// first space.
  constexpr int estimate(Index wanted, Index kept) {
    constexpr Index runs = 4, steps = 20;
    const Numbers ones(runs, 1.);
    Low v(a_.mesh(), {n_, runs}), before = zero<Low>(runs);
    fill_normal(v, 2);
    Numbers alpha(runs, 0.), beta(runs, 0.), t(runs * steps * steps, 0.);
    const auto normalize = [&](Low& x) {
      beta = products_of_columns(x, x);
      for (double& b : beta) b = dry() ? 1 : std::sqrt(b);
      Numbers inverse(runs, 0.);
      for (std::size_t j = 0; j < runs; ++j) inverse[j] = beta[j] > 0 ? 1 / beta[j] : 0;
      if (!dry()) combine_columns(x, inverse, x, Numbers(runs, 0.));
    };
    normalize(v);
    beta.assign(runs, 0.);
    for (Index step = 0; step < steps; ++step) {
      if (!dry()) combine_columns(before, {-beta[0], -beta[1], -beta[2], -beta[3]}, v, Numbers(runs, 0.));
      add_product(before, v, ones);
      alpha = products_of_columns(before, v);
      if (!dry()) combine_columns(before, ones, v, {-alpha[0], -alpha[1], -alpha[2], -alpha[3]});
      normalize(before);
      std::swap(before, v);
      for (std::size_t j = 0; j < runs; ++j) {
        double* const place = t.data() + (static_cast<Index>(j) * steps + step) * steps + step;
        *place = alpha[j];
        if (step + 1 < steps) place[1] = place[steps] = beta[j];
      }
    }
    if (dry()) return 8;
    const double end = bound(t, beta, wanted, kept);
    return degree_for(10, end, 1e10, 24);
  }
  /// Takes what is known of the spectrum from Ritz values: the smallest, the last wanted, the last kept, the largest.
  void narrow(double lowest, double wanted, double kept, double largest) {
    lowest_ = std::min(lowest_, lowest);
    upper_ = std::max(upper_, largest);
    set_cut(wanted, kept, 0.0002);
  }
  /// The degree that enlarges what belongs to this eigenvalue by a factor. The lowest one grows faster: by at most
  /// `spread` more, because its rounding errors hide the others.
  int degree_for(double factor, double value, double spread, int most) const {
    const auto growth_of = [&](double x) { return std::acosh(std::max(1 + 1e-6, (center() - x) / half())); };
    const double growth = growth_of(value), faster = growth_of(lowest_) - growth;
    double degree = std::ceil(std::log(2 * factor) / growth);
    if (faster > 0) degree = std::min(degree, std::log(spread) / faster);
    return static_cast<int>(std::clamp(degree, 1., static_cast<double>(most)));
  }

  constexpr A product(const A& x) {
    A y = zero<A>(x.shape()[1]);
    add_product(y, x, Numbers(static_cast<std::size_t>(x.shape()[1]), 1.));
    return y;
  }
  /// A polynomial of the matrix times z, of which `az` is the product.
  constexpr A enlarged(const A& z, A az, int degree) {
    const std::size_t w = static_cast<std::size_t>(z.shape()[1]);
    const double at = dry() ? -1 : std::min(-1., (lowest_ - center()) / half());
    if (!dry()) combine_columns(az, Numbers(w, 1 / (at * half())), z, Numbers(w, -center() / (at * half())));
    return filtered<A>(z, std::move(az), nullptr, Numbers(w, at), degree);
  }
  /// The filtered residuals r, each of norm 1, of vectors with these Ritz values.
  Low filtered_residuals(const Low& r, const Numbers& values, int degree) {
    Numbers at(values), first(values);
    for (std::size_t j = 0; j < values.size(); ++j) {
      at[j] = std::min(-1., (values[j] - center()) / half());
      first[j] = 1 / (at[j] * half());
    }
    Low now = zero<Low>(r.shape()[1]);
    combine_columns(now, first, r, first);
    return filtered<Low>(zero<Low>(r.shape()[1]), std::move(now), &r, at, degree);
  }

 private:
  constexpr double center() const { return (cut_ + upper_) / 2; }
  constexpr double half() const { return (upper_ - cut_) / 2; }
  template <class X>
  constexpr X zero(Index columns) const {
    X y(a_.mesh(), {n_, columns});
    if (!dry()) std::fill_n(y.writable().data, m_ * columns, 0);
    return y;
  }
  /// y += scale · a · x · diag(factors), where every rank gathers x.
  template <class X>
  constexpr void add_product(X& y, const X& x, const Numbers& factors) {
    using E = typename X::Element;
    const Index w = x.shape()[1];
    auto whole = redistribute_to<whole_of<X>>(x);
    columns_multiplied_ += static_cast<double>(w);
    count_work(a_.mesh(), 2 * m_ * n_ * w, (m_ * (n_ + w) + n_ * w) * Index{sizeof(E)}, "eigsh");
    if (dry()) return;
    const E *matrix, scale = std::is_same_v<E, float> ? E{1} : static_cast<E>(scale_);
    if constexpr (std::is_same_v<E, float>) {
      matrix = low_.data();
    } else {
      matrix = a_.data();
    }
    E* const z = whole.writable().data;
    for (Index i = 0; i < n_ * w; ++i)
      z[i] *= scale * static_cast<E>(factors[static_cast<std::size_t>(i % w)]);
    kernel::gemm(kernel::Transpose::no, kernel::Transpose::no, m_, w, n_, matrix, n_, z, w, y.writable().data,
                 w, true);
  }
  /// Continues a Chebyshev recurrence from its terms 0 and 1 to `degree`, with `residual`, if given, added in each
  /// step. Columns are divided by the value of the polynomial at `at`, which is at most -1.
  template <class X>
  constexpr X filtered(X before, X now, const X* residual, const Numbers& at, int degree) {
    const std::size_t w = at.size();
    Numbers ratio(w, 1.), of_before(w, 1.), of_now(w, 1.), factors(w, 1.);
    for (std::size_t j = 0; j < w; ++j) ratio[j] = 1 / at[j];
    for (int d = 2; d <= degree; ++d) {
      for (std::size_t j = 0; j < w && !dry(); ++j) {
        const double next = 1 / (2 * at[j] - ratio[j]);
        of_before[j] = -ratio[j] * next;
        ratio[j] = next;
        factors[j] = 2 * next / half();
        of_now[j] = -center() * factors[j];
      }
      if (!dry()) combine_columns(before, of_before, now, of_now);
      if (!dry() && residual) combine_columns(before, Numbers(w, 1.), *residual, factors);
      add_product(before, now, factors);
      std::swap(before, now);
    }
    return now;
  }
  /// From the tridiagonal matrices t and the last elements beside them. Returns the end of the wanted eigenvalues.
  double bound(const Numbers& t, const Numbers& beta, Index wanted, Index kept) {
    const std::size_t steps = 20, runs = 4;
    std::vector<std::pair<double, double>> density;
    upper_ = -HUGE_VAL;
    for (std::size_t j = 0; j < runs; ++j) {
      Numbers w(steps), y(steps * steps);
      kernel::eigh<double>(static_cast<Index>(steps), t.data() + j * steps * steps, w.data(), y.data());
      double largest = 0;
      for (std::size_t i = 0; i < steps; ++i) {
        density.emplace_back(w[i], y[i] * y[i] / static_cast<double>(runs));
        largest = std::max(largest, std::abs(y[(steps - 1) * steps + i]));
      }
      upper_ = std::max(upper_, w.back() + beta[j] * largest);
    }
    std::sort(density.begin(), density.end());
    lowest_ = density[0].first;
    const double size = std::max(std::abs(lowest_), std::abs(upper_));
    upper_ += size > 0 ? 1e-4 * size : 1;
    const auto end_of = [&](Index count) {
      double sum = 0, last = 0, at = lowest_;
      for (const auto& [value, weight] : density) {
        const double now = sum + weight / 2, share = static_cast<double>(count) / static_cast<double>(n_);
        if (now >= share) return now > last ? at + (value - at) * (share - last) / (now - last) : value;
        sum += weight, last = now, at = value;
      }
      return upper_;
    };
    const double end = end_of(wanted);
    set_cut(end, end_of(kept), 0.005);
    return end;
  }
  /// A filter needs some distance between the wanted eigenvalues and what it damps.
  void set_cut(double wanted, double end, double least) {
    const double range = upper_ - lowest_;
    cut_ = std::min(std::max(end, wanted + least * range), upper_ - 0.1 * range);
  }

  A a_;
  Index n_, m_;
  T scale_;
  double columns_multiplied_ = 0, lowest_ = 0, cut_ = 0, upper_ = 0;
  std::vector<float> low_;  ///< scale · a
};

}  // namespace shardwise::detail
