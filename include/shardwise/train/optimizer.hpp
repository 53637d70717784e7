// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The common part of optimizers: they finish the pending gradients of a module, pass parameter, gradient and state
/// of each parameter to an update, and clear the gradient. State has the layout of the finished gradient, and
/// sharded state is updated in place. Whole parameters with sharded gradients (`Zero<1>`, `Zero<2>`) are gathered
/// after the update, in buckets; the next use of a parameter waits for its bucket.
///
/// ```
/// AdamW adamw({.rate = 3e-4, .weight_decay = 0.1});
/// adamw.add_group([](const ParameterInfo& p) { return p.rank < 2; },             // norms and biases
///                 [](AdamWUpdate& settings) { settings.weight_decay = 0; });
/// adamw.set_rate(schedule(adamw.steps()));   // of all groups
/// adamw.step(model);
/// ```

#include <shardwise/layout/other_names.hpp>
#include <shardwise/train/optimizer_state.hpp>
#include <shardwise/train/same_step.hpp>

namespace shardwise {

/// The properties by which a parameter's group is chosen.
struct ParameterInfo {
  std::string_view name;  ///< its path: "layers.0.attention.wq.weight"; the first one if it is tied
  int rank = 0;           ///< number of dimensions
  Index elements = 0;     ///< global
};

/// `Update` holds the settings. It says how many blocks of state it keeps, `state_blocks()`, how many operations an
/// element costs, `flops()`, what it does with a parameter of `float`, `double` or `bfloat16`, `apply`, throws if they
/// make no sense, `checked()`, and may call f(name, value) for each, `each_setting(f)`, so that ranks can be
/// compared. It may also change gradients of many parameters together before `apply`: see `MuonUpdate::change_all`.
/// A parameter without a gradient is left as it is, and so is its state; one that is frozen has none, and is in no
/// group. Parameters in `bfloat16` have a master copy in `float`, unless `Update::master_weights` says no: it is what
/// is updated, and the parameter is rounded from it. New values that other code has written, such as
/// `load_weights`, are taken over. `Update::state` is the type of its blocks of state; random bits by which these are
/// rounded depend on the parameter's name and number of steps, and the global index of the element, so results are the
/// same on every mesh.
template <class Update>
class Optimizer {
 public:
  /// `reduction`: how `step` finishes pending gradients, and the buckets of parameters. Throws
  /// `std::invalid_argument` for invalid settings, and if `reduction.last` is false.
  constexpr explicit Optimizer(Update update = {}, ReduceOptions reduction = {})
      : update_(update.checked()), reduction_(detail::finishing(reduction)) {}
  Optimizer(Optimizer&&) noexcept = default;  // copies would share their moments
  Optimizer& operator=(Optimizer&&) noexcept = default;

