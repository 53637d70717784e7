// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// `eigh` and `svd`: eigenvalues and eigenvectors of symmetric matrices, and singular values and vectors. The matrices
/// are whole on every rank; the leading dimensions, a batch of them, may be cut in any way. `svd` also takes a tall
/// matrix whose rows are cut. Both take tensors only: they have no gradient.
///
/// ```
/// auto [values, vectors] = eigh(a);   // a = vectors · diag(values) · vectorsᵀ
/// auto [u, s, v] = svd(x);            // x = u · diag(s) · vᵀ; u is laid out as x
/// ```

#include <shardwise/kernel/spectral.hpp>
#include <shardwise/linalg/qr.hpp>

namespace shardwise {

namespace detail {

/// Matrices, and vectors, with the batch of their operand.
struct MatrixOfMatrix {
  static constexpr Signature signature = Signature::of("...mn -> ...pq").whole('m').whole('n');
};
struct VectorOfMatrix {
  static constexpr Signature signature = Signature::of("...mn -> ...p").whole('m').whole('n');
};

/// Calls factor(i) for each matrix of the block of `x`, [n, n] if it must be symmetric. It returns -1, a row that is
/// not symmetric, or n for another failure, for which all ranks then throw.
template <TensorType X>
constexpr void factor_each(const char* name, const X& x, Index n, auto factor) {
  const Index matrices = x.mesh().dry() ? 0 : x.view().extent(0, X::rank - 2);
  Index failed = no_failure;
  for (Index i = 0; i < matrices && failed == no_failure; ++i) {
    const Index row = factor(i);
    if (row >= 0) failed = matrix_number(x.view(), i) * (n + 1) + row;
  }
  const Index first = first_of_all(x, failed);
  if (first == no_failure) return;
  if (first % (n + 1) < n) fail_asymmetric(name, x.shape(), first / (n + 1), first % (n + 1));
  fail<std::runtime_error>({name, ": ", matrix_text(x.shape(), first / (n + 1)),
                            " is not finite, or the iteration did not converge"});
}

}  // namespace detail

/// Eigenvalues and eigenvectors, as `eigh` returns them; and below, the factors of a = u · diag(s) · vᵀ that `svd`
/// returns.
template <class Values, class Vectors>
struct Eigh {
  Values values;
  Vectors vectors;
};
template <class U, class S, class V>
struct Svd {
  U u;
  S s;
  V v;
};

/// a: [b…, n, n], float or double, of which it takes the symmetric part (a + aᵀ) / 2. `values` is [b…, n], in
/// increasing order; `vectors` is [b…, n, n], and its columns are the eigenvectors. Throws `std::invalid_argument` if
/// the matrices are not square, or on all ranks if one differs from its transpose by more than √ε of its largest
/// element. If a matrix is not finite, all ranks throw the same `std::runtime_error`, which names
/// it. Collective over the axes that cut the batch (see linalg/batch.hpp).
template <Operand A, WellFormed Vectors = detail::factored_off_tape<detail::MatrixOfMatrix, A>>
constexpr auto eigh(const A& a) {
  using Result = Eigh<result_of<detail::VectorOfMatrix, A>, Vectors>;
  if constexpr (AbstractOperand<A>) {
    return Result{};
  } else {
    const auto& mesh = common_mesh(a);
    detail::check_square("eigh", a.shape());
    Shape<A::rank - 1> ends{};
    for (int dim = 0; dim < A::rank - 1; ++dim) ends[dim] = a.shape()[dim];
    Result y{{mesh, ends}, {mesh, a.shape()}};
    const auto x = a.view();
    const Index n = x.columns();
    detail::count_work(mesh, 9 * x.elements() * n);
    detail::factor_each("eigh", a, n, [&](Index i) {
      const Index row = detail::asymmetric_row(n, x.data + i * n * n);
      if (row >= 0) return row;
      const bool found = kernel::eigh(n, x.data + i * n * n, y.values.writable().data + i * n,
                                      y.vectors.writable().data + i * n * n);
      return found ? Index{-1} : n;
    });
    return y;
  }
}
template <class A, IllFormed Why = detail::factored_off_tape<detail::MatrixOfMatrix, A>>
Why eigh(const A&);  // see Why

namespace detail {

/// The type of u: of whole matrices, or of a matrix whose rows are cut; or why there is none.
template <class X>
using left_vectors = std::conditional_t<IllFormed<factored_off_tape<MatrixOfMatrix, X>> &&
                                            WellFormed<factored_off_tape<QrLayout, X>>,
                                        factored_off_tape<QrLayout, X>, factored_off_tape<MatrixOfMatrix, X>>;

/// x = q · r, and the singular vectors of r on every rank.
template <class U, TensorType X>
constexpr auto svd_of_rows(const X& x) {
  const Index m = x.shape()[0], n = x.shape()[1];
  if (m < n) {
    fail({"svd: a matrix ", x.shape(),
          " whose rows are cut has more columns than rows: pass its transpose, and swap u and v"});
  }
  const auto [q, r] = qr(x);
  const auto [u, s, v] = svd(r);
  return Svd<U, std::remove_const_t<decltype(s)>, std::remove_const_t<decltype(v)>>{times_columns(q, u, n), s,
                                                                                    v};
}

}  // namespace detail

/// x: [b…, m, n], float or double, whole matrices; or [m, n] with m ≥ n and rows cut over any number of axes. With
/// k = min(m, n), `u` is [b…, m, k], `s` is [b…, k], in decreasing order, and `v` is [b…, n, k]. `u` is laid out as x;
/// if rows are cut, every rank has `s` and `v`. Errors and communication as for `eigh`; if rows are cut, as for `qr`.
template <Operand X, WellFormed Vectors = detail::left_vectors<X>>
constexpr auto svd(const X& x) {
  constexpr bool whole = WellFormed<detail::factored_off_tape<detail::MatrixOfMatrix, X>>;
  if constexpr (AbstractOperand<X> && !whole) {
    using V = Abstract<typename detail::WholeOf<tensor_of<Vectors>>::type, false, false>;
    return Svd<Vectors, result_of<detail::VectorOfMatrix, V>, V>{};
  } else if constexpr (AbstractOperand<X>) {
    return Svd<Vectors, result_of<detail::VectorOfMatrix, X>, Vectors>{};
  } else if constexpr (!whole) {
    return detail::svd_of_rows<Vectors>(x);
  } else {
    using Result = Svd<Vectors, result_of<detail::VectorOfMatrix, X>, Vectors>;
    const auto& mesh = common_mesh(x);
    constexpr int rank = X::rank;
    const Index m = x.shape()[rank - 2], n = x.shape()[rank - 1], k = std::min(m, n);
    Shape<rank> of_u = x.shape(), of_v = x.shape();
    of_u[rank - 1] = of_v[rank - 1] = k;
    of_v[rank - 2] = n;
    Shape<rank - 1> ends{};
    for (int dim = 0; dim < rank - 2; ++dim) ends[dim] = x.shape()[dim];
    ends[rank - 2] = k;
    Result y{{mesh, of_u}, {mesh, ends}, {mesh, of_v}};
    const auto block = x.view();
    detail::count_work(mesh, block.extent(0, rank - 2) * k * k * (6 * std::max(m, n) + 20 * k));
    detail::factor_each("svd", x, 0, [&](Index i) {
      return kernel::svd(m, n, block.data + i * m * n, y.u.writable().data + i * m * k,
                         y.s.writable().data + i * k, y.v.writable().data + i * n * k)
                 ? Index{-1}
                 : Index{0};
    });
    return y;
  }
}
template <class X, IllFormed Why = detail::left_vectors<X>>
Why svd(const X&);  // see Why

}  // namespace shardwise
