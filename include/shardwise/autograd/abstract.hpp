// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Operands that are types only, as in JAX's `eval_shape`. An operation on abstract operands returns another one,
/// whose type is the type of the result or the first `LayoutError`. A module calls its `forward` on them first, to
/// find the type of its result, or the error. Abstract operands are never evaluated.

#include <shardwise/layout/diagnosis.hpp>

#include <shardwise/autograd/operand.hpp>

namespace shardwise {

namespace detail {

/// Stands for a value that is never evaluated.
template <class T>
constexpr T& not_evaluated() {
  throw std::logic_error("an abstract operand has no value");
}

/// The members of an operand that `forward` may use, for an error: so the first error stays the only one.
struct NoTensor {
  using MeshOf = NoTensor;
  static constexpr int rank = max_rank;
};

}  // namespace detail

/// `X`: a tensor type or a `LayoutError`.
template <class X, bool OnTape, bool Tracked>
class Abstract : public detail::OtherNames {
  using Asked = std::conditional_t<WellFormed<X>, X, detail::NoTensor>;

 public:
  /// A loop over layers may assign a result of another type to its variable.
  template <class Y, bool OtherOnTape, bool OtherTracked>
  constexpr Abstract& operator=(const Abstract<Y, OtherOnTape, OtherTracked>&) {
    return *this;
  }

  /// The shape, for code that asks about types. Calls of this and the members below are only type-checked.
  constexpr const Shape<Asked::rank>& shape() const { return detail::not_evaluated<Shape<Asked::rank>>(); }
  constexpr const Shape<Asked::rank>& local_shape() const { return shape(); }
  constexpr const typename Asked::MeshOf& mesh() const {
    return detail::not_evaluated<typename Asked::MeshOf>();
  }
  constexpr Tape& tape() const requires OnTape { return detail::not_evaluated<Tape>(); }
  constexpr const Abstract<X, false, false>& value() const requires OnTape {
    return detail::not_evaluated<Abstract<X, false, false>>();
  }
  using NoValue = WrittenOtherwise<Hint::read_values_after_the_call_as_forward_sees_types_alone>;
  template <IllFormed Why = NoValue>
  static Why local();  // see Why
};

template <class X, bool OnTape, bool Tracked>
struct OperandTraits<Abstract<X, OnTape, Tracked>> {
  using TensorOf = X;
  static constexpr bool on_tape = OnTape;
  static constexpr bool tracked = Tracked;
  static constexpr const X& value(const Abstract<X, OnTape, Tracked>&) { return detail::not_evaluated<X>(); }
};

template <>
struct OperandTraits<detail::Reported> {
  using TensorOf = detail::Reported;
  static constexpr bool on_tape = false, tracked = false;
};

/// An operand that is only a type.
template <class X>
concept AbstractOperand = is_abstract<std::remove_cvref_t<X>>;

namespace detail {

/// The result of type `X`, a tensor type or a `LayoutError`, where some operands are abstract.
template <class X, class... Operands>
using abstract_result = Abstract<X, any_on_tape<Operands...>, any_tracked<Operands...>>;

template <class X>
struct AbstractArgument : TypeIs<X> {};
/// Parameters stay as they are: their values are not used.
template <Operand X>
  requires(!TensorOperand<X> || any_on_tape<std::remove_cvref_t<X>> || TensorType<std::remove_cvref_t<X>> ||
           is_abstract<std::remove_cvref_t<X>>)
struct AbstractArgument<X> {
  using Bare = std::remove_cvref_t<X>;
  using type = Abstract<tensor_of<X>, OperandTraits<Bare>::on_tape, OperandTraits<Bare>::tracked>;
};

/// The tensor that an operand has, if it is one.
template <class X>
struct Meant : TypeIs<X> {};
template <TensorOperand X>
struct Meant<X> : TypeIs<tensor_of<X>> {};
template <class X>
using meant = typename Meant<std::remove_cvref_t<X>>::type;

}  // namespace detail

/// The argument `X` of a call, abstract if it is an operand.
template <class X>
using abstract_argument = typename detail::AbstractArgument<X>::type;

}  // namespace shardwise
