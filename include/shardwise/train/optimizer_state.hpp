// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The state of optimizers, such as a velocity or Adam's two moments, and the update of one parameter with it. Updates
/// compute with the compute type; state in another type is converted in pieces that stay in the cache.

#include <shardwise/kernel/update.hpp>
#include <shardwise/module/parameter_state.hpp>
#include <shardwise/tensor/transfer.hpp>

namespace shardwise {

/// The type in which an optimizer stores its blocks of state. Master weights always have the compute type.
enum class StateType : std::uint8_t {
  compute,  ///< that in which updates compute: float, or double for parameters in double
  bf16,  ///< bfloat16, stochastically rounded: a moment changes by too little in a step to be rounded to nearest
};

/// The state of one parameter: up to two blocks with the layout of its finished gradient; and a master copy in the
/// compute type, if that is wider than the stored one.
struct OptimizerState {
  Buffer first, second, master;
  std::int64_t steps = 0;  ///< of this parameter: those in which it had a gradient
};

/// Elements of the blocks of state, for an update; null if the optimizer does not keep the block.
template <class C>
struct StateElements {
  C* first = nullptr;
  C* second = nullptr;
  std::int64_t steps = 0;
};

namespace detail {

/// The compute type for parameters of this type.
constexpr DataType wide(DataType type) { return type == DataType::bf16 ? DataType::f32 : type; }
/// The type of blocks of state for parameters of type `parameter`.
constexpr DataType stored_type(StateType type, DataType parameter) {
  return type == StateType::bf16 ? DataType::bf16 : wide(parameter);
}

/// Throws `std::invalid_argument` unless 0 <= value < end.
constexpr void check_setting(const char* optimizer, const char* name, double value,
                             double end = std::numeric_limits<double>::infinity()) {
  if (value >= 0 && value < end) return;
  fail({optimizer, ": ", name, " is ", value, ", which must be 0 or more",
        end == 1 ? ", and below 1" : ", and a finite number"});
}

constexpr void count_step(std::int64_t& steps) {  // no overflow: a checkpoint may contain any number
  if (steps < 0 || steps > 1LL << 60) fail({"an optimizer cannot have made ", steps, " steps"});
  ++steps;
}

/// Creates a block of `count` zeros, unless there is one.
constexpr void make_zeros(Buffer& block, DataType type, const MeshView& mesh, Index count) {
  if (block) return;
  block = allocate_buffer(mesh, count * size_of(type), MemoryUse::optimizer_state);
  if (block->data) std::memset(block->data, 0, static_cast<std::size_t>(block->bytes));
}

/// Calls f(first, count, elements) for successive local elements of `part`, a parameter or its gradient; f may change
/// `elements`, their state in the compute type `C`. `seed`: of this parameter and step.
template <class C, class F>
void with_state(const AnyTensor& part, const OptimizerState& state, StateType type, std::uint64_t seed, F f) {
  const auto block = [](const Buffer& buffer) { return buffer ? buffer->data : nullptr; };
  if (type == StateType::compute) {
    return f(Index{0}, part.local_elements(),
             StateElements<C>{static_cast<C*>(block(state.first)), static_cast<C*>(block(state.second)),
                              state.steps});
  }
  using Stored = Eigen::bfloat16;
  constexpr Index most = 2048;
  struct WideState;
  C* const wide = kernel::scratch<WideState, C>(2 * most);
  const auto widened = [](Index count, const Stored* from, C* to) {
    if (!from) return static_cast<C*>(nullptr);
    for (Index i = 0; i < count; ++i) to[i] = kernel::widen(from[i]);
    return to;
  };
  for_each_run(view_of(part), [&](Index local, Index global, Index run) {
    for (Index done = 0; done < run; done += most) {
      const Index first = local + done, count = std::min(most, run - done);
      const auto at = [&](const Buffer& buffer) {
        return buffer ? static_cast<Stored*>(buffer->data) + first : nullptr;
      };
      const StateElements<C> elements{widened(count, at(state.first), wide),
                                      widened(count, at(state.second), wide + most), state.steps};
      f(first, count, elements);
      if (!elements.first) continue;
      kernel::round_stochastically(count, seed, static_cast<std::uint64_t>(global + done), elements.first,
                                   at(state.first), elements.second, at(state.second));
    }
  });
}

/// A parameter of an optimizer.
struct OwnedState {
  Shared<ParameterState> cell;  ///< keeps the parameter alive, so that its address stays unique
  int group = -1;
  bool again = false;  ///< the state is stored under an earlier name of the parameter
  StateType type = StateType::compute;
  std::uint64_t number = 0;  ///< of the parameter's name, for random bits
  OptimizerState state{};

