// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// `redistribute` on a tape: its pullback is the redistribution of the gradient the other way round, from the
/// cotangent of the new layout to the cotangent of the old one. So `Shard<1>` to `Reduced` is an all-gather,
/// and backward a reduce-scatter; `Partial` to `Replicate` is an all-reduce, and backward nothing.

#include <shardwise/layout/diagnosis.hpp>

#include <shardwise/autograd/abstract.hpp>
#include <shardwise/base/bodies.hpp>
#include <shardwise/tensor/redistribute.hpp>

namespace shardwise {

/// A tensor in flight is not an operand yet.
template <class... X>
struct OperandTraits<InFlight<X...>> {
  using TensorOf = layout_error<Reason::operand_is_still_in_flight, Got<InFlight<X...>>>;
  static constexpr bool on_tape = false;
  static constexpr bool tracked = false;
};

namespace detail {

class RedistributeNode final : public TapeNode {
 public:
  /// `like`: the gradient of the result, without a block; `to`: the layout of the operand's gradient; `as`: the element
  /// types of messages.
  constexpr RedistributeNode(Tape& tape, const AnyTensor& like, const Layout& to, const Communication& as,
                             const ElementSum& elements, Shared<GradientSlot> from,
                             const Shared<GradientSlot>& slot)
      : tape_(tape),
        like_(like),
        to_(to),
        as_(as),
        elements_(elements),
        operand_(std::move(from)),
        slot_(slot),
        to_other_hosts_(goes_to_other_hosts()) {
    if (to_other_hosts_) tape_.expect_message();
    if (like_.mesh.recorder()) slot_->onward = packed(to_);
  }
  [[gnu::noinline]] constexpr void send_back() {
    Buffer dy = slot_->pass();
    if (!dy) {
      if (to_other_hosts_) tape_.compute_while_waiting();
      return;
    }
    Recorder* recorder = like_.mesh.recorder();
    if (recorder && operand_->use() == MemoryUse::activation) find_waste(*recorder);
    AnyTensor dx = like_.with(like_.layout, std::move(dy));
    const DataType travels = as_.backward_of(like_.type);
    if (to_other_hosts_ && is_large(travels)) {
      const Shared<AnyInFlight> sent = last_step(std::move(dx), to_, travels);
      tape_.compute_while_waiting();
      dx = sent->finish();
    } else {
      dx = redistributed_to(std::move(dx), to_, travels);
      if (to_other_hosts_) tape_.compute_while_waiting();
    }
    operand_->add(std::move(dx.buffer), elements_, recorder);
  }
  constexpr bool pull_back(BackwardPart) override {
    send_back();
    return false;
  }

 private:
  /// Whether its last collective is between hosts, on some ranks: all postpone gradients of parameters alike.
  constexpr bool goes_to_other_hosts() const {
    if (!like_.mesh.has_several_hosts()) return false;
    const Route way = route_of(like_, to_);
    if (way.begin() == way.end()) return false;
    const Step& last = *(way.end() - 1);
    return last.kind != Collective::none && like_.mesh.any_crosses_hosts(last.axes);
  }
  /// Whether the message is worth a call in the background: the same on all ranks.
  constexpr bool is_large(DataType travels) const {
    return elements(like_.shape) * size_of(travels) >= least_in_background;
  }
  /// Two kinds of waste show where the gradient of a value arrives. The same redistribution has brought a contribution
  /// before: one would do for both readers. Or the gradient is all-reduced, and each rank then keeps its part, because
  /// the value was gathered: the sum could stay pending until then.
  [[gnu::noinline]] constexpr void find_waste(Recorder& recorder) const {
    const Layout& from = like_.layout;
    const MeshSizes& sizes = like_.mesh.sizes();
    const DataType sent = as_.forward_of(like_.type), returned = as_.backward_of(like_.type);
    const std::uint64_t kind =
        packed(from) | static_cast<std::uint64_t>(sent) << 48 | static_cast<std::uint64_t>(returned) << 56;
    const bool repeated = std::exchange(operand_->arrived, kind) == kind;
    bool summed_whole = false;
    Layout pending = to_, onward = to_;
    for (int axis = 0; operand_->onward != GradientSlot::unknown && axis < to_.axes; ++axis) {
      onward[axis] = unpacked(operand_->onward, axis);
      if (!from[axis].is_partial() || to_[axis] != replicate || sizes[axis] == 1) continue;
      pending[axis] = partial_sum;
      summed_whole |= onward[axis].is_shard();
    }
    if (!repeated && !summed_whole) return;
    // In 1 / ranks² of the tensor, as `received`.
    const auto received_on_route = [&](Layout at, const Layout& to) {
      std::int64_t sum = 0;
      for (const Step& step : route_of(like_.with(at, Buffer()), to)) {
        sum += received(at, step, sizes);
        at = step.to;
      }
      return sum;
    };
    std::int64_t excess = received_on_route(from, to_) * size_of(returned);
    if (repeated) {
      excess += received_on_route(cotangent(to_), cotangent(from)) * size_of(sent);
    } else {
      excess += (received_on_route(to_, onward) - received_on_route(from, pending) -
                 received_on_route(pending, onward)) *
                size_of(returned);
    }
    if (excess <= 0) return;
    const double ranks = group_size(sizes, to_.axes, ~0u);
    double bytes = static_cast<double>(excess) / (ranks * ranks);
    for (const Index extent : like_.shape) bytes *= static_cast<double>(extent);
    recorder.waste(summed_whole ? Waste::summed_whole : Waste::repeated,
                   like_.mesh.recorded(changed_axes(from, to_, sizes)), static_cast<std::int64_t>(bytes));
  }