  /// Gives separate settings to the parameters that `chosen` accepts and that are in no earlier group: the optimizer's
  /// current settings after `change(settings)`. Their learning rate is `rate_factor` times the optimizer's. `chosen`
  /// must return the same on every rank. Throws `std::logic_error` after the first step, or after the optimizer was
  /// added to the contents of a checkpoint; `std::invalid_argument` for invalid settings, an empty function, or if
  /// `change` changes the rate. A group without parameters is an error of the first step or of that checkpoint.
  template <std::invocable<Update&> Change>
  void add_group(std::function<bool(const ParameterInfo&)> chosen, Change change, double rate_factor = 1) {
    if (!states_.empty()) {
      throw std::logic_error(
          "call add_group before the first step, and before the optimizer is added to a checkpoint");
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

  /// Updates all parameters of `module`, which must be the same in every step, from their gradients, and clears these.
  /// Pending gradients are finished first, by `reduce_gradients`; after a call of that or of `clip_gradients`, a step
  /// communicates only to gather whole parameters with sharded state. Before any change it throws `std::logic_error` if
  /// no parameter has a gradient, or, in the first step, if a trained one has none, unless its settings have
  /// `may_be_unused`; `std::invalid_argument` if `module` is not that of earlier steps, or a group is empty; and, on
  /// all ranks with SHARDWISE_CHECK=1, if their settings, groups, or sets of parameters with gradients differ.
  template <class Module, class Problem = detail::visit_problem<Module>>
  constexpr void step(Module& module) {
    const detail::ParameterList cells = detail::parameters_of(module);
    set_up(module, cells);
    check_gradients(module, cells);
    detail::reduce_gradients_of(cells, reduction_);
    detail::count_step(steps_);
    update_all();
  }

  /// The settings, of parameters outside all groups or of group `i`, in the order in which groups were added. They
  /// may be changed between steps; the next step checks them. Throws `std::out_of_range` if there is no such group.
  /// (A rate set here applies to these parameters alone: see `set_rate`.)
  constexpr Update& settings() { return update_; }
  Update& settings(std::size_t i) { return groups_.at(i).settings; }
  /// Sets the learning rate; a group's is multiplied by its factor. Throws `std::invalid_argument` if it is invalid.
  constexpr void set_rate(double rate) {
    Update changed = update_;
    changed.rate = rate;
    update_ = changed.checked();
    for (Group& group : groups_) group.settings.rate = rate * group.rate_factor;
  }
  /// The rate of biases by which experts are chosen, whose gradient is the experts' load (see `route`): a step
  /// subtracts rate · sign(gradient) (Wang et al., "Auxiliary-loss-free load balancing", 2024). At 0, the default, they
  /// stay as they are. No group has them, and they do not decay. Throws `std::invalid_argument` if it is negative or
  /// not finite.
  constexpr void set_bias_rate(double rate) {
    detail::check_setting("an optimizer", "the rate of biases", rate);
    bias_rate_ = rate;
  }
  /// The number of steps made, which is the number of the next one, counted from 0.
  constexpr std::int64_t steps() const { return steps_; }
  /// The master copy of parameter `i`, in the order of `visit`; empty if it has none, or before its first update.
  constexpr Buffer master(std::size_t i) const {
    return i < states_.size() ? states_[i].state.master : Buffer();
  }

  /// For checkpoints: calls `tensors(name, tensor)` for each state of the parameters of `module`, which is created
  /// if necessary, and `numbers(name, number)` for the counts of steps. Names are paths of parameters with
  /// ".first", ".second", ".master" or ".steps" appended, and "steps". Writing to the blocks and numbers changes
  /// the state. Throws as `step` does, but does not compare ranks. State has its own type: a checkpoint of another
  /// `Update::state` cannot be loaded.
  template <class Module, class Tensors, class Numbers>
  void for_each_state(Module& module, Tensors tensors, Numbers numbers) {
    set_up(module, detail::parameters_of(module));
    numbers(std::string("steps"), steps_);
    for_each_trained(detail::named_parameters_of(module), [&](const detail::NamedParameter& parameter,
                                                              detail::OwnedState& owned) {
      const detail::ParameterState& cell = *parameter.cell;
      const Update& update = update_of(owned);
      OptimizerState& state = owned.state;
      auto pass_on = [&](const char* name, Buffer& block, StateType type) {
        detail::AnyTensor tensor = cell.stored.with_layout(cell.layouts.finished);
        tensor.type = detail::stored_type(type, cell.stored.type);
        detail::make_zeros(block, tensor.type, tensor.mesh, tensor.local_elements());
        tensor.buffer = block;
        tensors(parameter.name + name, tensor);
      };
      if (update.state_blocks() > 0) pass_on(".first", state.first, update.state);
      if (update.state_blocks() > 1) pass_on(".second", state.second, update.state);
      if (detail::wide(cell.stored.type) != cell.stored.type && (update.master_weights || state.master))
        pass_on(".master", state.master, StateType::compute);
      numbers(parameter.name + ".steps", state.steps);
    });
  }

  // Refused: a model for the constructor, settings by other names, a step without one model, and PyTorch's members.
  template <class... X,
            IllFormed Why = WrittenOtherwise<Hint::pass_settings_to_the_optimizer_and_the_model_to_step>>
    requires(sizeof...(X) > 0)
  explicit Optimizer(const X&...) = delete;  // see Why
  template <class X,
            IllFormed Why = WrittenOtherwise<Hint::pass_settings_to_the_optimizer_and_the_model_to_step>>
    requires(!std::is_same_v<X, Update>)
  Optimizer(const X&, Update)
  = delete;  // see Why
  template <
      IllFormed Why = WrittenOtherwise<Hint::name_settings_rate_beta1_beta2_epsilon_momentum_weight_decay>>
  explicit Optimizer(detail::SettingsOfOthers) = delete;  // see Why
  template <class Module, IllFormed Why = detail::visit_problem<Module>>
  static Why step(Module&);  // see Why
  template <class... X,
            IllFormed Why = WrittenOtherwise<Hint::pass_settings_to_the_optimizer_and_the_model_to_step>>
    requires(sizeof...(X) != 1 || (Operand<X> && ...))
  static Why step(const X&...);  // see Why
  template <IllFormed Why = WrittenOtherwise<Hint::remove_it_or_call_clear_gradients>>
  static Why zero_grad();  // see Why
  static constexpr detail::RateByAnotherName lr{};

 private:
  struct Group {
    std::function<bool(const ParameterInfo&)> chosen;
    Update settings;
    double rate_factor = 1;
  };

  /// Stores the list of parameters and chooses their groups; on later calls checks that the list is the same.
  template <class Module>
  constexpr void set_up(Module& module, const detail::ParameterList& cells) {
    const bool first = states_.empty();
    if (make_states(cells, DividedModule<Module>)) {
      try {
        choose_groups(detail::named_parameters_of(module), DividedModule<Module>);
      } catch (...) {
        states_.clear();
        throw;
      }
    }
    for (detail::OwnedState& owned : states_) {
      const StateType type = update_of(owned).state;
      if (!first && owned.type != type)
        throw std::logic_error(
            "the type of an optimizer's state is chosen before its first step, and before it is added to a "
            "checkpoint");
      owned.type = type;
    }
  }
  [[gnu::noinline]] constexpr bool make_states(const detail::ParameterList& cells, bool divided) {
    update_.checked();
    for (const Group& group : groups_) group.settings.checked();
    if (!states_.empty()) {
      std::size_t index = 0;
      while (index < std::min(cells.size(), states_.size()) && cells[index] == &*states_[index].cell) ++index;
      if (index < cells.size() || index < states_.size())
        detail::fail(
            {"an optimizer is for one module: parameter ", index, " is not the one of the steps before"});
      return false;
    }
    const auto frozen = [](const detail::ParameterState* cell) { return cell->layouts.frozen; };
    if (!divided && !cells.empty() && std::all_of(cells.begin(), cells.end(), frozen))
      detail::fail({"an optimizer has nothing to train: all ", cells.size(), " parameters are frozen"});
    states_.reserve(cells.size());
    for (detail::ParameterState* cell : cells) cell->seen = false;
    for (detail::ParameterState* cell : cells)
      states_.push_back(
          {.cell = Shared<detail::ParameterState>::to(*cell), .again = std::exchange(cell->seen, true)});
    return !groups_.empty() || (update_.state != StateType::compute && !__builtin_is_constant_evaluated());
  }
  /// With a divided model, a group may be empty here, because its parameters may be on other ranks.
  [[gnu::noinline]] void choose_groups(const std::vector<detail::NamedParameter>& parameters, bool divided) {
    std::vector<std::size_t> members(groups_.size());
    for_each_trained(parameters, [&](const detail::NamedParameter& parameter, detail::OwnedState& owned) {
      const auto& stored = parameter.cell->stored;
      const ParameterInfo info{parameter.name, stored.rank, elements(stored.shape)};
      owned.number = derived_seed(0, parameter.name);
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

  /// Throws unless the step is valid: see `step`.
  template <class Module>
  constexpr void check_gradients(Module& module, const detail::ParameterList& cells) {
    const detail::ParameterList missing = missing_gradients(cells);
    if constexpr (requires { update_.accepts(cells.front()->stored); }) {
      for (std::size_t i = 0; i < cells.size(); ++i) {
        const Update& update = update_of(states_[i]);
        if (cells[i]->layouts.trained() && !update.accepts(cells[i]->stored))
          update.refuse(detail::named_parameters_of(module)[i]);
      }
    }
    if (!missing.empty()) detail::fail_without_gradient(missing, detail::named_parameters_of(module));
  }
  [[gnu::noinline]] constexpr detail::ParameterList missing_gradients(const detail::ParameterList& cells) {
    return checks_.before_step(cells, update_, bias_rate_, groups_, states_,
                               [&](std::size_t i) { return update_of(states_[i]); });
  }

  [[gnu::noinline]] constexpr void update_all() {
    if (!gathers_)
      gathers_ = Shared<detail::SharedBuckets>::make(reduction_.bucket_bytes, reduction_.in_background);
    if constexpr (requires { &Update::change_all; }) change_gradients_together();
    for (detail::OwnedState& owned : states_)
      detail::update_parameter(update_of(owned), owned, bias_rate_, *gathers_);
    gathers_->start();
  }
  /// The finished gradients that the update changes together, with their state, before any parameter is updated.
  constexpr void change_gradients_together() {
    PhaseScope phase(states_.empty() ? nullptr : states_.front().cell->stored.mesh.recorder(),
                     Phase::optimizer);
    std::vector<detail::ParameterState*> changed;
    std::vector<detail::AnyTensor> gradients;
    std::vector<const Update*> updates;
    for (detail::OwnedState& owned : states_) {
      detail::ParameterState& cell = *owned.cell;
      const Update& update = update_of(owned);
      if (!update.changes_gradients() || cell.layouts.counted || !cell.finished.filled() || owned.again)
        continue;
      detail::AnyTensor gradient = cell.stored.with(cell.layouts.finished, cell.finished.take());
      detail::make_own(gradient, MemoryUse::gradient);
      const Index count = gradient.local_elements();
      OptimizerState& state = owned.state;
      detail::make_zeros(state.first, detail::stored_type(update.state, gradient.type), gradient.mesh, count);
      if (!gradient.mesh.dry()) {
        detail::with_floating(gradient.type, [&]<class T>(T) {
          detail::with_state<kernel::compute_t<T>>(
              gradient, state, update.state, owned.seed(),
              [&](Index first, Index part, const auto& elements) {
                update.change(part, static_cast<T*>(gradient.buffer->data) + first, elements);
              });
        });
      }
      changed.push_back(&cell);
      gradients.push_back(std::move(gradient));
      updates.push_back(&update);
    }
    Update::change_all(gradients, updates, reduction_.bucket_bytes);
    for (std::size_t i = 0; i < changed.size(); ++i) {
      changed[i]->finished.add(std::move(gradients[i].buffer), *changed[i]->functions.sum,
                               gradients[i].mesh.recorder());
    }
  }

  /// Calls f(parameter, state) for each trained parameter, under its first name.
  template <class F>
  void for_each_trained(const std::vector<detail::NamedParameter>& parameters, F f) {
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      if (parameters[i].cell->layouts.trained() && !states_[i].again) f(parameters[i], states_[i]);
    }
  }
  constexpr const Update& update_of(const detail::OwnedState& owned) const {
    return owned.group < 0 ? update_ : groups_[static_cast<std::size_t>(owned.group)].settings;
  }

  Update update_;
  ReduceOptions reduction_;
  Shared<detail::SharedBuckets> gathers_;  // of whole parameters, after their update
  std::int64_t steps_ = 0;
  double bias_rate_ = 0;
  detail::StepChecks checks_;
  std::vector<Group> groups_;
  std::vector<detail::OwnedState> states_;  // in the order of `visit`
};

template <class Update>
struct detail::VisitProblem<Optimizer<Update>> : VisitProblem<Tape> {};

/// The members of `Optimizer<Update>` that do not depend on a module, compiled once: see base/bodies.hpp.
#define SHARDWISE_COMPILE_OPTIMIZER(Update)                                                         \
  SHARDWISE_COMPILE_MEMBER(bool Optimizer<Update>::make_states(const detail::ParameterList&, bool)) \
  SHARDWISE_COMPILE_MEMBER(                                                                         \
      void Optimizer<Update>::choose_groups(const std::vector<detail::NamedParameter>&, bool))      \
  SHARDWISE_COMPILE_MEMBER(                                                                         \
      detail::ParameterList Optimizer<Update>::missing_gradients(const detail::ParameterList&))     \
  SHARDWISE_COMPILE_MEMBER(void Optimizer<Update>::update_all())

}  // namespace shardwise
