// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// `eigsh`: the smallest or largest eigenvalues of a symmetric matrix whose rows are cut, and their eigenvectors. It
/// takes tensors only, and has no gradient.
///
/// ```
/// auto [values, vectors] = eigsh(a, 10);                                // a: [n, n]; vectors: [n, 10], cut as a
/// auto [values, vectors] = eigsh(a, 10, {.end = SpectrumEnd::largest});
/// ```
/// Subspace iteration (Zhou, Saad, Tiago and Chelikowsky, "Self-consistent-field calculations using
/// Chebyshev-filtered subspace iteration", 2006): a Chebyshev polynomial of the matrix enlarges the wanted parts of a
/// block of vectors. Each column gets the degree that it needs, and converged ones are locked (Winkelmann, Springer and
/// Di Napoli, "ChASE", 2019). A filter works on the residuals of approximate eigenvectors (Kodali, Ramakrishnan and
/// Motamarri, "Residual-based Chebyshev filtered subspace iteration", 2025), so it computes in float, also for double.

#include <shardwise/linalg/functions.hpp>
#include <shardwise/linalg/lstsq.hpp>
#include <shardwise/tensor/factories.hpp>

namespace shardwise {

enum class SpectrumEnd { smallest, largest };

/// How `eigsh` computes. See `eigsh`.
struct EigshOptions {
  SpectrumEnd end = SpectrumEnd::smallest;
  double tolerance = 0;  ///< of residuals, in units of ‖a‖; 0 stands for ε · max(10, √n)
  int max_steps = 40;
  bool check_symmetry = true;
};

namespace detail {

/// The smallest eigenvalues of scale · a, and their vectors.
template <TensorType A>
class FilteredSubspace {
  using T = typename A::Element;
  using Low = tensor_with<float, 2, typename A::MeshOf, packed(A::layout)>;

 public:
  FilteredSubspace(const A& a, Index k, T scale, EigshOptions options)
      : a_(a), n_(a.shape()[0]), k_(k), m_(a.local_shape()[0]), scale_(scale), options_(options) {
    const double f = getenv("FB") ? atof(getenv("FB")) : 0.5;
    columns_ = std::min(n_, k + std::max<Index>(16, Index(f * double(k))));
    low_.resize(static_cast<std::size_t>(m_ * n_));
    for (Index i = 0; i < m_ * n_; ++i) low_[static_cast<std::size_t>(i)] = static_cast<float>(a.data()[i] * scale);
  }

  void run() {
    double t0 = MPI_Wtime();
    const auto verbose = getenv("V") && MeshView(a_.mesh()).coordinates()[0] == 0;
    estimate();
    double t1 = MPI_Wtime();
    x_ = A(a_.mesh(), {n_, columns_});
    fill_normal(x_, 1);
    values_.assign(std::size_t(columns_), lowest_);
    residuals_.assign(std::size_t(columns_), 1);
    bool first = true;
    if (upper_ > lowest_) filter(true);
    for (int step = 0; step < options_.max_steps; ++step, first = false) {
      double t2 = MPI_Wtime();
      rayleigh_ritz();
      double t3 = MPI_Wtime();
      if (verbose) printf("step %d locked %ld cut %.4g upper %.4g matvecs %ld: theta %.6g %.6g %.6g res %.2e %.2e tol %.1e; est %.3f filter+ %.3f rr %.3f\n", step, locked_, cut_, upper_, matvecs_, values_[0], values_[k_-1], values_.back(), residuals_[0], residuals_[k_-1], tolerance(), t1-t0, t2-t1, t3-t2);
      if (locked_ >= k_) return;
      t1 = MPI_Wtime();
      filter(false);
    }
    throw std::runtime_error("eigsh: not converged");
  }
  const std::vector<double>& values() const { return values_; }
  const A& vectors() const { return x_; }

 private:
  double tolerance() const {
    const double eps = std::numeric_limits<T>::epsilon();
    const double norm = std::max(std::abs(upper_), std::abs(std::min(lowest_, values_.empty() ? lowest_ : values_[0])));
    return norm * (options_.tolerance > 0 ? options_.tolerance : eps * std::max(10., std::sqrt(double(n_))));
  }
  template <class X>
  std::vector<double> column_products(const X& x, const X& y) const {
    constexpr AxisSet cut = A::layout.axes_sharding(0);
    const Index w = x.shape()[1];
    std::vector<double> sums(std::size_t(w), 0.);
    for (Index i = 0; i < m_; ++i)
      for (Index j = 0; j < w; ++j) sums[std::size_t(j)] += double(x.data()[i * w + j]) * double(y.data()[i * w + j]);
    MeshView(a_.mesh()).all_reduce(sums.data(), w, DataType::f64, ReduceOp::sum, cut);
    return sums;
  }
  /// y += a · (s · factors)
  void add_product(Low& y, const Low& s, const std::vector<float>& factors) {
    const Index w = s.shape()[1];
    auto whole = redistribute_to<whole_of<Low>>(s);
    float* z = whole.writable().data;
    for (Index i = 0; i < n_; ++i)
      for (Index j = 0; j < w; ++j) z[i * w + j] *= factors[std::size_t(j)];
    kernel::gemm(kernel::Transpose::no, kernel::Transpose::no, m_, w, n_, low_.data(), n_, z, w, y.writable().data, w, true);
    matvecs_ += w;
  }

