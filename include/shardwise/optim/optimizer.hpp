// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// What optimizers share: they finish the pending gradients of a module, walk its parameters, hand parameter,
/// gradient and state to an update, and clear the gradient. State lies as the parameter does: what is sharded
/// is updated where it is, without communication.

#include <vector>

#include <shardwise/optim/reduce_gradients.hpp>

namespace shardwise {

/// The state of one parameter: up to two blocks that lie as it does, such as a velocity, or Adam's two
/// moments.
struct ParameterState {
  Buffer first, second;
};

/// `Update` says how many blocks of state it keeps, `state_blocks()`, and what it does with a parameter,
/// `apply`. A parameter without a gradient is left as it is.
template <class Update>
class Optimizer {
 public:
  /// `reduction`: how `step` finishes gradients that are still pending.
  constexpr explicit Optimizer(Update update, ReduceOptions reduction = {})
      : update_(update), reduction_(reduction) {}

  /// One step for all parameters of `module`, the same one in every step, from the gradients that are there, which it clears. What is pending
  /// is finished first, by `reduce_gradients`; after that, or after `clip_gradients`, nothing is, and a step does
  /// not communicate.
  template <class Module>
  constexpr void step(Module& module) {
    reduce_gradients(module, reduction_);
    ++steps_;
    std::size_t index = 0;
    for_each_parameter(module, [&](auto& parameter) { step_one(parameter, index++); });
  }

  /// The settings, such as the learning rate, to be changed between steps.
  constexpr Update& settings() { return update_; }
  /// How many steps were made: the number of the next, counted from 0.
  constexpr std::int64_t steps() const { return steps_; }

 private:
  /// A parameter, known by the slot of its gradient, and its state.
  struct OwnedState {
    const void* slot = nullptr;
    ParameterState state;
  };

  /// State in the type in which the parameter's arithmetic is done.
  template <class X>
  static constexpr Buffer zeroed_block(const Parameter<X>& parameter) {
    using C = kernel::compute_t<typename X::Element>;
    const Index count = elements(parameter.value().local_shape());
    Buffer block =
        Buffer::allocate(parameter.mesh(), count * static_cast<Index>(sizeof(C)), MemoryUse::optimizer_state);
    if constexpr (!X::MeshOf::dry) std::fill_n(static_cast<C*>(block.data()), count, C(0));
    return block;
  }

  template <class X>
  constexpr void step_one(Parameter<X>& parameter, std::size_t index) {
    if (!parameter.finished_slot().filled()) return;
    PhaseScope phase(parameter.mesh().recorder(), Phase::optimizer);
    const finished_gradient_of<X> gradient = parameter.finished_slot().take();
    if (states_.size() <= index) states_.resize(index + 1);
    const void* slot = &*parameter.slot();
    if (states_[index].slot && states_[index].slot != slot) {
      throw std::invalid_argument("an optimizer is for one module: parameter " + std::to_string(index) +
                                  " is not the one of the steps before");
    }
    states_[index].slot = slot;
    ParameterState& state = states_[index].state;
    if (update_.state_blocks() > 0 && !state.first) state.first = zeroed_block(parameter);
    if (update_.state_blocks() > 1 && !state.second) state.second = zeroed_block(parameter);
    const Index count = elements(gradient.local_shape());
    if (auto* recorder = parameter.mesh().recorder()) recorder->compute(Update::flops * count);
    if constexpr (!X::MeshOf::dry) {
      update_.apply(steps_, count, parameter.writable().data, gradient.data(), state);
    }
  }

  Update update_;
  ReduceOptions reduction_;
  std::int64_t steps_ = 0;
  std::vector<OwnedState> states_;  // in the order of `visit`
};

}  // namespace shardwise
