// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The checks of an operation's struct, when it is compiled: a signature that is not a constant or contradicts itself,
/// and members that are missing or have other arguments than `apply` passes.

#include <shardwise/layout/diagnosis.hpp>

#include <shardwise/ops/operation.hpp>

namespace shardwise {

/// An index of a signature, in an error.
template <char L>
struct Letter {};

namespace detail {

/// The names of an operation's members. They are ambiguous in `Named` if the operation has such members, whatever their
/// arguments are.
struct MemberNames {
  int forward, pull_back, residual_bytes, shape;
};
template <class Op>
struct Named : Op, MemberNames {};
template <class Op>
concept HasForward = !requires {
  &Named<Op>::forward;
};
template <class Op>
concept HasPullBack = !requires {
  &Named<Op>::pull_back;
};
template <class Op>
concept HasResidualBytes = !requires {
  &Named<Op>::residual_bytes;
};
template <class Op>
concept HasShape = !requires {
  &Named<Op>::shape;
};

/// Whether an operation has a constant signature for operands of these ranks.
template <class Op, int... Ranks>
constexpr bool has_signature() {
  if constexpr (requires { requires std::is_same_v<decltype(&Op::signature), const Signature*>; }) {
    return requires { typename std::integral_constant<int, Op::signature.count>; };
  } else if constexpr (requires { &Op::signature; }) {  // not a template
    return false;
  } else {
    return requires { typename std::integral_constant<int, Op::template signature<Ranks...>().count>; };
  }
}

template <class Op>
constexpr bool has_saved() {
  if constexpr (requires { requires std::is_same_v<decltype(&Op::saved), const Saved*>; }) {
    return requires { typename std::integral_constant<unsigned, Op::saved.inputs>; };
  } else {
    return false;
  }
}

constexpr bool operands_have(const Signature& signature, char letter) {
  for (int i = 0; i < signature.count; ++i) {
    if (signature.operands[i].find(letter) >= 0) return true;
  }
  return false;
}

/// The contradiction in a signature, and the letter, if one is at fault.
struct SignatureProblem {
  Hint hint = Hint::none;
  char letter = 0;
};
template <class Op>
constexpr SignatureProblem find_problem(const Signature& signature) {
  const auto problem = [](Hint hint, char letter) {
    return SignatureProblem{hint, static_cast<char>(letter & 0x7f)};
  };
  if (signature.unreadable) return {Hint::write_letters_commas_an_arrow_and_the_letters_of_the_result};
  if (signature.count == 0) return {};
  for (int i = 0; i <= signature.count; ++i) {
    const Indices& tensor = i < signature.count ? signature.operands[i] : signature.result;
    for (int dim = 0; dim < tensor.rank; ++dim) {
      if (tensor.find(tensor[dim]) < dim)
        return problem(Hint::name_each_index_once_in_each_tensor, tensor[dim]);
    }
  }
  for (int i = 0; i < signature.uncut.rank; ++i) {
    const char letter = signature.uncut[i];
    if (!operands_have(signature, letter) && signature.result.find(letter) < 0)
      return problem(Hint::pass_whole_a_letter_of_an_operand, letter);
  }
  // Extents do not tell how long an index is that only the result has.
  for (int dim = 0; dim < signature.result.rank && HasForward<Op> && !HasShape<Op>; ++dim) {
    if (!operands_have(signature, signature.result[dim]))
      return problem(Hint::define_shape_or_use_the_letters_of_the_operands, signature.result[dim]);
  }
  return {};
}
template <class Op, int... Ranks>
constexpr SignatureProblem find_problem() {
  if constexpr (!has_signature<Op, Ranks...>()) {
    return {Hint::define_a_public_static_constexpr_signature};
  } else if constexpr (requires { requires std::is_member_pointer_v<decltype(&Op::name)>; }) {
    return {Hint::make_the_name_static_constexpr};
  } else if constexpr (requires { Op::signature.count; }) {
    SignatureProblem found = find_problem<Op>(Op::signature);
    unsigned named = passed_on<Op>();
    if constexpr (has_saved<Op>()) named |= Op::saved.inputs;
    if (found.hint == Hint::none && named >> Op::signature.count != 0)
      found = {Hint::name_only_operands_in_saved_and_passes};
    return found;
  } else {  // the number of operands may vary
    return find_problem<Op>(Op::template signature<Ranks...>());
  }
}
template <class Op, int... Ranks>
inline constexpr SignatureProblem signature_problem = find_problem<Op, Ranks...>();

template <SignatureProblem P>
using WrongSignature = std::conditional_t<
    P.letter == 0, LayoutError<Reason::signature_of_the_operation_is_wrong, Cure<P.hint>>,
    LayoutError<Reason::signature_of_the_operation_is_wrong, Got<Letter<P.letter>>, Cure<P.hint>>>;

template <Hint H, class... Expects>
using WrongMember = TypeIs<
    LayoutError<Reason::member_of_the_operation_is_missing_or_does_not_fit, Expected<Expects...>, Cure<H>>>;

/// The result of `apply`, or an error if the operation lacks a member that `apply` calls, or if it has other
/// arguments. `HasGradient`: whether the result has one.
template <class Op, bool HasGradient, class Y, class... X>
constexpr auto checked_members() {
  using T = typename Y::Element;
  using Out = View<T, Y::rank>;
  using Seen = View<const T, Y::rank>;
  using Forward = void(Out, void*, View<const typename X::Element, X::rank>...);
  using PullBack = void(Seen, Seen, const void*, Input<typename X::Element, X::rank>...);
  using ResidualBytes = Index(Seen, View<const typename X::Element, X::rank>...);
  using ShapeOf = Shape<Y::rank>(Shape<X::rank>...);
  constexpr bool forward =
      requires(const Op& op, Out y, void* residual, View<const typename X::Element, X::rank>... x) {
    op.forward(y, residual, x...);
  };
  constexpr bool pull_back =
      requires(const Op& op, Seen y, const void* residual, Input<typename X::Element, X::rank>... x) {
    op.pull_back(y, y, residual, x...);
  };
  constexpr bool residual_bytes =
      requires(const Op& op, Seen y, View<const typename X::Element, X::rank>... x) {
    op.residual_bytes(y, x...);
  };
  constexpr bool shape = requires(const Op& op, Shape<X::rank>... x) {
    requires std::is_same_v<decltype(op.shape(x...)), Shape<Y::rank>>;
  };
  if constexpr (HasShape<Op> && !shape) {
    return WrongMember<Hint::let_shape_take_and_return_what_is_Expected, ShapeOf>{};
  } else if constexpr (!HasForward<Op> || (HasGradient && !(has_saved<Op>() && HasPullBack<Op>))) {
    return TypeIs<LayoutError<Reason::member_of_the_operation_is_missing_or_does_not_fit,
                              Cure<Hint::define_saved_with_inputs_or_output_forward_and_pull_back>>>{};
  } else if constexpr (!forward) {
    return WrongMember<Hint::let_forward_take_what_is_Expected, Forward>{};
  } else if constexpr (HasGradient && !pull_back) {
    return WrongMember<Hint::let_pull_back_take_what_is_Expected, PullBack>{};
  } else if constexpr (HasResidualBytes<Op> && !residual_bytes) {
    return WrongMember<Hint::let_residual_bytes_take_what_is_Expected, ResidualBytes>{};
  } else {
    return TypeIs<Y>{};
  }
}

}  // namespace detail

}  // namespace shardwise
