// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The result type of a product of matrices in any layouts, or the error: why it is refused.

#include <shardwise/layout/diagnosis.hpp>
#include <shardwise/ops/contract.hpp>

namespace shardwise::detail {

/// The tensor of `X`, but whole on every rank. The rank, the elements and the mesh of a product follow from it.
template <class X>
struct WholeOperand : TypeIs<X> {};
template <TensorOperand X>
struct WholeOperand<X> {
  using Of = tensor_of<X>;
  static constexpr auto type_of() {
    if constexpr (has_partial_extremum(Of::layout)) {
      return Refused<Reason::pending_maximum_or_minimum_must_be_reduced_first, Got<Of>>{};
    } else {
      return TypeIs<with_layout<Of, packed(everywhere(Of::MeshOf::axes, replicate))>>{};
    }
  }
  using type = typename decltype(type_of())::type;
};

/// The result of an operation on whole operands, or the first error.
template <class Op, class A, class B>
struct WholeResult {
  using WholeA = typename WholeOperand<A>::type;
  using WholeB = typename WholeOperand<B>::type;
  using Error = typename FirstError<typename LostGradient<A, B>::type, WholeA, WholeB>::type;
  using type = typename std::conditional_t<IllFormed<Error>, TypeIs<Error>,
                                           ResultOfOperands<Op, WholeA, WholeB>>::type;
};

/// The result of `matrix_product<To...>`, or why it is refused.
template <class A, class B, class... To>
struct MatrixProductResult {};
template <class A, class B, class... To>
  requires(Operand<A> || Operand<B>)
struct MatrixProductResult<A, B, To...> {
  static constexpr auto type_of() {
    using Whole = typename WholeResult<ContractOp<"mk, kn -> mn">, A, B>::type;
    if constexpr (IllFormed<Whole>) {
      return TypeIs<Whole>{};
    } else {
      return TypeIs<redistributed<Whole, To...>>{};
    }
  }
  using Y = typename decltype(type_of())::type;
  using type = std::conditional_t<AbstractOperand<A> || AbstractOperand<B>, abstract_result<Y, A, B>, Y>;
};

}  // namespace shardwise::detail
