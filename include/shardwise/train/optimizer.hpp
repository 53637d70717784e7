// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Optimizers: they finish the pending gradients of a module, walk its parameters, hand parameter, gradient and state
/// to an update, and clear the gradient. State has the layout of the finished gradient: a sharded parameter is updated
/// where it is. Parameters that are whole, but whose gradients are sharded (`Zero<1>`, `Zero<2>`), are gathered after
/// the update, in buckets, each of which the next use of one of its parameters waits for.
///
/// ```
/// AdamW adamw({.rate = 3e-4, .weight_decay = 0.1});
/// adamw.add_group([](const ParameterInfo& p) { return p.rank < 2; },             // norms and biases
///                 [](AdamWUpdate& settings) { settings.weight_decay = 0; });
/// adamw.set_rate(schedule(adamw.steps()));   // of all groups
/// adamw.step(model);
/// ```

#include <shardwise/kernel/update.hpp>
#include <shardwise/train/same_step.hpp>

namespace shardwise {

/// The state of one parameter: up to two blocks in the layout of its finished gradient, such as a velocity, or
/// Adam's two moments; and the parameter itself in the type that its arithmetic is done in, if it is stored in a
/// narrower one.
struct ParameterState {
  Buffer first, second, master;
  std::int64_t steps = 0;  ///< that the parameter has made: those in which it had a gradient
};

/// A parameter, as the function sees it that chooses a group.
struct ParameterInfo {
  std::string_view name;  ///< its path: "layers.0.attention.wq.weight"; of tied parameters the first
  int rank = 0;           ///< number of dimensions
  Index elements = 0;     ///< global
};

namespace detail {

/// Throws `std::invalid_argument` unless 0 <= value < end.
constexpr void check_setting(const char* optimizer, const char* name, double value,
                             double end = std::numeric_limits<double>::infinity()) {
  if (value >= 0 && value < end) return;
  fail({optimizer, ": ", name, " is ", value, ", which must be 0 or more",
        end == 1 ? ", and below 1" : ", and a finite number"});
}

constexpr void count_step(std::int64_t& steps) {  // a checkpoint may say any number
  if (steps < 0 || steps > 1LL << 60) fail({"an optimizer cannot have made ", steps, " steps"});
  ++steps;
}

/// The type of the arithmetic for parameters of this one.
constexpr DataType wide(DataType type) { return type == DataType::bf16 ? DataType::f32 : type; }

/// Unless there is a block: zeros for as many elements as the finished gradient has.
constexpr void make_zeros(Buffer& block, DataType type, const MeshView& mesh, Index count) {
  if (block) return;
  block = allocate_buffer(mesh, count * size_of(type), MemoryUse::optimizer_state);
  if (block->data) std::memset(block->data, 0, static_cast<std::size_t>(block->bytes));
}

}  // namespace detail

/// `Update` holds the settings. It says how many blocks of state it keeps, `state_blocks()`, how many operations an
/// element costs, `flops()`, what it does with a parameter of `float`, `double` or `bfloat16`, `apply`, throws if they
/// make no sense, `checked()`, and may call f(name, value) for each, `each_setting(f)`, so that ranks can be compared.
/// A parameter without a gradient is left as it is, and so is its state; one that is frozen has none, and is in no
/// group. Parameters in `bfloat16` have a master copy in `float`, unless `Update::master_weights` says no: it is what
/// is updated, and the parameter is rounded from it. New values that other code has written, such as
/// `load_weights`, are taken over.
template <class Update>
class Optimizer {
 public:
  /// `reduction`: how `step` finishes gradients that are still pending, and the buckets of parameters.
  /// Throws `std::invalid_argument` for settings that make no sense, also if `reduction.last` is false.
  constexpr explicit Optimizer(Update update = {}, ReduceOptions reduction = {})
      : update_(update.checked()), reduction_(detail::finishing(reduction)) {}
  template <class... X,
            IllFormed Why = WrittenOtherwise<Hint::give_the_optimizer_settings_and_step_the_model>>
    requires(sizeof...(X) > 0)
  explicit Optimizer(const X&...) = delete;  // see Why
  template <class X, IllFormed Why = WrittenOtherwise<Hint::give_the_optimizer_settings_and_step_the_model>>
    requires(!std::is_same_v<X, Update>)
  Optimizer(const X&, Update)
  = delete;                                   // see Why
  Optimizer(Optimizer&&) noexcept = default;  // copies would share their moments
  Optimizer& operator=(Optimizer&&) noexcept = default;

