// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Operands of operations: tensors, `Var`s and parameters. Traits give the value, the tape and the gradient slot.

#include <shardwise/layout/diagnosis.hpp>

#include <shardwise/autograd/tape.hpp>

namespace shardwise {

/// Not an operand: it has no `TensorOf`.
template <class X>
struct OperandTraits {
  static constexpr bool on_tape = false;
  static constexpr bool tracked = false;
};

/// A `TensorOf` that is not a tensor: the `LayoutError` of an illegal layout.
template <TensorType X>
struct OperandTraits<X> {
  using TensorOf = detail::tensor_or_problem<X>;
  static constexpr bool on_tape = false;  ///< brings a tape with it
  static constexpr bool tracked = false;  ///< has a gradient, if another operand brings a tape
  static constexpr const X& value(const X& x) { return x; }
};

template <class X, bool Tracked>
struct OperandTraits<Var<X, Tracked>> {
  using TensorOf = X;
  static constexpr bool on_tape = true;
  static constexpr bool tracked = Tracked;
  static constexpr const X& value(const Var<X, Tracked>& x) { return x.value(); }
  static constexpr const auto& slot(const Var<X, Tracked>& x) { return x.slot(); }
};

/// An operand that is a type only: see autograd/abstract.hpp.
template <class X, bool OnTape, bool Tracked>
class Abstract;
/// Whether `X` is an operand that is only a type: see `Abstract`.
template <class X>
inline constexpr bool is_abstract = false;
template <class X, bool OnTape, bool Tracked>
inline constexpr bool is_abstract<Abstract<X, OnTape, Tracked>> = true;

/// An argument that operations accept: a tensor, a `Var`, a parameter, or one of these as only a type.
template <class X>
concept Operand = requires {
  typename OperandTraits<std::remove_cvref_t<X>>::TensorOf;
};

/// The tensor type of an operand.
template <class X>
using tensor_of = typename OperandTraits<std::remove_cvref_t<X>>::TensorOf;

/// An operand that is a tensor, or has one.
template <class X>
concept TensorOperand = Operand<X> && is_tensor<tensor_of<X>>;

/// A reference to the value; the value of a gathered parameter is constructed here.
template <TensorOperand X>
constexpr decltype(auto) value_of(const X& x) {
  return OperandTraits<X>::value(x);
}

/// The operand as a node keeps it to read its value later.
template <TensorOperand X>
constexpr Kept kept(const X& x) {
  if constexpr (requires { x.recipe(); }) {
    if (const auto& recipe = x.recipe()) return Kept(recipe);
  }
  return Kept(value_of(x).buffer());
}

/// Whether an operation on these operands records a node.
template <class... X>
inline constexpr bool any_on_tape = (OperandTraits<X>::on_tape || ...);
template <class... X>
inline constexpr bool any_tracked = any_on_tape<X...> && (OperandTraits<X>::tracked || ...);

namespace detail {

/// `Y`, made from the operand `X`; or an error, because a gradient through a pending maximum is not defined.
template <class X, class Y>
struct Differentiable : TypeIs<Y> {};
template <class X, TensorType Y>
  requires(OperandTraits<X>::tracked &&
           !(has_cotangent(tensor_of<X>::layout) && has_cotangent(Y::layout)))  //
struct Differentiable<X, Y>
    : TypeIs<
          layout_error<Reason::gradient_of_a_pending_maximum_or_minimum_is_not_defined, Got<tensor_of<X>>>> {
};

/// A trainable parameter, not yet on a tape.
template <class X>
inline constexpr bool is_parameter_alone = OperandTraits<X>::tracked && !OperandTraits<X>::on_tape;
/// A floating-point tensor off the tape that is not a parameter. It may have been computed from parameters.
template <class X>
inline constexpr bool is_off_tape = false;
template <TensorType X>
inline constexpr bool is_off_tape<X> = X::is_float;
template <TensorType X>
inline constexpr bool is_off_tape<Abstract<X, false, false>> = X::is_float;

/// The type by which an error names an operand: for an abstract one, the type that it stands for.
template <class X>
using shown =
    std::conditional_t<OperandTraits<X>::on_tape, Var<tensor_of<X>, OperandTraits<X>::tracked>, tensor_of<X>>;

/// The `LayoutError` of operands whose gradient would be lost silently, else `void`. An operation on parameters alone
/// would give a tensor off the tape, and a tensor off the tape may be such a result.
template <class... X>
struct LostGradient : TypeIs<void> {};
template <TensorOperand... X>
struct LostGradient<X...> {
  static constexpr auto type_of() {
    if constexpr ((is_parameter_alone<X> && ...)) {
      return Refused<Reason::operation_on_parameters_alone_would_never_train_them, Got<tensor_of<X>...>>{};
    } else if constexpr (any_on_tape<X...> && (is_off_tape<X> || ...)) {
      return Refused<Reason::tensor_off_the_tape_meets_one_on_it_so_its_gradient_would_be_lost,
                     Got<shown<X>...>>{};
    } else {
      return TypeIs<void>{};
    }
  }
  using type = typename decltype(type_of())::type;
};

template <class X>
constexpr Tape* tape_of(const X& x) {
  if constexpr (OperandTraits<X>::on_tape) {
    return &x.tape();
  } else {
    return nullptr;
  }
}
constexpr Tape& one_tape(std::initializer_list<Tape*> tapes) {
  Tape* one = nullptr;
  for (Tape* tape : tapes) {
    if (one && tape && tape != one) throw std::invalid_argument("the operands are on different tapes");
    if (tape) one = tape;
  }
  return *one;
}

/// Throws because operands live on two meshes of one type.
[[noreturn, gnu::cold]] void fail_on_two_meshes(std::span<const Index> first);

}  // namespace detail

/// The tape of the operands. All that have one must have the same; other arguments are ignored.
template <class... X>
constexpr Tape& common_tape(const X&... operands) {
  return detail::one_tape({detail::tape_of(operands)...});
}

/// The mesh of the tensors. All must be on the same one, and none may be empty.
template <TensorType First, TensorType... Rest>
constexpr const auto& common_mesh(const First& first, const Rest&... rest) {
  const auto& mesh = detail::with_block(first).mesh();
  if (!((detail::with_block(rest).mesh() == mesh) && ...)) {
    detail::fail_on_two_meshes({first.shape().data(), First::rank});
  }
  return mesh;
}

/// The slot of an operand's gradient; null if it has no gradient.
template <Operand X>
constexpr decltype(auto) slot_of(const X& x) {
  if constexpr (OperandTraits<X>::tracked) {
    return OperandTraits<X>::slot(x);
  } else {
    return Shared<GradientSlot>();
  }
}

/// The result of an operation: the tensor `y`, or a `Var` of it if an operand is on a tape. If an operand has a
/// gradient, `record(tape, y, slot)` records a node that reads the gradient of `y` from the slot, and returns the
/// recipe of `y`, or null. If `record` is a null pointer, the result has no gradient.
template <TensorType Y, class Record, Operand... X>
constexpr auto on_common_tape(Y y, Record record, const X&... operands) {
  if constexpr (!any_on_tape<X...>) {
    return y;
  } else if constexpr (!any_tracked<X...> || std::is_null_pointer_v<Record>) {
    return Var<Y, false>(common_tape(operands...), std::move(y));
  } else {
    Tape& tape = common_tape(operands...);
    auto slot = Shared<GradientSlot>::make();
    Shared<Recipe> recipe = record(tape, std::as_const(y), slot);
    return Var<Y>(tape, std::move(y), std::move(slot), std::move(recipe));
  }
}

/// `x` on the tape of `other`, or as a tensor if `other` has no tape.
template <Operand X, Operand Other>
constexpr auto alongside(const X& x, const Other& other) {
  static_assert(
      !OperandTraits<X>::on_tape || OperandTraits<Other>::on_tape,
      "alongside(x, other) would take x off its tape, as other is on none: write x.value() for that");
  if constexpr (is_abstract<X>) {
    return Abstract < tensor_of<X>, OperandTraits<Other>::on_tape,
           OperandTraits<Other>::on_tape && OperandTraits<X>::tracked > ();
  } else if constexpr (!OperandTraits<Other>::on_tape) {
    return value_of(x);
  } else if constexpr (OperandTraits<X>::tracked) {
    Shared<Recipe> recipe;
    if constexpr (requires { x.recipe(); }) recipe = x.recipe();
    return Var<tensor_of<X>>(other.tape(), tensor_of<X>(value_of(x)),
                             Shared<GradientSlot>(OperandTraits<X>::slot(x)), std::move(recipe));
  } else {
    return Var<tensor_of<X>, false>(other.tape(), tensor_of<X>(value_of(x)));
  }
}

#ifdef SHARDWISE_BODIES
namespace detail {

SHARDWISE_INLINE void fail_on_two_meshes(std::span<const Index> first) {
  fail({"the operands, of which the first is ", first,
        ", live on two different meshes of one type: copies of one are the same mesh"});
}

}  // namespace detail
#endif

}  // namespace shardwise
