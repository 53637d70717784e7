// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// `Unit`: a part of a model whose parameters are gathered together, and whose gradients are complete together.
///
/// ```
/// Unit unit(up, down);                                                   // modules, in the model's constructor
/// auto y = unit(x, [&](const auto& in) { return down(gelu(up(in))); });   // in its call
/// ```
/// Around the call, and around its part of the backward pass, fully sharded parameters are gathered by one
/// collective, and freed. When that part of the backward pass is done, the unit's gradients go where they rest: those
/// of sharded parameters by one reduce-scatter; and in the last pass of a step all are reduced, bucket by bucket
/// (`backward_and_reduce`). Units that are linked gather one ahead: while one is at work, its successor's parameters
/// are under way; in the backward pass, its predecessor's.

#include <limits>

#include <shardwise/train/reduce_gradients.hpp>

namespace shardwise {

namespace detail {

/// A parameter, for its unit.
class UnitPart : public Pooled<UnitPart> {
 public:
  /// Throws `std::logic_error` if there is no value to gather.
  constexpr virtual void check() const = 0;
  constexpr virtual void gather(Bundles& bundles) = 0;
  /// Waits for what another unit has on the way.
  constexpr virtual void arrive() = 0;
  /// Has the value changed since it was gathered?
  constexpr virtual bool stale() const = 0;
  /// `bundles` may be destroyed after that.
  constexpr virtual void release(const Bundles& bundles) = 0;
  constexpr virtual void reduce(Tape& tape) = 0;

  UnitPart* next = nullptr;
};

template <TensorType X, PackedSharding How>
class UnitPartOf final : public UnitPart {
  using ParameterType = Parameter<X, How>;

 public:
  /// `borrowed`: the gradient is another unit's business.
  constexpr UnitPartOf(const ParameterType& parameter, bool borrowed)
      : parameter_(parameter), borrowed_(borrowed) {}

  constexpr void check() const override {
    if constexpr (ParameterType::is_gathered) parameter_.stored();
  }
  constexpr void gather(Bundles& bundles) override {
    if constexpr (ParameterType::is_gathered) {
      auto& cell = *parameter_.cell();
      if (cell.users++ > 0 && !stale()) return;
      cell.gathered_at = cell.changes;
      cell.carrier = &bundles;
      const auto& stored = parameter_.stored();
      const auto mesh = stored.mesh();
      const AxisSet axes = changed_axes(ParameterType::Stored::layout, X::layout, mesh.sizes());
      if (axes == 0) {
        cell.gathered = X(mesh, stored.shape(), stored.buffer());
        return;
      }
      cell.gathered = X(mesh, stored.shape(), MemoryUse::gathered);
      const Index count = elements(cell.gathered.local_shape());
      if (count == 0) return;
      const Phase phase = mesh.recorder() ? mesh.recorder()->phase() : Phase::forward;
      bundles.add<typename X::Element>(
          mesh, {Collective::all_gather, axes, MemoryUse::gathered, phase},
          {BundledTensor::padded<X::rank>(stored.shape()), ParameterType::Stored::layout,
           cell.gathered.buffer(), stored.buffer(), count});
    }
  }
  constexpr void arrive() override {
    if (Bundles* carrier = std::exchange(parameter_.cell()->carrier, nullptr)) carrier->finish();
  }
  constexpr bool stale() const override {
    return ParameterType::is_gathered && parameter_.cell()->gathered_at != parameter_.cell()->changes;
  }
  constexpr void release(const Bundles& bundles) override {
    if constexpr (ParameterType::is_gathered) {
      auto& cell = *parameter_.cell();
      if (cell.carrier == &bundles) {
        cell.carrier = nullptr;
        if (!bundles.idle()) cell.gathered_at = cell.changes - 1;  // it will not arrive
      }
      if (--cell.users == 0) cell.gathered = X();
    }
  }
  constexpr void reduce(Tape& tape) override {
    if (borrowed_) return;
    if (ParameterType::waits() && !tape.has_task()) return;
    tape.task<GradientReducer>().reduce(parameter_);
  }

 private:
  ParameterType parameter_;
  bool borrowed_;
};

/// The parameters of a unit. All copies of it share one state.
class UnitState : public Counted {
 public:
  UnitState() = default;
  UnitState(const UnitState&) = delete;
  UnitState& operator=(const UnitState&) = delete;
  constexpr ~UnitState() {
    if (ahead_) release_parts();
    unlink();
    while (first_) {
      UnitPart* part = first_;
      first_ = part->next;
      destroy_pooled(part);
    }
  }

  constexpr void add(UnitPart* part) {
    UnitPart** place = &first_;
    while (*place) place = &(*place)->next;
    *place = part;
  }

  /// The unit that is called after this one, and before it.
  constexpr UnitState* next() const { return next_; }
  constexpr UnitState* previous() const { return previous_; }
  constexpr void link(UnitState& next) {
    if (next_) next_->previous_ = nullptr;
    if (next.previous_) next.previous_->next_ = nullptr;
    next_ = &next;
    next.previous_ = this;
  }