  /// The parameters that `chosen` says yes to, and that are in no earlier group, have settings of their own: those that
  /// the optimizer has now, after `change(settings)`. Their learning rate is `rate_factor` times the one of the
  /// optimizer. `chosen` must say the same on every rank. Throws `std::logic_error` when the optimizer knows its
  /// parameters: after the first step, or when it was added to the contents of a checkpoint; and
  /// `std::invalid_argument` for settings that make no sense, no function, or if `change` changes the rate. A group
  /// that gets no parameter is an error of what comes first of these.
  template <std::invocable<Update&> Change>
  void add_group(std::function<bool(const ParameterInfo&)> chosen, Change change, double rate_factor = 1) {
    if (!states_.empty()) {
      throw std::logic_error(
          "an optimizer's groups are chosen before its first step, and before it is added to a checkpoint");
    }
    if (!chosen) throw std::invalid_argument("add_group: chosen is an empty function");
    if (!(rate_factor >= 0))
      detail::fail({"add_group: rate_factor is ", rate_factor, ", which must be 0 or more"});
    Update settings = update_;
    change(settings);
    if (settings.rate != update_.rate)
      throw std::invalid_argument("add_group: a group's learning rate is given as rate_factor");
    settings.rate *= rate_factor;
    groups_.push_back({std::move(chosen), settings.checked(), rate_factor});
  }

  /// One step for all parameters of `module`, the same one in every step, from the gradients that are there, which it
  /// clears. What is pending is finished first, by `reduce_gradients`; after that, or after `clip_gradients`, nothing
  /// is, and a step communicates only to gather parameters that are whole where their state is sharded. Throws, before
  /// anything is changed, `std::logic_error` if no parameter has a gradient, or in the first step if a trained one has
  /// none, unless its settings say `may_be_unused`; `std::invalid_argument` if `module` is not that of the steps
  /// before, or a group is empty; and, on all ranks, if with SHARDWISE_CHECK=1 their settings or groups differ, or the
  /// parameters that have gradients.
  template <class Module, class Problem = detail::visit_problem<Module>>
  constexpr void step(Module& module) {
    const detail::ParameterList cells = detail::parameters_of(module);
    know(module, cells);
    if (const detail::ParameterList missing = unreached(cells); !missing.empty())
      detail::fail_unreached(missing, detail::named_parameters_of(module));
    detail::reduce_gradients_of(cells, reduction_);
    detail::count_step(steps_);
    step_all(cells);
  }
  template <class Module, IllFormed Why = detail::visit_problem<Module>>
  Why step(Module&);  // see Why
  template <class... X,
            IllFormed Why = WrittenOtherwise<Hint::give_the_optimizer_settings_and_step_the_model>>
    requires(sizeof...(X) != 1 || (Operand<X> && ...))
  Why step(const X&...);  // see Why
  template <IllFormed Why = WrittenOtherwise<Hint::leave_it_out_or_call_clear_gradients>>
  Why zero_grad() const;  // see Why

  /// The settings, to be changed between steps, which refuse those that make no sense: of the parameters that are in no
  /// group, or of group `i`, counted in the order in which they were added; throws `std::out_of_range` for
  /// another number. (A rate set here is that of these parameters alone: see `set_rate`.)
  constexpr Update& settings() { return update_; }
  Update& settings(std::size_t i) { return groups_.at(i).settings; }
  /// Sets the learning rate: of a group, times its factor. Throws `std::invalid_argument` for one that makes no sense.
  constexpr void set_rate(double rate) {
    Update changed = update_;
    changed.rate = rate;
    update_ = changed.checked();
    for (Group& group : groups_) group.settings.rate = rate * group.rate_factor;
  }
  /// How many steps were made: the number of the next, counted from 0.
  constexpr std::int64_t steps() const { return steps_; }

