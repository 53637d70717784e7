// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// `redistribute` on a tape: its pullback is the redistribution of the gradient the other way round, from the
/// cotangent of the new layout to the cotangent of the old one. So `Shard<1>` to `Reduced` is an all-gather,
/// and backward a reduce-scatter; `Partial` to `Replicate` is an all-reduce, and backward nothing.

#include <shardwise/autograd/operand.hpp>
#include <shardwise/tensor/redistribute.hpp>

namespace shardwise {

namespace detail {

template <TensorType X, TensorType Y>
class RedistributeNode final : public TapeNode {
 public:
  constexpr RedistributeNode(SlotFor<X> from, SlotFor<Y> to) : from_(std::move(from)), to_(std::move(to)) {}
  constexpr void pull_back() override {
    if (to_->filled()) from_->add(redistribute_to<cotangent_of<X>>(to_->take()));
  }
  constexpr void destroy() override { destroy_pooled(this); }

 private:
  SlotFor<X> from_;
  SlotFor<Y> to_;
};

template <class X, class Result>
struct DifferentiableResult {
  using type = Result;
};
/// A gradient through a pending maximum is not defined.
template <class X, TensorType Result>
requires(X::tracked && !(has_cotangent(X::TensorOf::layout) &&
                         has_cotangent(Result::layout))) struct DifferentiableResult<X, Result> {
  using type = LayoutError<Reason::gradient_of_a_pending_maximum_or_minimum_is_not_defined,
                           Got<typename X::TensorOf>, Cure<Hint::redistribute_an_operand_first>>;
};

}  // namespace detail

/// `x` in the layout of the tensor type `Y`; on a tape if `x` is.
template <TensorType Y, class X>
requires is_var<X>
constexpr auto redistribute_to(X x) {
  if constexpr (std::is_same_v<Y, tensor_of<X>>) {
    return x;
  } else if constexpr (!OperandTraits<X>::tracked) {
    return Var<Y, false>(x.tape(), redistribute_to<Y>(std::move(x).release()));
  } else {
    auto slot = SlotFor<Y>::make();
    x.tape().template record<detail::RedistributeNode<tensor_of<X>, Y>>(x.slot(), slot);
    return Var<Y>(x.tape(), redistribute_to<Y>(std::move(x).release()), std::move(slot));
  }
}

template <class... Arguments, class X, bool Tracked,
          class Result =
              typename detail::DifferentiableResult<Var<X, Tracked>, redistributed<X, Arguments...>>::type>
constexpr auto redistribute(Var<X, Tracked> x) {
  return redistribute_to<Result>(std::move(x));
}
template <class... Arguments, class X, bool Tracked,
          IllFormed Why =
              typename detail::DifferentiableResult<Var<X, Tracked>, redistributed<X, Arguments...>>::type>
Why redistribute(Var<X, Tracked>) = delete;  // see Why

}  // namespace shardwise
