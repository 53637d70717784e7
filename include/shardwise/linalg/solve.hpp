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
#include <shardwise/linalg/matrix_product.hpp>
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

/// The solution in the layout `to`, of rank `rank`.
template <class T>
constexpr AnyTensor solved(const AnyTensor& a, const AnyTensor& b, const Layout& to) {
  Equations<T> equations(a, b);
  if (equations.failed() >= 0) {
    RankLine{a.mesh, a.type}.check_finite<T>("solve", a);
    fail<std::runtime_error>({"solve: the matrix is singular, or its numbers overflow: column ",
                              equations.failed(), " has no pivot"});
  }
  AnyTensor x = std::move(equations).solution();
  x.rank = b.rank;
  const DataType type = x.type;
  return redistributed_to(std::move(x), to, type);
}

/// The pullback of `solve`. `A`: the type of the matrix.
template <TensorType A>
class SolveNode final : public TapeNode {
 public:
  using T = typename A::Element;
  constexpr SolveNode(const A& a, Kept&& kept_a, const AnyTensor& x, const Shared<GradientSlot>& da,
                      const Shared<GradientSlot>& db, const Shared<GradientSlot>& slot)
      : mesh_(a.mesh()), shape_(a.shape()), a_(std::move(kept_a)), x_(x), da_(da), db_(db), slot_(slot) {
    if (da_) da_->expect();
    if (db_) db_->expect();
  }
  constexpr bool pull_back(BackwardPart) override {
    if (Buffer block = slot_->pass()) {
      const A a(mesh_, shape_, a_.block());
      const AnyTensor dx = x_.with(cotangent(x_.layout), std::move(block));
      AnyTensor db = solved<T>(AnyTensor(transpose(a)), dx, everywhere(x_.layout.axes, replicate));
      if (da_) {
        AnyTensor left = db, right = x_;
        left.rank = right.rank = 2;  // a vector is a matrix of one column
        AnyTensor da = product_of<T>({left}, {right, true}, cotangent(A::layout), {});
        make_own(da, da_->use());
        if (!da.mesh.dry()) {
          auto* values = static_cast<T*>(da.buffer->data);
          kernel::scale<T>(da.local_elements(), T{-1}, values, values);
        }
        da_->add(std::move(da.buffer), element_sum<T>, da.mesh.recorder());
      }
      if (db_) {
        AnyTensor back = redistributed_to(std::move(db), cotangent(x_.layout), x_.type);
        db_->add(std::move(back.buffer), element_sum<T>, x_.mesh.recorder());
      }
    }
    if (da_) da_->settle();
    if (db_) db_->settle();
    return false;
  }

 private:
  typename A::MeshOf mesh_;
  Shape<2> shape_;
  Kept a_;
  AnyTensor x_;
  Shared<GradientSlot> da_, db_;
  ResultSlot slot_;
};

}  // namespace detail

/// x with a x = b: a [n, n], b [n] or [n, r], of one type, `float` or `double`; x has the type of b. Throws
/// `std::invalid_argument` for other extents; on all ranks `std::runtime_error` if a pivot is 0 or not finite, which
/// names the first row of a that is not finite, or the column. Collective over the mesh.
template <Operand A, Operand B, TensorType X = typename detail::SolveResult<A, B>::type>
constexpr auto solve(const A& a, const B& b) {
  using T = typename X::Element;
  const auto& mesh = common_mesh(value_of(a), value_of(b));
  const detail::AnyTensor right(value_of(b));
  return on_common_tape(
      detail::solved<T>(detail::AnyTensor(value_of(a)), right, X::layout).template as<X>(mesh),
      [&](Tape& tape, const X& x, const Shared<GradientSlot>& slot) {
        tape.record<detail::SolveNode<tensor_of<A>>>(value_of(a), kept(a), detail::AnyTensor(x), slot_of(a),
                                                     slot_of(b), slot);
        return Shared<Recipe>();
      },
      a, b);
}
template <Operand A, Operand B, AbstractOperand X = typename detail::SolveResult<A, B>::type>
constexpr X solve(const A&, const B&) {
  return {};
}
template <class A, class B, IllFormed Why = typename detail::SolveResult<A, B>::type>
Why solve(const A&, const B&);  // see Why

}  // namespace shardwise