  /// For checkpoints: calls `tensors(name, tensor)` for all state of the parameters of `module`, which is made if it is
  /// not there yet, and `numbers(name, number)` for the counts of steps. Names are paths of parameters with ".first",
  /// ".second", ".master" or ".steps" behind them, and "steps". What is written to the blocks and numbers counts.
  /// Throws as `step` does, but ranks are not compared.
  template <class Module, class Tensors, class Numbers>
  void for_each_state(Module& module, Tensors tensors, Numbers numbers) {
    know(module, detail::parameters_of(module));
    numbers(std::string("steps"), steps_);
    for_each_once(
        detail::named_parameters_of(module), [&](const detail::NamedParameter& parameter, OwnedState& owned) {
          const detail::ParameterCell& cell = *parameter.cell;
          const Update& update = update_of(owned);
          ParameterState& state = owned.state;
          auto give = [&](const char* name, Buffer& block) {
            detail::AnyTensor tensor = cell.stored.relaid(cell.layouts.finished);
            tensor.type = detail::wide(cell.stored.type);
            detail::make_zeros(block, tensor.type, tensor.mesh, tensor.local_elements());
            tensor.buffer = block;
            tensors(parameter.name + name, tensor);
          };
          if (update.state_blocks() > 0) give(".first", state.first);
          if (update.state_blocks() > 1) give(".second", state.second);
          if (detail::wide(cell.stored.type) != cell.stored.type && (update.master_weights || state.master))
            give(".master", state.master);
          numbers(parameter.name + ".steps", state.steps);
        });
  }

 private:
  struct Group {
    std::function<bool(const ParameterInfo&)> chosen;
    Update settings;
    double rate_factor = 1;
  };
  struct OwnedState {
    Shared<detail::ParameterCell> cell;  ///< held: no other gets its address
    int group = -1;
    bool again = false;  ///< an earlier name of the parameter has its state
    ParameterState state;
  };

  /// Learns which parameters there are, and chooses the group of each; or makes sure that they are the same.
  template <class Module>
  constexpr void know(Module& module, const detail::ParameterList& cells) {
    if (learn(cells, DividedModule<Module>)) {
      try {
        choose_groups(detail::named_parameters_of(module), DividedModule<Module>);
      } catch (...) {
        states_.clear();
        throw;
      }
    }
  }
  [[gnu::noinline]] constexpr bool learn(const detail::ParameterList& cells, bool divided) {
    update_.checked();
    for (const Group& group : groups_) group.settings.checked();
    if (!states_.empty()) {
      check_same(cells);
      return false;
    }
    const auto frozen = [](const detail::ParameterCell* cell) { return cell->layouts.frozen; };
    if (!divided && !cells.empty() && std::all_of(cells.begin(), cells.end(), frozen))
      detail::fail({"an optimizer has nothing to train: all ", cells.size(), " parameters are frozen"});
    states_.resize(cells.size());
    for (detail::ParameterCell* cell : cells) cell->seen = false;
    auto state = states_.begin();
    for (detail::ParameterCell* cell : cells) {
      state->cell = Shared<detail::ParameterCell>::to(*cell);
      state->again = std::exchange(cell->seen, true);
      ++state;
    }
    return !groups_.empty();
  }
  /// A group may be without parameters where other ranks have a part of the model.
  [[gnu::noinline]] void choose_groups(const std::vector<detail::NamedParameter>& parameters, bool divided) {
    std::vector<std::size_t> members(groups_.size());
    for_each_once(parameters, [&](const detail::NamedParameter& parameter, OwnedState& owned) {
      const auto& stored = parameter.cell->stored;
      const ParameterInfo info{parameter.name, stored.rank, elements(stored.shape)};
      std::size_t group = 0;
      while (group < groups_.size() && !groups_[group].chosen(info)) ++group;
      if (group == groups_.size()) return;
      owned.group = static_cast<int>(group);
      ++members[group];
    });
    for (std::size_t group = 0; group < groups_.size(); ++group) {
      if (members[group] > 0 || divided) continue;
      detail::fail({"group ", group,
                    " of an optimizer has no parameter: those that it chooses are in earlier groups, or "
                    "frozen, or there are none"});
    }
  }
  constexpr void check_same(const detail::ParameterList& cells) const {
    std::size_t index = 0;
    while (index < std::min(cells.size(), states_.size()) && cells[index] == &*states_[index].cell) ++index;
    if (index == cells.size() && index == states_.size()) return;
    detail::fail(
        {"an optimizer is for one module: parameter ", index, " is not the one of the steps before"});
  }
  /// Calls f(parameter, its state) for each parameter that is trained, with the first of its names.
  template <class F>
  void for_each_once(const std::vector<detail::NamedParameter>& parameters, F f) {
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      if (!parameters[i].cell->layouts.frozen && !states_[i].again) f(parameters[i], states_[i]);
    }
  }
  constexpr const Update& update_of(const OwnedState& owned) const {
    return owned.group < 0 ? update_ : groups_[static_cast<std::size_t>(owned.group)].settings;
  }