  void estimate() {
    constexpr Index runs = 4, steps = 14;
    Low v(a_.mesh(), {n_, runs}), before(a_.mesh(), {n_, runs});
    fill_normal(v, 2);
    std::fill_n(before.writable().data, m_ * runs, 0.f);
    std::vector<double> beta(runs, 0), alpha(runs);
    auto norms = column_products(v, v);
    std::vector<std::vector<double>> t(runs, std::vector<double>(steps * steps, 0.));
    std::vector<Index> size(runs, steps);
    auto scale_columns = [&](Low& x) {
      float* p = x.writable().data;
      for (Index i = 0; i < m_; ++i)
        for (Index j = 0; j < runs; ++j) p[i * runs + j] *= norms[j] > 0 ? float(1 / std::sqrt(norms[j])) : 0.f;
    };
    scale_columns(v);
    upper_ = -HUGE_VAL;
    for (Index step = 0; step < steps; ++step) {
      Low w(a_.mesh(), {n_, runs});
      float *p = w.writable().data;
      const float* q = before.data();
      for (Index i = 0; i < m_; ++i)
        for (Index j = 0; j < runs; ++j) p[i * runs + j] = -float(beta[j]) * q[i * runs + j];
      add_product(w, v, std::vector<float>(runs, 1.f));
      alpha = column_products(w, v);
      const float* now = v.data();
      for (Index i = 0; i < m_; ++i)
        for (Index j = 0; j < runs; ++j) p[i * runs + j] -= float(alpha[j]) * now[i * runs + j];
      norms = column_products(w, w);
      for (Index j = 0; j < runs; ++j) {
        t[j][step * (steps + 1)] = alpha[j];
        beta[j] = std::sqrt(norms[j]);
        if (step + 1 < steps) t[j][step * (steps + 1) + 1] = t[j][step * (steps + 1) + steps] = beta[j];
      }
      scale_columns(w);
      before = std::move(v);
      v = std::move(w);
    }
    std::vector<std::pair<double, double>> density;
    for (Index j = 0; j < runs; ++j) {
      std::vector<double> w(steps), y(steps * steps);
      kernel::eigh<double>(steps, t[j].data(), w.data(), y.data());
      upper_ = std::max(upper_, w.back() + beta[j]);
      for (Index i = 0; i < steps; ++i) density.emplace_back(w[i], y[i] * y[i] / runs);
    }
    std::sort(density.begin(), density.end());
    lowest_ = density[0].first;
    double sum = 0, last = lowest_;
    cut_ = upper_;
    for (auto [at, weight] : density) {
      if (sum + weight / 2 > double(columns_) / double(n_)) {
        cut_ = at;
        break;
      }
      sum += weight;
      last = at;
    }
    (void)last;
    cut_ = std::max(cut_, lowest_ + 0.01 * (upper_ - lowest_));
    cut_ = std::min(cut_, (upper_ + lowest_) / 2);
  }

  void filter(bool first) {
    const double c = (cut_ + upper_) / 2, e = (upper_ - cut_) / 2;
    std::vector<int> degrees(std::size_t(columns_), 0);
    static const double cap = getenv("CAP") ? atof(getenv("CAP")) : 1e5;
    for (Index i = locked_; i < columns_; ++i) {
      const double growth = std::acosh(std::max(1 + 1e-5, (c - values_[i]) / e));
      if (first) degrees[i] = std::ceil(std::acosh(getenv("F1") ? atof(getenv("F1")) : 1e4) / growth);
      else degrees[i] = i < k_ ? std::ceil(std::log(std::clamp(residuals_[i] / tolerance() * 4, 4., cap)) / growth) + 1 : degrees[i-1];
      degrees[i] = std::clamp(degrees[i], 3, 300);
      if (i > locked_) degrees[i] = std::max(degrees[i], degrees[i - 1]);
    }
    static const bool buffer_too = !getenv("NB");
    const Index end = first || buffer_too ? columns_ : k_;
    for (Index i = locked_; i < end;) {
      const Index left = end - i, groups = std::max<Index>(1, std::min<Index>(8, left / 64));
      const Index w = left / groups;
      filter_group(first, i, w, degrees[i + w - 1], c, e);
      i += w;
    }
  }
  void filter_group(bool first, Index begin, Index w, int degree, double c, double e) {
    Low r(a_.mesh(), {n_, w}), before(a_.mesh(), {n_, w}), now(a_.mesh(), {n_, w});
    T* x = x_.writable().data;
    float *s0 = before.writable().data, *of_r = r.writable().data;
    for (Index i = 0; i < m_; ++i)
      for (Index j = 0; j < w; ++j) {
        s0[i * w + j] = first ? float(x[i * columns_ + begin + j]) : 0;
        of_r[i * w + j] = first ? 0 : float(r_.data()[i * (columns_ - rr_first_) + begin - rr_first_ + j]);
      }
    std::vector<double> at(w), ratio(w);
    std::vector<float> factors(w), of_before(w), of_now(w);
    for (Index j = 0; j < w; ++j) {
      at[j] = std::min(-1., (values_[begin + j] - c) / e);
      ratio[j] = 1 / at[j];
      factors[j] = float(ratio[j] / e);
      of_now[j] = float(-c) * factors[j];
    }
    float* s1 = now.writable().data;
    for (Index i = 0; i < m_; ++i)
      for (Index j = 0; j < w; ++j) s1[i * w + j] = of_now[j] * s0[i * w + j] + factors[j] * of_r[i * w + j];
    if (first) add_product(now, before, factors);
    for (int d = 2; d <= degree; ++d) {
      for (Index j = 0; j < w; ++j) {
        const double next = 1 / (2 * at[j] - ratio[j]);
        of_before[j] = float(-ratio[j] * next);
        ratio[j] = next;
        factors[j] = float(2 * next / e);
        of_now[j] = float(-c) * factors[j];
      }
      s0 = before.writable().data;
      s1 = now.writable().data;
      for (Index i = 0; i < m_; ++i)
        for (Index j = 0; j < w; ++j)
          s0[i * w + j] = of_before[j] * s0[i * w + j] + of_now[j] * s1[i * w + j] + factors[j] * of_r[i * w + j];
      add_product(before, now, factors);
      std::swap(before, now);
    }
    const float* s = now.data();
    for (Index i = 0; i < m_; ++i)
      for (Index j = 0; j < w; ++j) {
        T& y = x[i * columns_ + begin + j];
        y = (first ? T{0} : y) + T(s[i * w + j]);
      }
  }

