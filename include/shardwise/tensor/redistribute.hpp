// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// `redistribute` changes a tensor's layout: the one operation that communicates.
///
/// ```
/// auto y = redistribute<tp, Shard<1>>(x);                 // one axis
/// auto z = redistribute<Replicate, Replicate>(x);         // all axes
/// auto p = redistribute_async<tp, Replicate>(x);          // a InFlight<…>: not a tensor until wait()
/// auto h = redistribute<tp, Replicate>(x, communicate_as<Eigen::bfloat16>());   // in messages of half the size
/// ```
/// It takes the cheapest legal route (see `route`), which may need no communication.

#include <shardwise/layout/axis.hpp>
#include <shardwise/layout/diagnosis.hpp>
#include <shardwise/tensor/communicate_as.hpp>
#include <shardwise/tensor/transfer.hpp>

namespace shardwise {

namespace detail {  // from the arguments of redistribute to its result type or an error

/// The layout that `redistribute<Placements...>`, or `redistribute<Axis, P>` for one axis, requests.
template <class X, class... Arguments>
struct Asked {
  static constexpr bool placements = (PlacementTag<Arguments> && ...);
  static constexpr Reason reason = placements && sizeof...(Arguments) == X::MeshOf::axes
                                       ? Reason::none
                                       : Reason::one_placement_per_mesh_axis_is_needed;
  using Found = Got<Arguments...>;
  static constexpr PackedLayout layout() { return packed(layout_of<Arguments...>); }
};
template <class X, MeshAxis Axis, PlacementTag P>
struct Asked<X, Axis, P> {
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
      return TypeIs<tensor_or_problem<relaid<X, L>>>{};
    }
  }
  using type = typename decltype(type_of())::type;
};

/// The result of `redistribute<Arguments...>` for an `X`.
template <class X, class... Arguments>
struct Redistributed;
template <TensorType X, class... Arguments>
struct Redistributed<X, Arguments...> {
  using To = Asked<X, Arguments...>;
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

}  // namespace detail

/// The tensor type that `redistribute<Arguments...>` returns for an `X`, or a `LayoutError`.
template <class X, class... Arguments>
using redistributed = typename detail::Redistributed<X, Arguments...>::type;

namespace detail {

template <class X, class As, class... Arguments>
using redistributed_as = typename Communicated<redistributed<X, Arguments...>, As>::type;

}  // namespace detail

/// A tensor that `redistribute` accepts.
template <class X>
concept Redistributable = requires {
  typename redistributed<std::remove_cvref_t<X>>;
};

namespace detail {

/// Moves `x` to an untyped handle: if it was the only handle, later steps may write in place.
template <TensorType X>
constexpr AnyTensor given_up(X& x) {
  AnyTensor any(x);
  x = X();
  return any;
}

}  // namespace detail

/// `x` as a `Y`, a tensor type that differs from `X` only in its layout.
template <TensorType Y, TensorType X>
constexpr Y redistribute_to(X x, const detail::Communication& as = {}) {
  if constexpr (same_data(X::layout, Y::layout)) {
    return Y(detail::with_block(x).mesh(), x.shape(), x.buffer());
  } else {
    const auto mesh = x.mesh();
    const DataType travels = as.forward_of(data_type_of<typename X::Element>());
    return detail::redistributed_to(detail::given_up(x), Y::layout, travels).template as<Y>(mesh);
  }
}

/// Changes the layout of a tensor: `redistribute<Axis, Placement>` on one axis, `redistribute<Placements...>` on
/// all. `communicate_as` chooses other element types for messages. Collective over the axes whose placement
/// changes. Bit-exact unless elements are reduced or rounded.
template <class... Arguments, Redistributable X, detail::Carries As = detail::CommunicateAsStored,
          WellFormed Result = detail::redistributed_as<X, As, Arguments...>>
constexpr auto redistribute(X x, As as = {}) {
  return redistribute_to<Result>(std::move(x), as.types());
}
template <class... Arguments, Redistributable X, detail::Carries As = detail::CommunicateAsStored,
          IllFormed Why = detail::redistributed_as<X, As, Arguments...>>
Why redistribute(const X&, As = {});  // see Why: LayoutError<Reason, Expected<>, Got<>, Cure<>>
template <Redistributable X, PlacementTag... Placements,
          IllFormed Why = WrittenOtherwise<Hint::write_placements_in_angle_brackets>>
  requires(sizeof...(Placements) > 0)
Why redistribute(const X&, Placements...);  // see Why
template <MeshAxis Axis, Redistributable X, PlacementTag P,
          IllFormed Why = WrittenOtherwise<Hint::write_placements_in_angle_brackets>>
Why redistribute(const X&, P);  // see Why

/// A tensor in flight. `wait()` is its only member, so it cannot be used too early; the destructor waits.
template <TensorType Y>
class InFlight {
 public:
  /// For `redistribute_async`, which returns it.
  constexpr InFlight(const typename Y::MeshOf& mesh, Shared<detail::AnyInFlight> transfer)
      : mesh_(mesh), transfer_(std::move(transfer)) {}
  InFlight(InFlight&&) noexcept = default;
  InFlight& operator=(InFlight&&) noexcept = default;

  /// Returns the complete tensor. Throws `std::logic_error` on a second call, or if this object was moved from.
  constexpr Y wait() {
    if (!transfer_) throw std::logic_error("InFlight: it was moved from");
    if (std::exchange(arrived_, true)) throw std::logic_error("InFlight: wait() was called a second time");
    return transfer_->finish().template as<Y>(mesh_);
  }

 private:
  typename Y::MeshOf mesh_;
  Shared<detail::AnyInFlight> transfer_;
  bool arrived_ = false;
};

/// Like `redistribute`, but returns while its last collective is in flight, if that is between hosts; earlier
/// collectives of the route complete first. `auto y = pending.wait();`
template <class... Arguments, TensorType X, detail::Carries As = detail::CommunicateAsStored,
          class Result = detail::redistributed_as<X, As, Arguments...>>
constexpr auto redistribute_async(X x, As as = {}) {
  const auto mesh = x.mesh();
  const DataType travels = as.types().forward_of(data_type_of<typename X::Element>());
  return InFlight<Result>(mesh, detail::last_step(detail::given_up(x), Result::layout, travels));
}
template <class... Arguments, TensorType X, detail::Carries As = detail::CommunicateAsStored,
          IllFormed Why = detail::redistributed_as<X, As, Arguments...>>
Why redistribute_async(X, As = {});  // see Why
template <class... Arguments, Redistributable X,
          IllFormed Why = WrittenOtherwise<Hint::use_redistribute_on_a_tape>>
  requires(!TensorType<X>)
Why redistribute_async(const X&, detail::CommunicateAsStored = {});  // see Why

}  // namespace shardwise