  /// Begins to gather the parameters ahead of their use.
  constexpr void prefetch() {
    if (held_ > 0 || ahead_) return;
    start();
    ahead_ = true;
  }
  /// Has the parameters at hand, until as many calls of `release`.
  constexpr void gather() {
    if (ahead_ && stale()) forget();
    if (held_ == 0 && !ahead_) start();
    ++held_;
    ahead_ = false;
    bundles_.finish();
    for (UnitPart* part = first_; part; part = part->next) part->arrive();
  }
  constexpr void release() {
    if (--held_ == 0) release_parts();
  }
  /// No backward pass of the unit's call will add to its gradients.
  constexpr void reduce(Tape& tape) {
    for (UnitPart* part = first_; part; part = part->next) part->reduce(tape);
    if (tape.has_task()) tape.task<GradientReducer>().end_unit();
  }

 private:
  constexpr void start() {
    for (UnitPart* part = first_; part; part = part->next) part->check();
    for (UnitPart* part = first_; part; part = part->next) part->gather(bundles_);
    bundles_.start();
  }
  /// Was something changed that was gathered ahead, and then not used?
  constexpr bool stale() const {
    for (UnitPart* part = first_; part; part = part->next) {
      if (part->stale()) return true;
    }
    return false;
  }
  constexpr void forget() {
    ahead_ = false;
    bundles_.finish();
    release_parts();
  }
  constexpr void release_parts() {
    for (UnitPart* part = first_; part; part = part->next) part->release(bundles_);
  }
  constexpr void unlink() {
    if (next_) next_->previous_ = nullptr;
    if (previous_) previous_->next_ = nullptr;
    next_ = previous_ = nullptr;
  }

  UnitPart* first_ = nullptr;
  UnitState* next_ = nullptr;
  UnitState* previous_ = nullptr;
  Bundles bundles_{std::numeric_limits<Index>::max(), std::numeric_limits<int>::max()};
  int held_ = 0;
  bool ahead_ = false;  // gathered, or on the way, for a call to come
};

/// Where a unit's call began: here its part of the backward pass ends.
class UnitFirstNode final : public TapeNode {
 public:
  constexpr UnitFirstNode(Tape& tape, Shared<UnitState> unit) : tape_(tape), unit_(std::move(unit)) {}
  constexpr ~UnitFirstNode() {
    if (gathered_) unit_->release();
  }
  constexpr void gather() {
    unit_->gather();
    gathered_ = true;
    if (unit_->previous()) unit_->previous()->prefetch();
  }
  constexpr void pull_back() override {
    unit_->reduce(tape_);
    gathered_ = false;
    unit_->release();
  }

 private:
  Tape& tape_;
  Shared<UnitState> unit_;
  bool gathered_ = false;
};

/// Where a unit's call ended.
class UnitLastNode final : public TapeNode {
 public:
  constexpr explicit UnitLastNode(UnitFirstNode& first) : first_(first) {}
  constexpr void pull_back() override { first_.gather(); }

 private:
  UnitFirstNode& first_;
};

/// Releases what a call has gathered.
class UnitHold {
 public:
  constexpr explicit UnitHold(UnitState& unit) : unit_(unit) { unit_.gather(); }
  constexpr ~UnitHold() { unit_.release(); }
  UnitHold(const UnitHold&) = delete;
  UnitHold& operator=(const UnitHold&) = delete;

 private:
  UnitState& unit_;
};

}  // namespace detail

/// A handle; copies are one unit.
class Unit {
 public:
  /// Of the parameters of these modules, which all have been constructed.
  template <class... Modules>
    requires(!std::is_same_v<std::remove_cvref_t<Modules>, Unit> && ...)
  constexpr explicit Unit(Modules&... modules) : state_(Shared<detail::UnitState>::make()) {
    (add(modules, false), ...);
  }

  /// Uses the parameters of a module whose gradients are complete in another unit: a table that is also a head.
  template <class Module>
  constexpr void borrow(Module& module) {
    add(module, true);
  }

  /// `f(x)`, with the parameters at hand.
  template <Operand X, class F>
  constexpr auto operator()(const X& x, F f) const {
    if constexpr (AbstractOperand<X>) {
      return f(x);
    } else if constexpr (OperandTraits<X>::on_tape) {
      detail::UnitState& unit = *state_;
      auto& first = x.tape().template record<detail::UnitFirstNode>(x.tape(), state_);
      detail::UnitHold hold(unit);
      if (unit.next() && !x.tape().repeats()) unit.next()->prefetch();
      auto y = f(x);
      x.tape().template record<detail::UnitLastNode>(first);
      return y;
    } else {
      detail::UnitState& unit = *state_;
      detail::UnitHold hold(unit);
      if (unit.next()) unit.next()->prefetch();
      return f(x);
    }
  }

  /// `next` is called after this one.
  constexpr void link(const Unit& next) const { state_->link(*next.state_); }

 private:
  template <class Module>
  constexpr void add(Module& module, bool borrowed) {
    for_each_parameter(module, [&]<TensorType X, PackedSharding How>(const Parameter<X, How>& parameter) {
      state_->add(make_pooled<detail::UnitPartOf<X, How>>(parameter, borrowed));
    });
  }

  Shared<detail::UnitState> state_;
};

}  // namespace shardwise
