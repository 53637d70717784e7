// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// `cholesky`: the lower triangular factor l of symmetric positive definite matrices, a = l · lᵀ. The matrices are
/// whole on every rank; the leading dimensions, a batch of them, may be cut in any way.
///
/// ```
/// l = cholesky(a);                                           // a: [b…, n, n]
/// x = solve_triangular(l, solve_triangular(l, b), {.transposed = true});   // a · x = b
/// ```

#include <shardwise/kernel/factor.hpp>
#include <shardwise/linalg/batch.hpp>

namespace shardwise {

/// A matrix that is not positive definite gives NaN in the rows of l from the failing pivot on.
struct CholeskyOp {
  static constexpr const char* name = "cholesky";
  static constexpr Signature signature = Signature::of("...ij -> ...ij").whole('i').whole('j');
  static constexpr Saved saved{.output = true};
  static constexpr Hint hint_for_blocks = Hint::use_CholeskyFactor_which_takes_blocks;

  template <int Rank>
  static constexpr Shape<Rank> shape(const Shape<Rank>& a) {
    detail::check_square(name, a);
    return a;
  }
  static constexpr std::int64_t flops(const auto& y, const auto&) { return y.elements() * y.columns() / 3; }
  static constexpr std::int64_t gradient_flops(unsigned, const auto& y, const auto&) {
    return 4 * y.elements() * y.columns();
  }

  static void forward(auto y, void*, auto a) {
    const Index n = y.columns(), matrix = n * n;
    for (Index i = 0; i < y.elements(); i += matrix) kernel::cholesky(n, a.data + i, y.data + i);
  }

  /// Murray, "Differentiation of the Cholesky decomposition", 2016: with Φ, which takes the lower triangle and halves
  /// its diagonal, the gradient is the symmetric part of l⁻ᵀ · Φ(lᵀ · dl) · l⁻¹.
  template <class T, int Rank>
  static void pull_back(View<const T, Rank> dy, View<const T, Rank> y, const void*, Input<T, Rank> a) {
    using enum kernel::Transpose;
    struct Product;
    const Index n = y.columns(), matrix = n * n;
    T* p = kernel::scratch<Product, T>(matrix);
    for (Index at = 0; at < y.elements(); at += matrix) {
      const T* l = y.data + at;
      T* da = a.gradient + at;
      kernel::gemm(yes, no, n, n, n, l, n, dy.data + at, n, p, n, false);
      for (Index i = 0; i < n; ++i) {
        p[i * n + i] /= 2;
        std::fill(p + i * n + i + 1, p + (i + 1) * n, T{0});
      }
      kernel::solve_triangular<kernel::Side::left>(n, n, {.transposed = true}, l, n, p, n);
      kernel::solve_triangular<kernel::Side::right>(n, n, {}, l, n, p, n);
      for (Index i = 0; i < n; ++i) {
        for (Index j = 0; j < n; ++j) da[i * n + j] = (p[i * n + j] + p[j * n + i]) / 2;
      }
    }
  }
};

namespace detail {

/// The first failure on all ranks, as (number of the matrix) · 2 n + a row that is not symmetric, or + n + a pivot; or
/// `no_failure`. `row_of(i)`: such a row of this rank's matrix i, or -1.
template <TensorType L>
constexpr Index failed_pivot(const L& l, auto row_of) {
  Index first = no_failure;
  if (!l.mesh().dry()) {
    const auto y = l.view();
    const Index n = y.columns();
    for (Index i = 0; i * n < y.rows() && first == no_failure; ++i) {
      const Index row = row_of(i);
      Index pivot = 0;
      while (row < 0 && pivot < n && !is_nan(y.data[(i * n + pivot) * n + pivot])) ++pivot;
      if (row >= 0 || pivot < n) first = matrix_number(y, i) * 2 * n + (row >= 0 ? row : n + pivot);
    }
  }
  return first_of_all(l, first);
}

/// Throws on all ranks if a matrix of `a` is not symmetric, or its factor in `l` has a pivot that failed.
template <TensorType A, TensorType L>
constexpr void check_factors(const A& a, const L& l) {
  const Index n = l.shape()[L::rank - 1];
  const Index first = failed_pivot(l, [&](Index i) { return asymmetric_row(n, a.data() + i * n * n); });
  if (first == no_failure) return;
  const Index number = first / (2 * n), at = first % (2 * n);
  if (at < n) fail_asymmetric("cholesky", l.shape(), number, at);
  fail<std::runtime_error>({"cholesky: ", matrix_text(l.shape(), number), " is not positive definite: pivot ",
                            at - n, " is not a positive number"});
}

}  // namespace detail

/// a: [b…, n, n], float or double; the result has its shape and layout, with zeros above the diagonal. It is a function
/// of the symmetric part (a + aᵀ) / 2, so the gradient is symmetric. Throws `std::invalid_argument` if the matrices are
/// not square, or on all ranks if one differs from its transpose by more than √ε of its largest element. If a matrix
/// is not positive definite, or not finite, all ranks throw the same `std::runtime_error`, which names the first such
/// matrix and its pivot. Collective over the axes that cut the batch (see linalg/batch.hpp).
template <Operand A, WellFormed Result = detail::factored<CholeskyOp, A>>
constexpr auto cholesky(const A& a) {
  auto l = apply(CholeskyOp{}, a);
  if constexpr (!AbstractOperand<A>) detail::check_factors(value_of(a), value_of(l));
  return l;
}
template <class A, IllFormed Why = detail::factored<CholeskyOp, A>>
Why cholesky(const A&);  // see Why

}  // namespace shardwise
