// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// From an operation and the types of its operands to the type of its result, or to the `LayoutError` that
/// says why there is none.
///
/// An operation `Op` says, for operands of the given ranks,
///   `template <int... Ranks> static constexpr Signature signature();`   (no operands where the ranks do not
///   fit)
/// and, where one signature does not tell all,
///   `template <int... Ranks> static constexpr Propagated rule(const OperandPlacements&);`   for one axis.

#include <shardwise/autograd/operand.hpp>
#include <shardwise/layout/propagation.hpp>

namespace shardwise {

namespace detail {

template <class T>
struct TypeIs {};

/// An operation on tensors, one mesh axis at a time.
template <class Op, TensorType First, TensorType... Rest>
struct Propagate {
  using MeshOf = typename First::MeshOf;
  static constexpr int operands = 1 + static_cast<int>(sizeof...(Rest));
  static constexpr Signature signature = Op::template signature<First::rank, Rest::rank...>();
  static constexpr std::array<int, max_operands> ranks{First::rank, Rest::rank...};
  static constexpr bool same_mesh = (std::is_same_v<MeshOf, typename Rest::MeshOf> && ...);

  static constexpr Propagated rule(const OperandPlacements& at) {
    if constexpr (requires { Op::template rule<First::rank, Rest::rank...>(at); }) {
      return Op::template rule<First::rank, Rest::rank...>(at);
    } else {
      return propagate(signature, at);
    }
  }
  static constexpr OperandPlacements placements(int axis) {
    return {First::layout[axis], Rest::layout[axis]...};
  }
  static constexpr Propagated propagated(int axis) { return rule(placements(axis)); }

  /// For `tensor_with`: the code of the result's placement.
  static constexpr int at(int axis) { return propagated(axis).placement.code; }

  /// The first axis on which the operands' placements do not fit, or -1.
  static constexpr int bad_axis() {
    for (int axis = 0; axis < MeshOf::axes; ++axis) {
      if (!propagated(axis).legal()) return axis;
    }
    return -1;
  }
};

/// The first of the operands with a floating-point element type (embeddings look up integers), else the
/// first.
template <TensorType First, TensorType... Rest>
struct Leading {
  using type = First;
};
template <TensorType First, TensorType Second, TensorType... Rest>
requires(!First::is_float) struct Leading<First, Second, Rest...> {
  using type = typename Leading<Second, Rest...>::type;
};

/// The placements of all operands on one axis, as types.
template <template <class...> class List, class F, class Operands>
struct PlacementTypes;
template <template <class...> class List, class F, int... Operands>
struct PlacementTypes<List, F, std::integer_sequence<int, Operands...>> {
  using type = List<placement_type<F::code(Operands)>...>;
};

template <class P>
struct Found {
  static constexpr int code(int operand) {
    return P::placements(P::bad_axis())[static_cast<std::size_t>(operand)].code;
  }
};
template <class P>
struct Wanted {
  static constexpr OperandPlacements nearest =
      nearest_legal(P::rule, P::ranks, P::operands, P::placements(P::bad_axis()));
  static constexpr int code(int operand) { return nearest[static_cast<std::size_t>(operand)].code; }
};

template <class Op, class P, class Lead, bool Tracked, TensorType... X>
struct Result {
  static constexpr bool same_element =
      ((!X::is_float || std::is_same_v<typename X::Element, typename Lead::Element>)&&...);
  static constexpr auto type_of() {
    if constexpr (!P::same_mesh) {
      return LayoutError<Reason::operands_live_on_different_meshes, Got<X...>,
                         Cure<Hint::use_the_same_mesh_for_both>>{};
    } else if constexpr (P::signature.count == 0) {
      return LayoutError<Reason::operands_do_not_fit_in_rank, Got<X...>,
                         Cure<Hint::see_the_shapes_it_takes>>{};
    } else if constexpr (!same_element) {
      return LayoutError<Reason::operands_have_different_element_types, Got<X...>,
                         Cure<Hint::convert_one_operand>>{};
    } else if constexpr (P::bad_axis() >= 0) {
      constexpr int axis = P::bad_axis();
      constexpr Reason reason = P::propagated(axis).reason;
      using Operands = std::make_integer_sequence<int, P::operands>;
      return LayoutError<reason, On<typename P::MeshOf::AxesOf::template at<axis>>,
                         typename PlacementTypes<Expected, Wanted<P>, Operands>::type,
                         typename PlacementTypes<Got, Found<P>, Operands>::type, Cure<hint_for(reason)>>{};
    } else {
      using Y = tensor_with<typename Lead::Element, P::signature.result.rank, typename P::MeshOf, P>;
      if constexpr (Tracked && !has_cotangent(Y::layout)) {
        return LayoutError<Reason::gradient_of_a_pending_maximum_or_minimum_is_not_defined, Got<Y>,
                           Cure<Hint::redistribute_an_operand_first>>{};
      } else {
        return TypeIs<Y>{};
      }
    }
  }
  template <class T>
  struct Unwrap {
    using type = T;
  };
  template <class T>
  struct Unwrap<TypeIs<T>> {
    using type = T;
  };
  using type = typename Unwrap<decltype(type_of())>::type;
};

}  // namespace detail

/// The tensor type that `Op` makes of operands `X...`, or a `LayoutError`.
template <class Op, Operand... X>
using result_of = typename detail::Result<Op, detail::Propagate<Op, tensor_of<X>...>,
                                          typename detail::Leading<tensor_of<X>...>::type, any_tracked<X...>,
                                          tensor_of<X>...>::type;

}  // namespace shardwise