  /// Of the random bits by which the state is rounded in this step.
  constexpr std::uint64_t seed() const { return number + static_cast<std::uint64_t>(state.steps); }
};

/// Updates the part of a parameter that matches the gradient.
template <class Update>
constexpr void update_part(const Update& update, OwnedState& owned, const AnyTensor& parameter,
                           const Buffer& gradient) {
  const MeshView& mesh = parameter.mesh;
  const DataType type = parameter.type, stored = stored_type(update.state, type);
  const Index count = gradient->bytes / size_of(type);
  OptimizerState& state = owned.state;
  count_step(state.steps);
  if (update.state_blocks() > 0) make_zeros(state.first, stored, mesh, count);
  if (update.state_blocks() > 1) make_zeros(state.second, stored, mesh, count);
  // It reads and writes the parameter and its state, and reads the gradient.
  const bool keeps_master = wide(type) != type && update.master_weights;
  const Index kept = size_of(stored) * update.state_blocks() + (keeps_master ? size_of(wide(type)) : 0);
  count_work(mesh, update.flops() * count, (3 * size_of(type) + 2 * kept) * count, "update");
  if (keeps_master) make_zeros(state.master, wide(type), mesh, count);
  if (!gradient->data) return;
  with_floating(type, [&]<class T>(T) {
    using C = kernel::compute_t<T>;
    const auto change = [&](Index first, Index part, const StateElements<C>& elements) {
      C* const master = state.master ? static_cast<C*>(state.master->data) + first : nullptr;
      const kernel::Updated<T> values{static_cast<T*>(parameter.buffer->data) + first, master};
      update.apply(part, values, static_cast<const T*>(gradient->data) + first, elements);
    };
    with_state<C>(parameter, state, update.state, owned.seed(), change);
  });
}
/// The same for a bias by which experts are chosen.
constexpr void update_bias(double rate, const AnyTensor& parameter, const Buffer& gradient) {
  const Index count = gradient->bytes / size_of(parameter.type);
  count_work(parameter.mesh, 2 * count, 3 * gradient->bytes, "update");
  if (!gradient->data) return;
  with_floating(parameter.type, [&]<class T>(T) {
    kernel::sign_update(count, static_cast<T*>(parameter.buffer->data), static_cast<const T*>(gradient->data),
                        rate);
  });
}

/// Starts to gather a whole parameter whose ranks have updated their parts; the next use waits for its bucket.
constexpr void gather_updated(ParameterState& cell, const AnyTensor& part, Buckets& gathers) {
  const AnyTensor& whole = cell.stored;
  if (gathers.goes_alone(whole, whole.type)) gathers.start();  // start in the order of use
  cell.carrier = &gathers;
  const auto arrived = [of = Shared<ParameterState>::to(cell)](AnyTensor&&) { of->carrier = nullptr; };
  const bool moves =
      gathers.add(part, whole, whole.type, MemoryUse::gathered, Phase::optimizer, on_completion(arrived));
  if (!moves) cell.carrier = nullptr;
}

/// Updates a parameter from its finished gradient, if it has one, and drops that.
template <class Update>
constexpr void update_parameter(const Update& update, OwnedState& owned, double bias_rate, Buckets& gathers) {
  ParameterState& cell = *owned.cell;
  if (!cell.finished.filled()) return;
  PhaseScope phase(cell.stored.mesh.recorder(), Phase::optimizer);
  const Buffer gradient = cell.finished.take();
  if (cell.layouts.counted && bias_rate == 0) return;
  AnyTensor part = cell.writable();
  if (cell.layouts.updated_in_parts)
    part = changed_locally(part, cut_like(part.layout, cell.layouts.finished), MemoryUse::gathered);
  if (cell.layouts.counted) {
    update_bias(bias_rate, part, gradient);
  } else {
    update_part(update, owned, part.with_layout(cell.layouts.finished), gradient);
  }
  if (cell.layouts.updated_in_parts) gather_updated(cell, part, gathers);
}

}  // namespace detail

}  // namespace shardwise
