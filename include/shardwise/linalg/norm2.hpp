// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// `norm2`: the spectral norm of a distributed matrix, its largest singular value, with a bound of the error. It has
/// no gradient.
/// ```
/// auto [value, error] = norm2(a);   // value ≤ ‖a‖ ≤ value + error
/// ```
/// Lanczos's iteration for aᵀ · a begins with a random vector. An eigenvalue λ above all Ritz values belongs to an
/// eigenvector of which that vector has a part γ; the polynomial of the k-th vector is p_k(λ) ≤ 1 / |γ|, and beyond
/// the Ritz values p_k grows fast. So λ is below the t where p_k(t) = 1 / τ, unless |γ| < τ (van Dorsselaer,
/// Hochstenbach and van der Vorst, "Computing probabilistic bounds for extreme eigenvalues of symmetric matrices with
/// the Lanczos method", 2000), whose probability is at most τ √(2 n / π). Several vectors are multiplied at once, in
/// little more time than one. The bound fails only if all of them have such a small part, so τ need not be small.

#include <shardwise/kernel/random.hpp>
#include <shardwise/linalg/functions.hpp>

namespace shardwise {

/// ‖a‖ is at least `value` and at most `value + error`.
struct Norm2 {
  double value = 0, error = 0;
};
/// How `norm2` computes.
struct Norm2Options {
  /// `error` is at most this times `value`, if the limit of steps suffices, at most 1000 + 10 n. At least 32 ε.
  double tolerance = 1e-3;
  std::uint64_t seed = 0;  ///< of the first vectors
};

namespace detail {

inline constexpr Index norm2_runs = 8;  // vectors

/// The tridiagonal matrix of Lanczos's iteration from one vector.
struct Lanczos {
  std::vector<double> diagonal, beside;

