// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// `solve`: linear equations with a square matrix, by LU with tournament pivoting on all ranks of a mesh.
///
/// ```
/// const auto x = solve(a, b);   // a: [n, n], b: [n] or [n, r], in any layouts; x has the layout of b
/// ```
/// Its gradients need one more factorization, of the transpose: db = a⁻ᵀ dx, da = -db xᵀ. All ranks must compute with
/// the same bits: the same build, on processors of one kind. A plan counts pivots in their order; other pivots may
/// lie on fewer ranks, and then the last gathers are larger.

#include <shardwise/layout/diagnosis.hpp>

#include <shardwise/linalg/equations.hpp>
#include <shardwise/linalg/product_result.hpp>
#include <shardwise/linalg/solve_node.hpp>
#include <shardwise/ops/transpose.hpp>

namespace shardwise {

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

/// x [n, r] by LU, on every rank.
template <class T>
constexpr AnyTensor lu_solution(const AnyTensor& a, const AnyTensor& b) {
  Equations<T> equations(a, b);
  equations.check("solve", a);
  return std::move(equations).solution();
}

/// x by `solved`, as `lu_solution`, and its gradients by another call.
template <class X, auto solved, class A, class B>
constexpr auto solve_by(const A& a, const B& b) {
  const auto in_layout = [rank = rank_of<B>](AnyTensor x, const Layout& to) {
    x.rank = rank;
    const DataType type = x.type;
    return redistributed_to(std::move(x), to, type);
  };
  const auto& mesh = common_mesh(value_of(a), value_of(b));
  return on_common_tape(
      in_layout(solved(AnyTensor(value_of(a)), AnyTensor(value_of(b))), X::layout).template as<X>(mesh),
      [&](Tape& tape, const X& x, const Shared<GradientSlot>& slot) {
        const auto solve_back = [=, mesh = value_of(a).mesh(), shape = value_of(a).shape(),
                                 block = kept(a)](const AnyTensor& dx) {
          const AnyTensor transposed(transpose(tensor_of<A>(mesh, shape, block.block())));
          return in_layout(solved(transposed, dx), everywhere(dx.layout.axes, replicate));
        };
        tape.record<SolveNode<tensor_of<A>, std::remove_const_t<decltype(solve_back)>>>(
            AnyTensor(x), solve_back, slot_of(a), slot_of(b), slot);
        return Shared<Recipe>();
      },
      a, b);
}

}  // namespace detail

/// x with a x = b: a [n, n], b [n] or [n, r], of one type, `float` or `double`; x has the type of b. Throws
/// `std::invalid_argument` for other extents; on all ranks `std::runtime_error` if a pivot is 0 or not finite, which
/// names the first row of a that is not finite, or the column. Collective over the mesh.
template <Operand A, Operand B, TensorType X = typename detail::SolveResult<A, B>::type>
constexpr auto solve(const A& a, const B& b) {
  return detail::solve_by<X, detail::lu_solution<typename X::Element>>(a, b);
}
template <Operand A, Operand B, AbstractOperand X = typename detail::SolveResult<A, B>::type>
constexpr X solve(const A&, const B&) {
  return {};
}
template <class A, class B, IllFormed Why = typename detail::SolveResult<A, B>::type>
Why solve(const A&, const B&);  // see Why

}  // namespace shardwise
