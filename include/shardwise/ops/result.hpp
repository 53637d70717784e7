// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// From an operation and the types of its operands to the type of its result, or to the `LayoutError` with the reason
/// why the operation is refused.
///
/// An operation `Op` has
///   `static constexpr Signature signature = Signature::of("...");`
/// or, if it depends on the number of operands or on their ranks, a function template of these ranks,
///   `template <int... Ranks> static constexpr Signature signature();`
/// and, if the result has another element type than the operands, and then no gradient,
///   `using Element = std::uint8_t;`
/// and, if the signature is not sufficient,
///   `static constexpr Propagated rule(const Signature&, const OperandPlacements&);`   for one axis.

#include <shardwise/layout/diagnosis.hpp>

#include <shardwise/autograd/abstract.hpp>
#include <shardwise/layout/propagation.hpp>
#include <shardwise/ops/operation_problem.hpp>

namespace shardwise {

namespace detail {

/// An operation on tensors, one mesh axis at a time.
template <class Op, TensorType First, TensorType... Rest>
struct Propagate {
  using MeshOf = typename First::MeshOf;
  static constexpr int operands = 1 + static_cast<int>(sizeof...(Rest));
  static constexpr Signature signature = signature_of<Op, First::rank, Rest::rank...>;
  static constexpr Array<int, max_operands> ranks{First::rank, Rest::rank...};
  static constexpr bool same_mesh = (std::is_same_v<MeshOf, typename Rest::MeshOf> && ...);

  static constexpr Propagated rule(const OperandPlacements& at) {
    if constexpr (requires { Op::rule(signature, at); }) {
      return Op::rule(signature, at);
    } else {
      return propagate(signature, at);
    }
  }
  static constexpr OperandPlacements placements(int axis) {
    return {First::layout[axis], Rest::layout[axis]...};
  }
  static constexpr Array<Propagated, MeshOf::axes> on_each_axis() {
    Array<Propagated, MeshOf::axes> on{};
    for (int axis = 0; axis < MeshOf::axes; ++axis) on[axis] = rule(placements(axis));
    return on;
  }
  static constexpr Array<Propagated, MeshOf::axes> propagated = on_each_axis();

  static constexpr Layout layout() {
    return Layout::by_axis(MeshOf::axes, [](int axis) { return propagated[axis].placement; });
  }

  /// The first axis on which the operands' placements do not fit, or -1.
  static constexpr int bad_axis() {
    for (int axis = 0; axis < MeshOf::axes; ++axis) {
      if (!propagated[axis].legal()) return axis;
    }
    return -1;
  }
};

/// The first of the operands with a floating-point element type (embeddings look up integers), else the
/// first.
template <TensorType First, TensorType... Rest>
struct Leading : TypeIs<First> {};
template <TensorType First, TensorType Second, TensorType... Rest>
  requires(!First::is_float && (Second::is_float || (Rest::is_float || ...)))
struct Leading<First, Second, Rest...> : TypeIs<typename Leading<Second, Rest...>::type> {};

/// Whether an operation names the element type of its result, which then has no gradient.
template <class Op>
concept HasElement = requires {
  typename Op::Element;
};

/// The element type of the result.
template <class Op, TensorType Lead>
struct ElementOf : TypeIs<typename Lead::Element> {};
template <HasElement Op, TensorType Lead>
struct ElementOf<Op, Lead> : TypeIs<typename Op::Element> {};

/// `Op`, or the operation in its place for a weight with these elements: see llm/decoding/quantized_products.hpp.
template <class Op, class Element>
struct OpOfElements : TypeIs<Op> {};
template <class Op, class Weight>
struct OpFor : TypeIs<Op> {};
template <class Op, class Weight>
  requires TensorType<tensor_of<Weight>>
struct OpFor<Op, Weight> : OpOfElements<Op, typename tensor_of<Weight>::Element> {
};
template <class Op, class Weight>
using op_for = typename OpFor<Op, Weight>::type;

/// `Parameters`: the set of operands that are parameters. Operands may be errors themselves.
template <class Op, bool Tracked, unsigned Parameters, class... X>
struct Result : FirstError<X...> {};
template <class Op, bool Tracked, unsigned Parameters, TensorType... X>
struct Result<Op, Tracked, Parameters, X...> {
  using P = Propagate<Op, X...>;
  using Lead = typename Leading<X...>::type;

  /// Operands with a gradient must have the element type of the leading one; others must hold integers. If the
  /// operation names the result's type and takes integers, all must have one type, of any kind.
  static constexpr Reason element_problem() {
    if constexpr (requires { requires Op::template takes<typename X::Element...>; }) return Reason::none;
    Array<bool, P::operands> same{std::is_same_v<typename X::Element, typename Lead::Element>...};
    Array<bool, P::operands> floats{X::is_float...};
    constexpr bool takes_integers = requires { requires Op::takes_integers; };
    constexpr bool all_of_one_type = HasElement<Op> && takes_integers;
    for (int i = 0; i < P::operands; ++i) {
      if (!P::signature.differentiable[i] && floats[i] && !all_of_one_type) {
        return Reason::operand_must_hold_integers;
      }
    }
    for (int i = 0; i < P::operands; ++i) {
      if (!P::signature.differentiable[i] && !all_of_one_type) continue;
      if (!Lead::is_float && !(takes_integers && std::is_integral_v<typename Lead::Element>))
        return Reason::operation_needs_floating_point_numbers;
      if (!same[i]) return Reason::operands_have_different_element_types;
    }
    return Reason::none;
  }
  static constexpr Hint element_hint() {
    Array<bool, P::operands> masks{std::is_same_v<typename X::Element, std::uint8_t>...};
    for (int i = 0; i < P::operands; ++i) {
      if (masks[i] && P::signature.differentiable[i]) return Hint::use_where_if_it_is_a_mask;
    }
    return hint_for(element_problem());
  }

