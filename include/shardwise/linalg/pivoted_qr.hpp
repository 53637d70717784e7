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
/// This is CQRRPT (Melnichenko et al., "CholeskyQR with randomization and pivoting for tall matrices", 2023). Every
/// rank factorizes a sketch of x with pivots (linalg/sketch.hpp). The triangular factor makes columns of x nearly
/// orthonormal, and then one step of CholeskyQR suffices: two all-reduces, of 1.25 n² and of n² elements for large n.

#include <shardwise/kernel/pivoted_triangle.hpp>
#include <shardwise/linalg/qr.hpp>

namespace shardwise {

/// How `pivoted_qr` decides on the rank: diagonal elements of r are above this multiple of the first one, which is at
/// least 2 ε (n + 32), for rounding errors.
struct PivotedQrOptions {
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

/// The factor of a sketch [d, n] / unit with pivots, transposed: l [n, n] is lower triangular with a positive diagonal.
/// Its columns from the rank on are those of a multiple of the identity. Returns the rank.
template <class T>
Index factor_of_sketch(Index d, Index n, const T* sketch, T unit, double tolerance, T* l,
                       Index* permutation) {
  std::fill_n(l, n * n, T{0});
  if (n == 0) return 0;
  const RowMajorMatrix<T> scaled = kernel::detail::mapped(d, n, sketch) / unit;
  RowMajorMatrix<T> r(n, n);
  kernel::pivoted_triangle(d, n, scaled.data(), r.data(), permutation);
  const auto size = [&](Index i) { return static_cast<double>(std::abs(r(i, i))); };
  Index rank = 0;
  while (rank < n && size(rank) > tolerance * size(0)) ++rank;
  for (Index j = 0; j < n; ++j) {
    for (Index i = 0; i < std::min(j + 1, rank); ++i) l[j * n + i] = r(i, i) < 0 ? -r(i, j) : r(i, j);
    if (j >= rank) l[j * n + j] = rank > 0 ? std::abs(r(0, 0)) : T{1};
  }
  return rank;
}

/// Nothing if the sketch lost a column, which its random signs make improbable.
template <TensorType X>
constexpr std::optional<PivotedQr<X, whole_of<X>>> pivoted_qr_by(const X& x, double tolerance,
                                                                 std::uint64_t seed) {
  using T = typename X::Element;
  const auto& mesh = x.mesh();
  const Index m = x.local_shape()[0], n = x.shape()[1];
  const auto rows = sketch(x, seed);
  const Index d = rows.shape()[0];
  count_work(mesh, 2 * d * n * n, 0, "pivoted_qr");
  finished_of<decltype(gram(x))> l(mesh, {n, n});
  std::vector<Index> permutation(static_cast<std::size_t>(n), Index{0});
  std::iota(permutation.begin(), permutation.end(), Index{0});
  Index rank = n;
  T unit = 1;
  X q(mesh, x.shape());
  if (!mesh.dry()) {
    check_finite("pivoted_qr", d * n, rows.data());
    const double largest = kernel::largest_magnitude(d * n, rows.data());
    if (largest > 0) unit = static_cast<T>(std::ldexp(1., std::ilogb(largest)));
    rank = factor_of_sketch(d, n, rows.data(), unit, tolerance, l.writable().data, permutation.data());
    T* to = q.writable().data;
    for (const T* from = x.data(); from != x.data() + m * n; from += n) {
      for (const Index j : permutation) *to++ = from[j] / unit;
    }
  }
  // Pivoting leaves columns of the sketch that are at most `tolerance`; a sketch shortens none by more than 100.
  auto f = cholesky_qr_after<X>(nullptr, std::move(q), l, limit_after_a_sketch, rank, 100 * tolerance);
  if (!f) return {};
  if (!mesh.dry()) {
    T* const r = f->r.writable().data;
    for (Index i = 0; i < n * n; ++i) r[i] *= unit;
    check_finite("pivoted_qr", n * n, r);
  }
  return PivotedQr<X, whole_of<X>>{std::move(f->q), std::move(f->r), std::move(permutation), rank};
}

}  // namespace detail

/// x: [m, n] with m ≥ n, float or double. x[:, permutation] = q · r up to `tolerance`, where `permutation` has n
/// column numbers. q: [m, n], laid out as x; its first `rank` columns are orthonormal, the others are zero. r: [n, n]
/// on every rank, upper triangular; the first `rank` numbers on its diagonal are positive and about decreasing, and
/// the rows after them are zero. So the first `rank` columns of x[:, permutation] span the others. The norm of what q
/// · r lacks of a column is about `tolerance` times r(0, 0). The part that is in the space of q is exact up to
/// rounding. A dry run counts full rank, which communicates alike. It has no gradient. Throws `std::invalid_argument`
/// if m < n, or if the tolerance is not in [0, 1). All ranks throw the same `std::runtime_error` if x is not finite,
/// or if three sketches in turn lose a column, which none is known to do. Collective over the axes that cut x.
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
      detail::fail(
          {"pivoted_qr: the tolerance is ", options.tolerance, ", but must be at least 0 and below 1"});
    }
    // Sketches of 4 million rows left up to 21 ε of a column that depends on two others, and 8 ε of rank 128.
    const double rounding = 2 * static_cast<double>(std::numeric_limits<typename X::Element>::epsilon()) *
                            static_cast<double>(x.shape()[1] + 32);
    for (std::uint64_t seed = 1; seed <= 3; ++seed) {
      if (auto found = detail::pivoted_qr_by(x, std::max(options.tolerance, rounding), seed))
        return *std::move(found);
    }
    throw std::runtime_error("pivoted_qr: three random sketches of the matrix lost one of its columns");
  }
}
template <class X, IllFormed Why = detail::factored_off_tape<detail::QrLayout, X>>
Why pivoted_qr(const X&, PivotedQrOptions = {});  // see Why

}  // namespace shardwise