  /// The logarithm of the largest of the polynomials at t, at least 0; -1 if t is not above all of their zeros.
  double growth(double t) const {
    double log = 0, largest = 0, known = 0;
    for (std::size_t k = 0; k < diagonal.size(); ++k) {
      const double d = t - diagonal[k] - known;
      if (!(d > 0)) return -1;
      known = beside[k] * beside[k] / d;
      log += std::log(d / beside[k]);
      largest = std::max(largest, log);
    }
    return largest;
  }
  /// Two close numbers up to `most`: at the first, the growth is not `enough` yet.
  std::pair<double, double> where(double enough, double most) const {
    double low = 0, high = most;
    for (int halved = 0; halved < 60; ++halved) {
      const double middle = (low + high) / 2;
      (growth(middle) < enough ? low : high) = middle;
    }
    return {low, high};
  }
};

/// w = aᵀ · a · v / unit², for v and w [n, columns], whole on every rank. A dry run has none.
template <TensorType A, class T = typename A::Element>
constexpr void multiply_by_gram(const A& a, double unit, Index columns, const std::type_identity_t<T>* v,
                                std::type_identity_t<T>* of_rows, std::type_identity_t<T>* w) {
  using enum kernel::Transpose;
  constexpr AxisSet by_rows = A::layout.axes_sharding(0), by_columns = A::layout.axes_sharding(1);
  const MeshView mesh(a.mesh());
  const auto block = a.view();
  const Index m = block.size[0], n = block.size[1], all = a.shape()[1];
  count_work(a.mesh(), 4 * m * n * columns, 2 * m * n * Index{sizeof(T)}, "norm2");
  if (!mesh.dry()) {
    std::transform(v, v + all * columns, w, [=](T x) { return x / static_cast<T>(unit); });
    kernel::gemm(no, no, m, columns, n, block.data, n, w + block.begin[1] * columns, columns, of_rows,
                 columns, false);
  }
  mesh.all_reduce(of_rows, m * columns, data_type_of<T>(), ReduceOp::sum, by_columns);
  if (!mesh.dry()) {
    std::transform(of_rows, of_rows + m * columns, of_rows, [=](T x) { return x / static_cast<T>(unit); });
    std::fill_n(w, all * columns, T{0});
    kernel::gemm(yes, no, n, columns, m, block.data, n, of_rows, columns, w + block.begin[1] * columns,
                 columns, false);
  }
  mesh.all_reduce(w, all * columns, data_type_of<T>(), ReduceOp::sum, by_rows | by_columns);
}

/// From a matrix whose Frobenius norm is `unit` times this.
template <TensorType A, Index runs = norm2_runs>
Norm2 bounds_of_norm(const A& a, double unit, double frobenius, const Norm2Options& options) {
  using T = typename A::Element;
  const double n = static_cast<double>(a.shape()[1]), most = frobenius * frobenius;
  const double tolerance = std::max(options.tolerance, 32. * std::numeric_limits<T>::epsilon());
  const double enough = std::log(std::sqrt(2 * n / 3.14159) / std::pow(1e-10, 1. / runs));  // of 1 / τ
  // Several times what suffices, also with rounding errors.
  const auto last = static_cast<Index>(std::min(8 * (enough + 8) / std::sqrt(tolerance), 1000 + 10 * n));

  RowMajorMatrix<T> v(a.shape()[1], runs), w(v.rows(), runs), of_rows(a.local_shape()[0], runs);
  RowMajorMatrix<T> before = RowMajorMatrix<T>::Zero(v.rows(), runs);
  using Row = Eigen::Array<double, 1, runs>;
  const auto normalize = [](RowMajorMatrix<T>& x) {
    const Row sizes = x.template cast<double>().colwise().norm();
    x *= (sizes > 0).select(sizes.inverse(), 0).matrix().template cast<T>().asDiagonal();
    return sizes;
  };
  kernel::fill_normal(v.size(), options.seed, 0, 0., 1., v.data());
  normalize(v);
  Row beside = Row::Zero();
  std::array<Lanczos, runs> found;
  double value = 0;
  for (Index step = 1, next = 2;; ++step) {
    multiply_by_gram(a, unit, runs, v.data(), of_rows.data(), w.data());
    const Row diagonal =
        (v.template cast<double>().array() * w.template cast<double>().array()).colwise().sum();
    w -= v * diagonal.matrix().template cast<T>().asDiagonal();
    w -= before * beside.matrix().template cast<T>().asDiagonal();
    before.swap(v);
    v.swap(w);
    beside = normalize(v);
    for (std::size_t run = 0; run < runs; ++run) {
      found[run].diagonal.push_back(diagonal[static_cast<Index>(run)]);
      found[run].beside.push_back(beside[static_cast<Index>(run)]);
    }
    if (step < next && step < last) continue;
    next = step + 2 + step / 8;
    for (const auto& run : found) value = std::max(value, run.where(0, most).first);
    const double within = value * (1 + tolerance) * (1 + tolerance);
    const bool all =
        std::all_of(found.begin(), found.end(), [&](auto& run) { return run.growth(within) >= enough; });
    if (!all && step < last) continue;
    double bound = value;
    for (const auto& run : found) bound = std::max(bound, run.where(enough, most).second);
    value = std::sqrt(value);
    return {value * unit, (std::sqrt(bound) - value) * unit};
  }
}

}  // namespace detail

/// a: [m, n], float or double, in any layout that is not pending. The lower bound holds for all a. The upper one does
/// unless the random vectors, of `seed`, have almost no part in a singular vector, which has a probability below 1e-10
/// for each a. Both hold up to rounding errors, mostly about √n ε. The norm of zeros, or of no elements, is 0
/// with error 0. On other meshes `value` differs by rounding errors, or else within `error`.
///
/// A step multiplies a and aᵀ by 8 vectors. For normal random numbers there are 25 to 60 steps, and fewer if the
/// largest singular values are some distance apart. A dry run counts 16. Throws `std::invalid_argument` unless the
/// tolerance is positive, and on all ranks the same `std::runtime_error` if a is not finite. Collective.
template <TensorType A, WellFormed Result = detail::factored_off_tape<detail::MatrixFunction, A>>
constexpr Norm2 norm2(const A& a, const Norm2Options& options = {}) {
  if (!(options.tolerance > 0))
    detail::fail({"norm2: the tolerance is ", options.tolerance, ", expected above 0"});
  const double unit = detail::unit_of("norm2", a), frobenius = detail::frobenius_norm(a, unit);
  if (a.mesh().dry()) {
    for (int step = 0; step < 16; ++step)
      detail::multiply_by_gram(a, unit, detail::norm2_runs, nullptr, nullptr, nullptr);
    return {};
  }
  if (frobenius == 0) return {};
  return detail::bounds_of_norm(a, unit, frobenius, options);
}
template <class A, IllFormed Why = detail::factored_off_tape<detail::MatrixFunction, A>>
Why norm2(const A&, const Norm2Options& = {});  // see Why

}  // namespace shardwise