  static constexpr Index least_in_background = 16384;  // bytes of all ranks together

  Tape& tape_;
  AnyTensor like_;
  Layout to_;
  Communication as_;
  const ElementSum& elements_;
  Shared<GradientSlot> operand_;
  ResultSlot slot_;
  bool to_other_hosts_;
};

/// Records a `RedistributeNode`; the arguments are those of its constructor.
SHARDWISE_ONCE(void, record_redistribution,
               (Tape & tape, const AnyTensor& like, const Layout& to, const Communication& as,
                const ElementSum& elements, const Shared<GradientSlot>& from,
                const Shared<GradientSlot>& slot),
               (tape, like, to, as, elements, from, slot),
               (void)tape.record<RedistributeNode>(tape, like, to, as, elements, from, slot))

template <class X, bool Tracked, class... Arguments>
struct Redistributed<Var<X, Tracked>, Arguments...>
    : Differentiable<Var<X, Tracked>, redistributed<X, Arguments...>> {};
/// Names a call of `redistribute` in the error of a module.
template <class... Arguments>
struct Redistribute {};
template <class X, bool OnTape, bool Tracked, class... Arguments>
struct Redistributed<Abstract<X, OnTape, Tracked>, Arguments...> {
  template <class Y>
  static constexpr auto type_of() {
    if constexpr (IllFormed<Y>) {
      return TypeIs<Y>{};
    } else {
      using To = typename Differentiable<std::conditional_t<Tracked, Var<Y>, Y>,
                                         redistributed<Y, Arguments...>>::type;
      return Extended<To, Of<Redistribute<Arguments...>>>{};
    }
  }
  using type = Abstract<typename decltype(type_of<X>())::type, OnTape, Tracked>;
};
template <class Y, bool OnTape, bool Tracked, Carries As>
struct Communicated<Abstract<Y, OnTape, Tracked>, As>
    : TypeIs<Abstract<typename Communicated<Y, As>::type, OnTape, Tracked>> {};
template <class... X, class... Arguments>
struct Redistributed<InFlight<X...>, Arguments...> : TypeIs<tensor_of<InFlight<X...>>> {};

}  // namespace detail

/// `Y`, a tensor type or a `LayoutError`, as an abstract operand.
template <class Y, AbstractOperand X>
constexpr auto redistribute_to(const X&, const detail::Communication& = {}) {
  if constexpr (AbstractOperand<Y>) {
    return Y{};
  } else {
    return detail::abstract_result<std::conditional_t<IllFormed<tensor_of<X>>, tensor_of<X>, Y>, X>{};
  }
}

namespace detail {

/// `y`, the value of `x` in another layout, on the tape of `x`.
template <TensorType Y, Operand X>
constexpr auto redistributed_on_tape(Y y, const X& x, const Communication& as) {
  return on_common_tape(
      std::move(y),
      [&](Tape& tape, const Y& result, const auto& slot) {
        using From = tensor_of<X>;
        record_redistribution(tape, AnyTensor(result).with(cotangent_of<Y>::layout, Buffer()),
                              cotangent_of<From>::layout, as, element_sum<typename Y::Element>, slot_of(x),
                              slot);
        if constexpr (OperandTraits<X>::tracked && same_data(From::layout, Y::layout)) {
          return x.recipe();
        }
        return Shared<Recipe>();
      },
      x);
}

}  // namespace detail

/// `x` in the layout of the tensor type `Y`; on a tape if `x` is.
template <TensorType Y, class X>
  requires is_var<X>
constexpr auto redistribute_to(X x, const detail::Communication& as = {}) {
  if constexpr (std::is_same_v<Y, tensor_of<X>>) {
    return x;
  } else {
    Y y = redistribute_to<Y>(std::move(x).release(), as);  // x keeps its tape, slot and recipe
    return detail::redistributed_on_tape(std::move(y), x, as);
  }
}

/// A `Var` in flight; `X` is its operand, without its value.
template <class Y, bool Tracked, class X>
class InFlight<Var<Y, Tracked>, X> {
 public:
  /// For `redistribute_async`, which returns it.
  constexpr InFlight(InFlight<Y> value, X&& x, const detail::Communication& as)
      : value_(std::move(value)), x_(std::move(x)), as_(as) {}