  /// Checks that a step makes sense; returns the parameters that the first step misses a gradient of.
  [[gnu::noinline]] constexpr detail::ParameterList unreached(const detail::ParameterList& cells) {
    detail::check_same_step(cells, update_, groups_, states_);
    detail::check_a_gradient(cells);
    return first_steps_.unreached(cells, [&](std::size_t i) { return update_of(states_[i]); });
  }
  [[gnu::noinline]] constexpr void step_all(const detail::ParameterList& cells) {
    if (!gathers_)
      gathers_ = Shared<detail::SharedBuckets>::make(reduction_.bucket_bytes, reduction_.in_background);
    for (std::size_t i = 0; i < cells.size(); ++i) step_one(*cells[i], states_[i]);
    gathers_->start();
  }
  constexpr void step_one(detail::ParameterCell& cell, OwnedState& owned) const {
    if (!cell.finished.filled()) return;
    const MeshView& mesh = cell.stored.mesh;
    PhaseScope phase(mesh.recorder(), Phase::optimizer);
    const Buffer gradient = cell.finished.take();
    const detail::AnyTensor& stored = cell.writable();
    if (!cell.layouts.updated_in_parts) return update(owned, mesh, stored.type, gradient, stored.buffer);
    const Layout part = cut_like(stored.layout, cell.layouts.finished);
    const detail::AnyTensor own = detail::changed_locally(stored, part, MemoryUse::gathered);
    update(owned, mesh, stored.type, gradient, own.buffer);
    if (gathers_->goes_alone(stored, stored.type)) gathers_->start();  // first comes what is needed first
    cell.carrier = &*gathers_;
    const auto arrived = [whole = Shared<detail::ParameterCell>::to(cell)](detail::AnyTensor&&) {
      whole->carrier = nullptr;
    };
    const bool moves = gathers_->add(own, stored, stored.type, MemoryUse::gathered, Phase::optimizer,
                                     detail::when_arrived(arrived));
    if (!moves) cell.carrier = nullptr;
  }

  /// Updates elements of a parameter, of which there are as many as of the gradient.
  constexpr void update(OwnedState& owned, const MeshView& mesh, DataType type, const Buffer& gradient,
                        const Buffer& parameter) const {
    const Update& update = update_of(owned);
    const Index count = gradient->bytes / size_of(type);
    ParameterState& state = owned.state;
    detail::count_step(state.steps);
    if (update.state_blocks() > 0) detail::make_zeros(state.first, detail::wide(type), mesh, count);
    if (update.state_blocks() > 1) detail::make_zeros(state.second, detail::wide(type), mesh, count);
    if (auto* recorder = mesh.recorder()) recorder->compute(update.flops() * count);
    if (detail::wide(type) != type && update.master_weights)
      detail::make_zeros(state.master, detail::wide(type), mesh, count);
    if (!gradient->data) return;
    detail::with_floating(type, [&]<class T>(T) {
      auto* master = state.master ? static_cast<kernel::compute_t<T>*>(state.master->data) : nullptr;
      const kernel::Updated<T> values{static_cast<T*>(parameter->data), master};
      update.apply(count, values, static_cast<const T*>(gradient->data), state);
    });
  }

  Update update_;
  ReduceOptions reduction_;
  Shared<detail::SharedBuckets> gathers_;  // of whole parameters, from where they were updated
  std::int64_t steps_ = 0;
  detail::FirstSteps first_steps_;
  std::vector<Group> groups_;
  std::vector<OwnedState> states_;  // in the order of `visit`
};

}  // namespace shardwise