  /// For the first axis where the operands' placements do not fit: the placements found, and placements that would fit.
  template <int... I>
  static constexpr auto misplaced(std::integer_sequence<int, I...>) {
    constexpr int axis = P::bad_axis();
    constexpr OperandPlacements found = P::placements(axis),
                                wanted = nearest_legal(P::rule, P::ranks, P::operands, found);
    return TypeIs<LayoutError<P::propagated[axis].reason, On<typename P::MeshOf::AxesOf::template at<axis>>,
                              Expected<placement_type<wanted[I].code>...>,
                              Got<placement_type<found[I].code>...>, Cure<hint(axis, found, wanted)>>>{};
  }
  /// No hint redistributes a parameter to `Reduced`, or to a term of a sum: that would cut it off from its gradient.
  static constexpr Hint hint(int axis, const OperandPlacements& found, const OperandPlacements& wanted) {
    for (int i = 0; i < P::operands; ++i) {
      if ((Parameters >> i & 1u) == 0 || wanted[i] == found[i]) continue;
      if (wanted[i] == reduced) return Hint::make_the_parameter_Reduced_on_this_axis_as_SequenceParallel_does;
      if (wanted[i].is_partial()) return Hint::redistribute_alongside_of_the_parameter_and_the_other_operand;
    }
    const Reason reason = P::propagated[axis].reason;
    const Hint plain = hint_for(reason);
    if (reason == Reason::operands_sharded_on_different_dimensions && meets_last_dimensions())
      return Hint::last_dimensions_meet_so_scale_rows_by_contract_rc_r_to_rc;
    if constexpr (requires { Op::hint_for_blocks; }) {
      bool finished_matrices = plain == Hint::redistribute_to_what_is_Expected;
      for (int i = 0; i < P::operands; ++i) finished_matrices &= P::ranks[i] == 2 && !found[i].is_partial();
      if (finished_matrices) return Op::hint_for_blocks;
    }
    return plain;
  }
  /// Whether the second operand lacks leading dimensions of the first, which has the shape of the result.
  static constexpr bool meets_last_dimensions() {
    const auto& [a, b] = std::pair(P::signature.operands[0], P::signature.operands[1]);
    const int rows = a.rank - b.rank;
    return P::operands == 2 && b.rank > 0 && rows > 0 && a.find(b[0]) == rows &&
           P::signature.result.rank == a.rank && P::signature.result.letters == a.letters;
  }

  static constexpr auto type_of() {
    if constexpr (!P::same_mesh) {
      return Refused<Reason::operands_are_on_different_meshes, Got<typename X::MeshOf...>>{};
    } else if constexpr (constexpr SignatureProblem problem = signature_problem<Op, X::rank...>;
                         problem.hint != Hint::none) {
      return TypeIs<WrongSignature<problem>>{};
    } else if constexpr (P::signature.count == 0) {
      constexpr Reason reason = P::signature.no_such_dimension ? Reason::tensor_has_no_such_dimension
                                                               : Reason::operands_do_not_fit_in_rank;
      return Refused<reason, Got<X...>>{};
    } else if constexpr (element_problem() != Reason::none) {
      return TypeIs<LayoutError<element_problem(), Got<typename X::Element...>, Cure<element_hint()>>>{};
    } else if constexpr (P::bad_axis() >= 0) {
      return misplaced(std::make_integer_sequence<int, P::operands>());
    } else {
      using Y = tensor_with<typename ElementOf<Op, Lead>::type, P::signature.result.rank, typename P::MeshOf,
                            packed(P::layout())>;
      if constexpr (Tracked && !has_cotangent(Y::layout)) {
        return Refused<Reason::gradient_of_a_pending_maximum_or_minimum_is_not_defined, Got<Y>>{};
      } else {
        return TypeIs<Y>{};
      }
    }
  }
  using type = typename decltype(type_of())::type;
};

template <class Op, class... X>
struct ResultOfOperands {};
template <class Op, class... X>
  requires((Operand<X> || ...) && !(Operand<X> && ...))
struct ResultOfOperands<Op, X...> : Refused<Reason::argument_is_not_a_tensor, Got<X...>> {};
template <class Op, Operand... X>
struct ResultOfOperands<Op, X...> {
  static constexpr unsigned parameters =
      operands_where({OperandTraits<X>::tracked && !OperandTraits<X>::on_tape...});
  static constexpr bool tracked = any_tracked<X...> && !HasElement<Op>;
  static constexpr auto type_of() {
    using Of = Result<Op, tracked, parameters, tensor_of<X>...>;
    if constexpr (IllFormed<typename LostGradient<X...>::type>) {
      constexpr bool takes_integers = reason_of<typename Of::type> == Reason::operand_must_hold_integers;
      return std::conditional_t<takes_integers, Of, LostGradient<X...>>{};
    } else {
      return Of{};
    }
  }
  using Y = typename decltype(type_of())::type;
  using Named = typename Extended<Y, Of<Op>, tensor_of<X>...>::type;
  using type =
      std::conditional_t<(AbstractOperand<X> || ...), Abstract<Named, any_on_tape<X...>, tracked>, Y>;
};

}  // namespace detail

/// The tensor type that `Op` returns for operands `X...`, or a `LayoutError`. For abstract operands it is abstract.
template <class Op, class... X>
using result_of = typename detail::ResultOfOperands<Op, X...>::type;

/// The number of dimensions of an operand; 0 if it is an error.
template <class X>
inline constexpr int rank_of = 0;
template <TensorOperand X>
inline constexpr int rank_of<X> = tensor_of<X>::rank;

}  // namespace shardwise
