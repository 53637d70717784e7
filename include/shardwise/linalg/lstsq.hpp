// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// `lstsq`: least squares with a tall matrix whose rows are cut, and `svd_lowrank`: its largest singular values and
/// their vectors. Both take tensors only: they have no gradient.
///
/// ```
/// auto x = lstsq(a, b);                       // the least ‖a · x - b‖; a: [m, n], b: [m, r], both Shard<0>
/// auto y = lstsq(a, b, {.minimum_norm = true});   // of dependent columns, too
/// auto [u, s, v] = svd_lowrank(a, 10, seed);  // a ≈ u · diag(s) · vᵀ
/// ```

#include <shardwise/linalg/pivoted_qr.hpp>
#include <shardwise/linalg/spectral.hpp>
#include <shardwise/tensor/factories.hpp>

namespace shardwise {

/// How `lstsq` treats dependent columns.
struct LstsqOptions {
  bool minimum_norm = false;  ///< of all solutions take that of least norm; without it they are an error
  double tolerance = 0;       ///< if so, that of `pivoted_qr`, which decides on the rank
};

namespace detail {

struct LeastSquares {
  static constexpr Signature signature = Signature::of("mn, mr -> nr").whole('n');
};

/// aᵀ · b, finished.
template <TensorType A, TensorType B>
constexpr auto inner_products(const A& a, const B& b) {
  auto c = contract<"mn, mr -> nr">(a, b);
  return redistribute_to<finished_of<decltype(c)>>(std::move(c));
}

/// x := r⁻¹ · x, where r is the upper triangular factor of a matrix of m rows, with a diagonal that is not negative.
template <class T>
void solve_upper(Index m, const View<const T, 2>& r, const View<T, 2>& x) {
  const Index n = r.columns();
  const auto columns = kernel::detail::mapped(n, n, r.data);
  // A column that depends on others left up to 25 ε of 100 thousand rows, and 160 ε of 4 million: below this.
  const auto rows = static_cast<double>(std::min<Index>(m, 65536));
  const double rounding =
      4 * static_cast<double>(std::numeric_limits<T>::epsilon()) * (static_cast<double>(n) + std::sqrt(rows));
  for (Index i = 0; i < n; ++i) {
    const auto size = static_cast<double>(columns.col(i).stableNorm());
    if (static_cast<double>(columns(i, i)) > rounding * size) continue;
    fail<std::runtime_error>({"lstsq: column ", i,
                              " of the matrix is zero, or depends on the columns before it: ",
                              "{.minimum_norm = true} finds the solution of least norm"});
  }
  kernel::solve_triangular<Side::left>(n, x.columns(), {.upper = true}, r.data, n, x.data, x.columns());
}

/// x := the y of least norm with r · y[permutation] = x in the first `rank` rows; those of r have full rank.
template <class T>
void solve_with_least_norm(const View<const T, 2>& r, Index rank, const std::vector<Index>& permutation,
                           const View<T, 2>& x) {
  using enum kernel::Transpose;
  const Index n = r.columns(), columns = x.columns();
  RowMajorMatrix<T> y = RowMajorMatrix<T>::Zero(n, columns), t(rank, rank);
  if (rank > 0) {  // rᵀ = z · t
    RowMajorMatrix<T> z = kernel::detail::mapped(n, n, r.data).topRows(rank).transpose();
    kernel::detail::qr_of_block(n, rank, z.data(), t.data());
    kernel::solve_triangular<Side::left>(rank, columns, {.upper = true, .transposed = true}, t.data(), rank,
                                         x.data, columns);
    kernel::gemm(no, no, n, columns, rank, z.data(), rank, x.data, columns, y.data(), columns, false);
  }
  for (Index i = 0; i < n; ++i)
    std::copy_n(y.data() + i * columns, columns, x.data + permutation[static_cast<std::size_t>(i)] * columns);
}

}  // namespace detail

/// The x [n, r] with the least ‖a · x - b‖ for each column of b, by `qr(a)`. a: [m, n] with m ≥ n, b: [m, r], float or
/// double; rows are cut alike in both, or columns of b are. x is full where rows were cut. Throws
/// `std::invalid_argument` if the extents do not fit, or m < n. All ranks throw the same `std::runtime_error` if a is
/// not finite, or if its columns are dependent up to rounding errors, whatever their sizes are. With
/// `{.minimum_norm = true}` it computes by `pivoted_qr(a)`: if that finds dependent columns, x is of all solutions the
/// one of least ‖x‖, which treats columns that are much smaller than others as zeros.
template <Operand A, Operand B, WellFormed Term = detail::factored_off_tape<detail::LeastSquares, A, B>>
constexpr auto lstsq(const A& a, const B& b, LstsqOptions options = {}) {
  if constexpr (AbstractOperand<A> || AbstractOperand<B>) {
    return Abstract<detail::finished_of<tensor_of<Term>>, false, false>{};
  } else {
    if (a.shape()[0] != b.shape()[0]) {
      detail::fail({"lstsq: ", a.shape(), " and ", b.shape(), " have different numbers of rows"});
    }
    if (a.shape()[0] < a.shape()[1]) {
      detail::fail({"lstsq: a matrix of ", a.shape(), " has more columns than rows"});
    }
    if (options.tolerance != 0 && !options.minimum_norm) {
      detail::fail(
          {"lstsq: the tolerance is ", options.tolerance, ", but only {.minimum_norm = true} has one"});
    }
    if (options.minimum_norm) {
      const auto f = pivoted_qr(a, {options.tolerance});
      auto x = detail::inner_products(f.q, b);
      if (!x.mesh().dry()) detail::solve_with_least_norm(f.r.view(), f.rank, f.permutation, x.writable());
      return x;
    }
    const auto [q, r] = qr(a);
    auto x = detail::inner_products(q, b);
    if (x.mesh().dry()) return x;
    detail::solve_upper(a.shape()[0], r.view(), x.writable());
    return x;
  }
}
template <class A, class B, IllFormed Why = detail::factored_off_tape<detail::LeastSquares, A, B>>
Why lstsq(const A&, const B&, LstsqOptions = {});  // see Why

/// The `rank` largest singular values of a [m, n], and their vectors, by random projections and two steps of power
/// iteration (Halko, Martinsson and Tropp, "Finding structure with randomness", 2011). Where singular
/// values fall off slowly they are approximations, some percent too small: see docs/learn/linear-algebra.md; `norm2`
/// bounds the first. a: float or double, rows cut over any number of axes; `u` is [m, rank] and has the layout of a;
/// every rank has `s`, [rank], and `v`, [n, rank]. The result is the same for the same seed on any mesh, except for
/// rounding. Throws `std::invalid_argument` if `rank` is negative or above min(m, n), and `std::runtime_error` on all
/// ranks if a is not finite.
template <Operand A, WellFormed U = detail::factored_off_tape<detail::QrLayout, A>>
constexpr auto svd_lowrank(const A& a, Index rank, std::uint64_t seed) {
  if constexpr (AbstractOperand<A>) {
    using V = Abstract<typename detail::WholeOf<tensor_of<U>>::type, false, false>;
    return Svd<U, result_of<detail::VectorOfMatrix, V>, V>{};
  } else {
    const auto& mesh = common_mesh(a);
    const Index m = a.shape()[0], n = a.shape()[1], least = std::min(m, n);
    if (rank < 0 || rank > least) {
      detail::fail({"svd_lowrank: rank ", rank, " of a matrix ", a.shape(), "; expected 0 to ", least});
    }
    const Index columns = std::min(rank + 10, least);
    whole_of<A> directions(mesh, {n, columns});
    fill_normal(directions, seed);
    auto q = qr(detail::times_columns(a, directions, columns)).q;
    for (int step = 0; step < 2; ++step) {
      const auto rows = qr(redistribute_to<whole_of<A>>(detail::inner_products(a, q))).q;
      q = qr(detail::times_columns(a, rows, columns)).q;
    }
    const auto projected = svd(redistribute_to<whole_of<A>>(detail::inner_products(q, a)));
    Svd<A, std::remove_const_t<decltype(projected.s)>, whole_of<A>> result{
        detail::times_columns(q, projected.u, rank), {mesh, {rank}}, {mesh, {n, rank}}};
    if (!mesh.dry()) {
      std::copy_n(projected.s.data(), rank, result.s.writable().data);
      kernel::detail::mapped(n, rank, result.v.writable().data) = projected.v.local().leftCols(rank);
    }
    return result;
  }
}
template <class A, IllFormed Why = detail::factored_off_tape<detail::QrLayout, A>>
Why svd_lowrank(const A&, Index, std::uint64_t);  // see Why
WrittenOtherwise<Hint::pass_a_seed_as_the_next_argument> svd_lowrank(const Operand auto&, Index);

}  // namespace shardwise
