// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// `solve`: linear equations with a square matrix, by LU with tournament pivoting on all ranks of a mesh.
///
/// ```
/// const auto x = solve(a, b);   // a: [n, n], b: [n] or [n, r], in any layouts; x has the layout of b
/// const auto y = solve(a, b, {.precision = SolvePrecision::mixed});   // in double: most of the work in float
/// ```
/// Its gradients need one more factorization, of the transpose: db = a⁻ᵀ dx, da = -db xᵀ. All ranks must compute with
/// the same bits: the same build, on processors of one kind. A plan counts pivots in their order; other pivots may
/// lie on fewer ranks, and then the last gathers are larger.

#include <shardwise/layout/diagnosis.hpp>

#include <shardwise/linalg/product_result.hpp>
#include <shardwise/linalg/refinement.hpp>
#include <shardwise/linalg/solve_node.hpp>
#include <shardwise/ops/transpose.hpp>

namespace shardwise {

enum class SolvePrecision { full, mixed };

/// How `solve` computes. See `solve`.
struct SolveOptions {
  SolvePrecision precision = SolvePrecision::full;
};

namespace detail {

/// The type of x, or why `solve` is refused.
template <class A, class B>
struct SolveResult {};
template <class A, class B>
  requires(Operand<A> || Operand<B>)
struct SolveResult<A, B> {
  static constexpr auto type_of() {
    using Whole = typename WholeResult<MatmulOp, A, B>::type;
    if constexpr (IllFormed<Whole>) {
      return TypeIs<Whole>{};
    } else if constexpr (rank_of<A> != 2 || rank_of<B> > 2) {
      return Refused<Reason::operands_do_not_fit_in_rank, Got<tensor_of<A>, tensor_of<B>>>{};
    } else if constexpr (!std::is_floating_point_v<typename Whole::Element>) {
      return Refused<Reason::operation_needs_floating_point_numbers, Got<typename Whole::Element>>{};
    } else {
      return TypeIs<tensor_of<B>>{};
    }
  }
  using X = typename decltype(type_of())::type;
  using type = std::conditional_t<AbstractOperand<A> || AbstractOperand<B>, abstract_result<X, A, B>, X>;
};

/// The solution in the layout `to`, of rank `rank`.
template <class T>
constexpr AnyTensor solved(const AnyTensor& a, const AnyTensor& b, const Layout& to, SolveOptions options) {
  std::optional<AnyTensor> x;
  if (options.precision == SolvePrecision::mixed) {
    if constexpr (std::is_same_v<T, double>) {
      x = refined_solution<T>(a, b);
    } else {
      fail({"solve: mixed precision needs elements of double, not of float"});
    }
  }
  if (!x) {
    Equations<T> equations(a, b);
    equations.check("solve", a);
    x = std::move(equations).solution();
  }
  x->rank = b.rank;
  const DataType type = x->type;
  return redistributed_to(std::move(*x), to, type);
}

}  // namespace detail

/// x with a x = b: a [n, n], b [n] or [n, r], of one type, `float` or `double`; x has the type of b. Throws
/// `std::invalid_argument` for other extents; on all ranks `std::runtime_error` if a pivot is 0 or not finite, which
/// names the first row of a that is not finite, or the column. Collective over the mesh.
///
/// With `SolvePrecision::mixed` a of double is factorized in float, and x is refined in double until its backward error
/// is as small as that of LU in double: ‖b - a x‖ ≤ √n ε ‖a‖ ‖x‖. That mostly takes one to five steps up to a condition
/// number of about 1e6. If a step does not halve the error, as above about 1e7, or numbers overflow, `solve` starts
/// again in full precision, with its result and its errors, and takes the time of both. A plan counts two steps. Of
/// float, `mixed` throws `std::invalid_argument`.
template <Operand A, Operand B, TensorType X = typename detail::SolveResult<A, B>::type>
constexpr auto solve(const A& a, const B& b, SolveOptions options = {}) {
  using T = typename X::Element;
  const auto& mesh = common_mesh(value_of(a), value_of(b));
  const detail::AnyTensor right(value_of(b));
  return on_common_tape(
      detail::solved<T>(detail::AnyTensor(value_of(a)), right, X::layout, options).template as<X>(mesh),
      [&](Tape& tape, const X& x, const Shared<GradientSlot>& slot) {
        const auto solve_back = [mesh = value_of(a).mesh(), shape = value_of(a).shape(), block = kept(a),
                                 options](const detail::AnyTensor& dx) {
          const detail::AnyTensor transposed(transpose(tensor_of<A>(mesh, shape, block.block())));
          return detail::solved<T>(transposed, dx, everywhere(dx.layout.axes, replicate), options);
        };
        tape.record<detail::SolveNode<tensor_of<A>, std::remove_const_t<decltype(solve_back)>>>(
            detail::AnyTensor(x), solve_back, slot_of(a), slot_of(b), slot);
        return Shared<Recipe>();
      },
      a, b);
}
template <Operand A, Operand B, AbstractOperand X = typename detail::SolveResult<A, B>::type>
constexpr X solve(const A&, const B&, SolveOptions = {}) {
  return {};
}
template <class A, class B, IllFormed Why = typename detail::SolveResult<A, B>::type>
Why solve(const A&, const B&, SolveOptions = {});  // see Why

}  // namespace shardwise