  void rayleigh_ritz() {
    x_ = qr(x_).q;
    const Index active = columns_ - locked_;
    A q(a_.mesh(), {n_, active});
    kernel::detail::mapped(m_, active, q.writable().data) = kernel::detail::mapped(m_, columns_, x_.data()).rightCols(active);
    auto w = redistribute_to<whole_of<A>>(q);
    T* p = w.writable().data;
    for (Index i = 0; i < n_ * active; ++i) p[i] *= scale_;
    A aq = times_columns(a_, w, active);
    matvecs_ += 2 * active;
    auto small = redistribute_to<whole_of<A>>(inner_products(q, aq));
    auto f = eigh(small);
    q = times_columns(q, f.vectors, active);
    aq = times_columns(aq, f.vectors, active);
    T* r = aq.writable().data;
    for (Index i = 0; i < m_; ++i)
      for (Index j = 0; j < active; ++j) r[i * active + j] -= q.data()[i * active + j] * f.values.data()[j];
    auto norms = column_products(aq, aq);
    for (Index j = 0; j < active; ++j) {
      values_[locked_ + j] = f.values.data()[j];
      residuals_[locked_ + j] = std::sqrt(norms[j]);
    }
    kernel::detail::mapped(m_, columns_, x_.writable().data).rightCols(active) = kernel::detail::mapped(m_, active, q.data());
    r_ = std::move(aq);
    rr_first_ = locked_;
    lowest_ = std::min(lowest_, values_[0]);
    cut_ = values_.back();
    upper_ = std::max(upper_, cut_);
    if (cut_ - values_[k_ - 1] < 1e-4 * (upper_ - values_[0])) cut_ += 0.05 * (upper_ - cut_);
    while (locked_ < k_ && residuals_[locked_] <= tolerance()) ++locked_;
  }

  const A& a_;
  Index n_, k_, m_, columns_ = 0, locked_ = 0, rr_first_ = 0, matvecs_ = 0;
  T scale_;
  EigshOptions options_;
  std::vector<float> low_;
  double lowest_ = 0, cut_ = 0, upper_ = 0;
  A x_, r_;
  std::vector<double> values_, residuals_;
};

}  // namespace detail

template <TensorType A>
auto eigsh(const A& a, Index k, EigshOptions options = {}) {
  using T = typename A::Element;
  const double unit = detail::unit_of("eigsh", a);
  const double sign = options.end == SpectrumEnd::smallest ? 1 : -1;
  detail::FilteredSubspace<A> s(a, k, static_cast<T>(sign / unit), options);
  s.run();
  Tensor<T, 1, typename A::MeshOf, Replicate> values(a.mesh(), {k});
  A vectors(a.mesh(), {a.shape()[0], k});
  const Index c = s.vectors().shape()[1];
  for (Index j = 0; j < k; ++j) {
    const Index from = sign > 0 ? j : k - 1 - j;
    values.writable().data[j] = static_cast<T>(sign * unit * s.values()[static_cast<std::size_t>(from)]);
    for (Index i = 0; i < a.local_shape()[0]; ++i) vectors.writable().data[i * k + j] = s.vectors().data()[i * c + from];
  }
  return Eigh<decltype(values), A>{values, vectors};
}

}  // namespace shardwise
