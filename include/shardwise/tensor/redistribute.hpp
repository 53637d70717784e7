// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// `redistribute` changes a tensor's layout: the one operation that communicates.
///
/// ```
/// auto y = redistribute<tp, Shard<1>>(x);                 // one axis
/// auto z = redistribute<Replicate, Replicate>(x);         // all axes
/// auto p = redistribute_async<tp, Replicate>(x);          // an InFlight<…>: not a tensor until wait()
/// auto h = redistribute<tp, Replicate>(x, communicate_as<Eigen::bfloat16>());   // in messages of half the size
/// ```
/// It takes the cheapest legal route (see `route`), which may need no communication.

#include <shardwise/tensor/redistribute_refused.hpp>
#include <shardwise/tensor/transfer.hpp>

namespace shardwise {

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

/// A tensor in flight, or a `Var`. `wait()` is its only member, so it cannot be used too early; the destructor waits.
template <class... Y>
class InFlight;

template <TensorType Y>
class InFlight<Y> {
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
          WellFormed Result = detail::redistributed_as<X, As, Arguments...>>
constexpr auto redistribute_async(X x, As as = {}) {
  const auto mesh = x.mesh();
  const DataType travels = as.types().forward_of(data_type_of<typename X::Element>());
  return InFlight<Result>(mesh, detail::last_step(detail::given_up(x), Result::layout, travels));
}

}  // namespace shardwise