  /// Returns the complete value, on the tape. Its gradient travels back while gradients of parameters are computed.
  /// Throws `std::logic_error` as `InFlight<Y>::wait` does.
  constexpr Var<Y, Tracked> wait() { return detail::redistributed_on_tape(value_.wait(), x_, as_); }

 private:
  InFlight<Y> value_;
  X x_;
  detail::Communication as_;
};

/// On types only.
template <AbstractOperand X>
class InFlight<X> {
 public:
  /// As that of a value.
  constexpr X wait() { return {}; }
};

/// On types only.
template <class... Arguments, AbstractOperand X, detail::Carries As = detail::CommunicateAsStored,
          class Result = detail::redistributed_as<X, As, Arguments...>>
constexpr InFlight<Result> redistribute_async(const X&, As = {}) {
  return {};
}

/// `redistribute_async` on a tape.
template <class... Arguments, class X, detail::Carries As = detail::CommunicateAsStored,
          WellFormed Result = detail::redistributed_as<tensor_of<X>, As, Arguments...>>
  requires is_var<X>
constexpr auto redistribute_async(X x, As as = {}) {
  using InFlightOnTape = InFlight<Var<Result, OperandTraits<X>::tracked>, X>;
  auto value = redistribute_async<Arguments...>(std::move(x).release(), as);
  return InFlightOnTape(std::move(value), std::move(x), as.types());
}

namespace detail {

/// The result of `redistribute_like`, or a `LayoutError`; abstract if `X` is.
template <class X, class Like>
struct RedistributedLike {
  template <class Y>
  using As = typename std::conditional_t<is_abstract<X>, TypeIs<abstract_result<Y, X>>, TypeIs<Y>>::type;

  template <int... Axis>
  static constexpr auto placed(std::integer_sequence<int, Axis...>) {
    return TypeIs<redistributed<X, placement_type<Like::layout[Axis].code>...>>{};
  }
  static constexpr auto type_of() {
    if constexpr (IllFormed<tensor_of<X>>) {
      return TypeIs<As<tensor_of<X>>>{};
    } else if constexpr (IllFormed<Like>) {
      return TypeIs<As<Like>>{};
    } else if constexpr (!std::is_same_v<typename tensor_of<X>::MeshOf, typename Like::MeshOf>) {
      return TypeIs<As<layout_error<Reason::operands_are_on_different_meshes,
                                    Got<typename tensor_of<X>::MeshOf, typename Like::MeshOf>>>>{};
    } else {
      return placed(std::make_integer_sequence<int, Like::MeshOf::axes>());
    }
  }
  using type = typename decltype(type_of())::type;
};
template <class X, class Like>
using redistributed_like = typename RedistributedLike<X, tensor_of<Like>>::type;

}  // namespace detail

/// `x` in the layout of `y`, of which only the type counts. Otherwise as `redistribute`.
template <Redistributable X, Operand Y, WellFormed Result = detail::redistributed_like<X, Y>>
constexpr auto redistribute_like(X x, const Y&) {
  return redistribute_to<Result>(std::move(x));
}
template <Redistributable X, Operand Y, IllFormed Why = detail::redistributed_like<X, Y>>
Why redistribute_like(const X&, const Y&);  // see Why

}  // namespace shardwise
