// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// `pivoted_qr` of a tall matrix whose rows are cut over any number of axes. It finds the rank, and columns that span
/// all others.
///
/// ```
/// auto [q, r, permutation, rank] = pivoted_qr(x);   // column permutation[j] of x is column j of q · r
/// auto f = pivoted_qr(x, {.tolerance = 1e-6});
/// ```
/// This is CQRRPT (Melnichenko et al., "CholeskyQR with randomization and pivoting for tall matrices", 2023). Every rank
/// factorizes a sketch of x with pivots (linalg/sketch.hpp). The triangular factor makes columns of x nearly
/// orthonormal, and then one step of CholeskyQR suffices: two all-reduces, of 1.25 n² and of n² elements for large n.

#include <Eigen/QR>

#include <shardwise/linalg/qr.hpp>

namespace shardwise {

/// How `pivoted_qr` decides on the rank.
struct PivotedQrOptions {
  /// Columns are dependent if their part that is orthogonal to the columns before is at most this multiple of r(0, 0).
  /// Rounding errors are always below: 4 ε (n + √min(m, 65536)).
  double tolerance = 0;
};

/// The factors of x with its columns in another order: see `pivoted_qr`.
template <class Q, class R>
struct PivotedQr {
  Q q;
  R r;
  std::vector<Index> permutation;
  Index rank = 0;
};

namespace detail {

/// The factor of a sketch [d, n] with pivots, transposed: l [n, n] is lower triangular with a positive diagonal. Its
/// columns from the rank on are those of a multiple of the identity. Returns the rank.
template <class T>
Index factor_of_sketch(Index d, Index n, const T* sketch, double tolerance, T* l, std::vector<Index>& permutation) {
  using Columns = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic>;
  const T largest = static_cast<T>(kernel::largest_magnitude(d * n, sketch));
  if (!is_finite(largest)) {
    throw std::runtime_error("pivoted_qr: the matrix has NaN or infinity, or its norm overflows");
  }
  const T unit = largest > 0 ? largest : T{1};
  std::fill_n(l, n * n, T{0});
  if (n == 0) return 0;
  const Eigen::ColPivHouseholderQR<Columns> f(kernel::detail::mapped(d, n, sketch) / unit);
  const auto& r = f.matrixQR();
  const T first = largest > 0 ? std::abs(r(0, 0)) : T{1};
  Index rank = 0;
  while (rank < n && static_cast<double>(std::abs(r(rank, rank))) > tolerance * static_cast<double>(first)) ++rank;
  for (Index j = 0; j < n; ++j) {
    permutation[static_cast<std::size_t>(j)] = f.colsPermutation().indices()[j];
    for (Index i = 0; i < std::min(j + 1, rank); ++i) l[j * n + i] = (r(i, i) < 0 ? -r(i, j) : r(i, j)) * unit;
    if (j >= rank) l[j * n + j] = first * unit;
  }
  return rank;
}

/// The part of the norm of a matrix [m, n] that rounding errors may make.
template <class T>
double rounding_of(Index m, Index n) {
  // A column that depends on others left up to 25 ε of 100 thousand rows, and 160 ε of 4 million: below this.
  return 4 * static_cast<double>(std::numeric_limits<T>::epsilon()) *
         (static_cast<double>(n) + std::sqrt(static_cast<double>(std::min<Index>(m, 65536))));
}

/// Nothing if the sketch lost a column, which its random signs make improbable.
template <TensorType X>
constexpr std::optional<PivotedQr<X, whole_of<X>>> pivoted_qr_by(const X& x, double tolerance, std::uint64_t seed) {
  const auto& mesh = x.mesh();
  const Index m = x.local_shape()[0], n = x.shape()[1];
  const auto rows = sketch(x, seed);
  const Index d = rows.shape()[0];
  count_work(mesh, 2 * d * n * n, 0, "pivoted_qr");
  finished_of<decltype(gram(x))> l(mesh, {n, n});
  std::vector<Index> permutation(static_cast<std::size_t>(n), Index{0});
  std::iota(permutation.begin(), permutation.end(), Index{0});
  Index rank = n;
  X q(mesh, x.shape());
  if (!mesh.dry()) {
    rank = factor_of_sketch(d, n, rows.data(), tolerance, l.writable().data, permutation);
    auto* to = q.writable().data;
    for (const auto* from = x.data(); from != x.data() + m * n; from += n) {
      for (const Index j : permutation) *to++ = from[j];
    }
  }
  // Pivoting leaves columns of the sketch that are at most `tolerance`; a sketch shortens none by more than 100.
  auto f = cholesky_qr_after(q.data(), std::move(q), l, limit_after_a_sketch, rank, 100 * tolerance);
  if (!f) return {};
  return PivotedQr<X, whole_of<X>>{std::move(f->q), std::move(f->r), std::move(permutation), rank};
}

}  // namespace detail

template <Operand X, WellFormed Q = detail::factored_off_tape<detail::QrLayout, X>>
constexpr auto pivoted_qr(const X& x, PivotedQrOptions options = {}) {
  if constexpr (AbstractOperand<X>) {
    return PivotedQr<Q, detail::abstract_result<typename detail::WholeOf<tensor_of<Q>>::type, X>>{};
  } else {
    common_mesh(x);
    if (x.shape()[0] < x.shape()[1]) {
      detail::fail({"pivoted_qr: a matrix of ", x.shape(), " has more columns than rows"});
    }
    if (!(options.tolerance >= 0 && options.tolerance < 1)) {
      detail::fail({"pivoted_qr: the tolerance is ", options.tolerance, ", but must be at least 0 and below 1"});
    }
    const double rounding =
        x.mesh().dry() ? 0 : detail::rounding_of<typename X::Element>(x.shape()[0], x.shape()[1]);
    for (std::uint64_t seed = 1; seed <= 3; ++seed) {
      if (auto found = detail::pivoted_qr_by(x, std::max(options.tolerance, rounding), seed)) return *std::move(found);
    }
    throw std::runtime_error("pivoted_qr: three random sketches of the matrix lost one of its columns");
  }
}
template <class X, IllFormed Why = detail::factored_off_tape<detail::QrLayout, X>>
Why pivoted_qr(const X&, PivotedQrOptions = {});  // see Why

}  // namespace shardwise
