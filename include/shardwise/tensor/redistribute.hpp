// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// `redistribute` changes a tensor's layout: the one operation that communicates.
///
/// ```
/// auto y = redistribute<tp, Shard<1>>(x);                 // one axis
/// auto z = redistribute<Replicate, Replicate>(x);         // all axes
/// auto p = redistribute_async<tp, Replicate>(x);          // a Pending<…>: no tensor until wait()
/// ```
/// It takes the cheapest legal route (see `route`), which may be no communication at all.

#include <concepts>

#include <shardwise/mesh/axis.hpp>
#include <shardwise/tensor/transfer.hpp>

namespace shardwise {

namespace detail {  // from the arguments of redistribute to the type of its result, or to an error

/// `redistribute<Axis, P>`: the placement on one axis changes.
template <class X, class... Arguments>
struct NewCodes {
  static_assert(sizeof...(Arguments) == 0 || (PlacementTag<Arguments> && ...),
                "redistribute takes an axis and a placement, or one placement per axis");
  static constexpr bool counted = sizeof...(Arguments) == X::MeshOf::axes;
  static constexpr bool axis_exists = true;
  static constexpr int at(int axis) {
    if (!counted) return replicate.code;
    return layout_of<Arguments...>[axis].code;
  }
};
template <class X, MeshAxis Axis, PlacementTag P>
struct NewCodes<X, Axis, P> {
  static constexpr bool counted = true;
  static constexpr int changed = X::MeshOf::AxesOf::template index<Axis>;
  static constexpr bool axis_exists = changed >= 0;
  static constexpr int at(int axis) { return axis == changed ? placement_of<P>.code : X::layout[axis].code; }
};

template <class Codes>
constexpr Layout layout_from(int axes) {
  Layout layout;
  layout.axes = axes;
  for (int axis = 0; axis < axes; ++axis) layout[axis] = Placement{Codes::at(axis)};
  return layout;
}

template <class X, class Codes>
constexpr Reason why_not_redistributed() {
  if (!Codes::counted) return Reason::one_placement_per_mesh_axis_is_needed;
  if (!Codes::axis_exists) return Reason::mesh_has_no_such_axis;
  Layout to = layout_from<Codes>(X::MeshOf::axes);
  for (int axis = 0; axis < to.axes; ++axis) {
    if (to[axis].is_shard() && to[axis].dim() >= X::rank) return Reason::tensor_has_no_such_dimension;
    if (!convertible(X::layout[axis], to[axis]))
      return Reason::nothing_can_become_a_pending_maximum_or_minimum;
  }
  return well_formed(to, X::rank) ? Reason::none : Reason::pending_reductions_of_different_kinds;
}

template <class X, class... Arguments>
struct Redistributed {
  using Codes = NewCodes<X, Arguments...>;
  static constexpr Reason reason = why_not_redistributed<X, Codes>();
  static constexpr Hint hint = reason == Reason::tensor_has_no_such_dimension
                                   ? Hint::name_an_existing_dimension
                               : reason == Reason::nothing_can_become_a_pending_maximum_or_minimum
                                   ? Hint::redistribute_to_Replicate_to_finish_the_reduction
                                   : Hint::give_one_placement_per_axis;
  template <class Y>
  struct Result {
    using type = tensor_with<typename Y::Element, Y::rank, typename Y::MeshOf, Codes>;
  };
  struct Failure {
    using type = LayoutError<reason, Expected<Arguments...>, Got<X>, Cure<hint>>;
  };
  using type = typename std::conditional_t<reason == Reason::none, Result<X>, Failure>::type;
};

template <class X, class Y>
Route cached_route(const MeshSizes& sizes) {
  thread_local MeshSizes known{};
  thread_local Route cached;
  if (known != sizes) {
    cached = route(X::layout, Y::layout, X::rank, sizes);
    known = sizes;
  }
  return cached;
}

/// The first step of the way from X to Y, and whether it is the whole way.
template <class X, class Y>
constexpr Route route_between(const MeshSizes& sizes) {
  if (std::is_constant_evaluated()) return route(X::layout, Y::layout, X::rank, sizes);
  return cached_route<X, Y>(sizes);
}

}  // namespace detail

/// The tensor type that `redistribute<Arguments...>` makes of an `X`, or the `LayoutError` that says why not.
template <TensorType X, class... Arguments>
using redistributed = typename detail::Redistributed<X, Arguments...>::type;

namespace detail {

/// Goes from `x` to layout `Y` up to the last step, which is prepared and left to the caller.
template <TensorType Y, TensorType X>
constexpr auto all_but_last_step(X x) {
  using TransferOf = Transfer<typename X::Element, X::rank, typename X::MeshOf>;
  const auto mesh = x.mesh();
  const auto shape = x.shape();
  const Route way = route_between<X, Y>(mesh.sizes());
  Buffer block = x.buffer();
  x = X();  // the first step may then write in place
  Layout from = X::layout;
  for (int i = 0; i + 1 < way.count; ++i) {
    const Step& step = way.steps[static_cast<std::size_t>(i)];
    TransferOf transfer(mesh, shape, from, step, std::move(block));
    transfer.run();
    block = transfer.finish();
    from = step.to;
  }
  return TransferOf(mesh, shape, from, way.steps[static_cast<std::size_t>(way.count - 1)], std::move(block));
}

}  // namespace detail

/// `x` as a `Y`, a tensor type that differs from `X` in its layout alone.
template <TensorType Y, TensorType X>
constexpr Y redistribute_to(X x) {
  if constexpr (same_data(X::layout, Y::layout)) {
    return Y(x.mesh(), x.shape(), x.buffer());
  } else {
    auto transfer = detail::all_but_last_step<Y>(std::move(x));
    transfer.run();
    return Y(transfer.mesh(), transfer.shape(), transfer.finish());
  }
}

/// Changes the layout of a tensor: `redistribute<Axis, Placement>` on one axis, `redistribute<Placements...>`
/// on all. Collective over the axes whose placement changes. Bit-exact where nothing is reduced.
template <class... Arguments, TensorType X, class Result = redistributed<X, Arguments...>>
constexpr Result redistribute(X x) {
  return redistribute_to<Result>(std::move(x));
}
template <class... Arguments, TensorType X, IllFormed Why = redistributed<X, Arguments...>>
Why redistribute(X) = delete;  // see Why: LayoutError<Reason, Expected<>, Got<>, Cure<>>

/// A tensor on its way. It has no members but `wait()`, so it cannot be used too early; the destructor waits.
template <TensorType Y>
class Pending {
 public:
  using TransferOf = detail::Transfer<typename Y::Element, Y::rank, typename Y::MeshOf>;

  /// Starts the last step of the way.
  constexpr explicit Pending(TransferOf last_step) : transfer_(std::move(last_step)) { transfer_.start(); }

  /// The tensor, when it has arrived. Call once.
  constexpr Y wait() && { return Y(transfer_.mesh(), transfer_.shape(), transfer_.finish()); }

 private:
  TransferOf transfer_;
};

/// `redistribute` that returns while its last collective is under way; where the route has several, the
/// others are done first. `auto y = std::move(pending).wait();`
template <class... Arguments, TensorType X, class Result = redistributed<X, Arguments...>>
constexpr auto redistribute_async(X x) -> Pending<Result> {
  return Pending<Result>(detail::all_but_last_step<Result>(std::move(x)));
}
template <class... Arguments, TensorType X, IllFormed Why = redistributed<X, Arguments...>>
Why redistribute_async(X) = delete;  // see Why

}  // namespace shardwise
