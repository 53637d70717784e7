// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The result type of `redistribute`, and the overloads that are compile errors: they say what is wrong with a call.

#include <shardwise/layout/axis.hpp>
#include <shardwise/layout/diagnosis.hpp>
#include <shardwise/tensor/communicate_as.hpp>

namespace shardwise {

namespace detail {  // from the arguments of redistribute to its result type or an error

/// The layout that `redistribute<Placements...>`, or `redistribute<Axis, P>` for one axis, requests.
template <class X, class... Arguments>
struct RequestedLayout {
  static constexpr bool placements = (PlacementTag<Arguments> && ...);
  static constexpr Reason reason = placements && sizeof...(Arguments) == X::MeshOf::axes
                                       ? Reason::none
                                       : Reason::one_placement_per_mesh_axis_is_needed;
  using Found = Got<Arguments...>;
  static constexpr PackedLayout layout() { return packed(layout_of<Arguments...>); }
};
template <class X, MeshAxis Axis, PlacementTag P>
struct RequestedLayout<X, Axis, P> {
  static constexpr int changed = X::MeshOf::AxesOf::template index<Axis>;
  static constexpr Reason reason = changed < 0 ? Reason::mesh_has_no_such_axis : Reason::none;
  using Found = Got<Axis>;
  static constexpr PackedLayout layout() {
    Layout to = X::layout;
    to[changed] = placement_of<P>;
    return packed(to);
  }
};

/// The reason why a tensor of type `X` cannot become `to` on one axis.
template <class X>
constexpr Reason why_not_redistributed(int axis, Placement to) {
  const Placement from = X::layout[axis];
  if (to.is_shard() && to.dim() >= X::rank) return Reason::tensor_has_no_such_dimension;
  if (convertible(from, to)) return Reason::none;
  return to == partial_sum ? Reason::pending_maximum_or_minimum_must_be_reduced_first
                           : Reason::nothing_can_become_a_pending_maximum_or_minimum;
}

/// `X` in the layout `L`, or a `LayoutError`.
template <class X, PackedLayout L>
struct RedistributedTo {
  using MeshOf = typename X::MeshOf;
  static constexpr int bad_axis() {
    for (int axis = 0; axis < MeshOf::axes; ++axis) {
      if (why_not_redistributed<X>(axis, unpacked(L, axis)) != Reason::none) return axis;
    }
    return -1;
  }
  template <int Axis>
  static constexpr auto error() {
    constexpr Placement asked = unpacked(L, Axis);
    constexpr Reason reason = why_not_redistributed<X>(Axis, asked);
    constexpr bool no_dimension = reason == Reason::tensor_has_no_such_dimension;
    return Refused<reason, On<typename MeshOf::AxesOf::template at<Axis>>,
                   Expected<placement_type<no_dimension ? X::rank - 1 : replicate.code>>,
                   Got<placement_type<asked.code>>>{};
  }
  static constexpr auto type_of() {
    if constexpr (bad_axis() >= 0) {
      return error<bad_axis()>();
    } else {
      return TypeIs<tensor_or_problem<with_layout<X, L>>>{};
    }
  }
  using type = typename decltype(type_of())::type;
};

/// The result of `redistribute<Arguments...>` for an `X`.
template <class X, class... Arguments>
struct Redistributed;
template <TensorType X, class... Arguments>
struct Redistributed<X, Arguments...> {
  using To = RequestedLayout<X, Arguments...>;
  static constexpr auto type_of() {
    if constexpr (IllFormed<typename X::Problem>) {
      return TypeIs<typename X::Problem>{};
    } else if constexpr (To::reason != Reason::none) {
      return Refused<To::reason, Expected<typename X::MeshOf::AxesOf>, typename To::Found>{};
    } else {
      return RedistributedTo<X, To::layout()>{};
    }
  }
  using type = typename decltype(type_of())::type;
};

/// A placement as an argument of a call, where it does not belong: `Shard<0>()` or `shard(0)`.
template <class P>
concept PlacementArgument = PlacementTag<P> || std::is_same_v<P, Placement>;

template <class X, class As, class... Arguments>
using redistributed_as = typename Communicated<typename Redistributed<X, Arguments...>::type, As>::type;

}  // namespace detail

/// The tensor type that `redistribute<Arguments...>` returns for an `X`, or a `LayoutError`.
template <class X, class... Arguments>
using redistributed = typename detail::Redistributed<X, Arguments...>::type;

/// A tensor that `redistribute` accepts.
template <class X>
concept Redistributable = requires {
  typename redistributed<std::remove_cvref_t<X>>;
};

template <class... Arguments, Redistributable X, detail::Carries As = detail::CommunicateAsStored,
          IllFormed Why = detail::redistributed_as<X, As, Arguments...>>
Why redistribute(const X&, As = {});  // see Why: LayoutError<Reason, Expected<>, Got<>, Cure<>>
template <Redistributable X, detail::PlacementArgument... Placements,
          IllFormed Why = WrittenOtherwise<Hint::write_placements_in_angle_brackets>>
  requires(sizeof...(Placements) > 0)
Why redistribute(const X&, Placements...);  // see Why
template <MeshAxis Axis, Redistributable X, detail::PlacementArgument P,
          IllFormed Why = WrittenOtherwise<Hint::write_placements_in_angle_brackets>>
Why redistribute(const X&, P);  // see Why
template <class... Arguments, Redistributable X, detail::Carries As = detail::CommunicateAsStored,
          IllFormed Why = detail::redistributed_as<X, As, Arguments...>>
Why redistribute_async(const X&, As = {});  // see Why

}  // namespace shardwise
