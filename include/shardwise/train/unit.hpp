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
/// Fully sharded parameters are gathered by one collective before the call, and before its part of the backward pass,
/// and freed afterwards. After that part of the backward pass, the unit's gradients are accumulated, those of
/// sharded parameters by one reduce-scatter; in the last pass of a step all are reduced, bucket by bucket
/// (`backward_and_reduce`). Linked units prefetch: while one computes, its successor's parameters are in flight, and in
/// the backward pass its predecessor's. The last unit keeps its parameters for its part of the backward pass, which
/// follows immediately. Parameters that no pullback reads, such as the table of an embedding, are not gathered again.

#include <shardwise/autograd/abstract.hpp>
#include <shardwise/train/reduce_gradients.hpp>

namespace shardwise {

namespace detail {

struct UnitPart {
  Shared<ParameterState> cell;
  bool borrowed = false;  ///< another unit handles its gradient
};

/// The parameters of a unit; all copies of the unit share this state.
class UnitState : public Counted {
 public:
  UnitState() = default;
  UnitState& operator=(UnitState&&) = delete;
  constexpr ~UnitState() {
    if (ahead_) release_parts();
    unlink();
  }

  constexpr void add(ParameterState& cell, bool borrowed) {
    parts_.emplace_back(Shared<ParameterState>::to(cell), borrowed);
  }

  /// The units that are called after this one, and before it.
  constexpr UnitState* next() const { return next_; }
  constexpr UnitState* previous() const { return previous_; }
  constexpr void link(UnitState& next) {
    if (next_) next_->previous_ = nullptr;
    if (next.previous_) next.previous_->next_ = nullptr;
    next_ = &next;
    next.previous_ = this;
    next.number = number + 1;
  }

  constexpr Recorder* recorder() {
    return parts_.empty() ? nullptr : parts_.front().cell->stored.mesh.recorder();
  }

  int number = 0;  ///< for logs: the number of units before it

  /// Whether its part of the backward pass needs the parameters.
  constexpr bool read_backward() const {
    if (called_again_) return true;
    for (const UnitPart& part : parts_) {
      if (part.cell->layouts.gathered && part.cell->read_backward) return true;
    }
    return false;
  }
  /// The backward pass repeats a call inside this unit.
  constexpr void set_called_again() { called_again_ = true; }
  /// Starts gathering the parameters ahead of their use.
  [[gnu::noinline]] constexpr void prefetch() {
    if (held_ > 0 || ahead_) return;
    start();
    ahead_ = true;
  }
  /// Makes the parameters available until the same number of calls of `release`.
  [[gnu::noinline]] constexpr void gather() {
    if (ahead_ && stale()) forget();
    if (held_ == 0 && !ahead_) start();
    ++held_;
    ahead_ = false;
    buckets_.finish();
    for (UnitPart& part : parts_) {  // including those that another unit is gathering
      part.cell->await();
    }
  }
  [[gnu::noinline]] constexpr void release() {
    if (--held_ == 0) release_parts();
  }
  /// No other part of the backward pass will add to its gradients.
  [[gnu::noinline]] constexpr void reduce(Tape& tape) {
    for (UnitPart& part : parts_) {
      if (part.borrowed || (part.cell->layouts.accumulates_pending && !tape.has_task())) continue;
      tape.task<GradientReducer>().reduce(*part.cell);
    }
    if (tape.has_task()) tape.task<GradientReducer>().end_unit();
  }

 private:
  static constexpr bool stale(const ParameterState& cell) {
    return cell.layouts.gathered && cell.gathered_at != cell.changes();
  }
  constexpr void start() {
    UnitScope scope(recorder(), number);  // it may run ahead of its use
    for (UnitPart& part : parts_) {
      if (part.cell->layouts.gathered) part.cell->check_set();
    }
    for (UnitPart& part : parts_) {
      if (part.cell->layouts.gathered) gather(*part.cell, part.cell->on_demand && !part.borrowed);
    }
    buckets_.start();
  }
  constexpr void gather(ParameterState& cell, bool on_demand) {
    if (cell.users++ > 0 && !stale(cell) && (cell.gathered || on_demand)) return;
    if (on_demand) {
      cell.gathered = Buffer();
      cell.gathered_at = cell.changes();
    } else {
      cell.carrier = &buckets_;
      cell.gather(buckets_);
    }
  }
  /// Whether a parameter was changed after it was gathered ahead, and before its use.
  constexpr bool stale() const {
    for (const UnitPart& part : parts_) {
      if (stale(*part.cell)) return true;
    }
    return false;
  }
  constexpr void forget() {
    ahead_ = false;
    buckets_.finish();
    release_parts();
  }
  constexpr void release_parts() {
    for (UnitPart& part : parts_) {
      ParameterState& cell = *part.cell;
      if (!cell.layouts.gathered) continue;
      if (cell.carrier == &buckets_) {
        cell.carrier = nullptr;
        if (!buckets_.idle()) cell.gathered_at = cell.changes() - 1;  // failed: outdated
      }
      if (--cell.users == 0) cell.gathered = Buffer();
    }
  }
  constexpr void unlink() {
    if (next_) next_->previous_ = nullptr;
    if (previous_) previous_->next_ = nullptr;
    next_ = previous_ = nullptr;
  }

  PooledList<UnitPart> parts_;
  UnitState* next_ = nullptr;
  UnitState* previous_ = nullptr;
  Buckets buckets_{std::numeric_limits<Index>::max(), std::numeric_limits<int>::max()};
  int held_ = 0;
  bool called_again_ = false;
  bool ahead_ = false;  // gathered, or in flight, for a later call
};

/// Marks the beginning of a unit's call, where its part of the backward pass ends.
class UnitFirstNode final : public TapeNode {
 public:
  constexpr UnitFirstNode(Tape& tape, Shared<UnitState> unit) : tape_(tape), unit_(std::move(unit)) {}
  constexpr ~UnitFirstNode() {
    if (gathered_) unit_->release();
  }
  /// Makes the parameters available until the end of its part, if they are needed there.
  constexpr void gather() {
    if (gathered_ || !unit_->read_backward()) return;
    unit_->gather();
    gathered_ = true;
  }
  constexpr void begin(BackwardPart part) {
    if (Recorder* recorder = unit_->recorder()) recorder->set_unit(unit_->number);
    if (part == BackwardPart::parameters) return;
    gather();
    UnitState* previous = unit_->previous();
    if (previous && previous->read_backward()) previous->prefetch();
  }
  constexpr bool pull_back(BackwardPart part) override {
    if (part != BackwardPart::inputs) {
      tape_.compute_postponed();
      unit_->reduce(tape_);
    }
    if (std::exchange(gathered_, false)) unit_->release();
    if (Recorder* recorder = unit_->recorder()) recorder->set_unit(-1);
    return part == BackwardPart::inputs;
  }

 private:
  Tape& tape_;
  Shared<UnitState> unit_;
  bool gathered_ = false;
};

/// Marks the end of a unit's call.
class UnitLastNode final : public TapeNode {
 public:
  constexpr explicit UnitLastNode(UnitFirstNode& first) : first_(first) {}
  constexpr bool pull_back(BackwardPart part) override {
    first_.begin(part);
    return part == BackwardPart::inputs;
  }

 private:
  UnitFirstNode& first_;
};

/// Gathers for a call, and releases at its end.
class UnitHold {
 public:
  constexpr explicit UnitHold(UnitState& unit) : unit_(unit) { unit_.gather(); }
  constexpr ~UnitHold() { unit_.release(); }
  UnitHold& operator=(UnitHold&&) = delete;

 private:
  UnitState& unit_;
};

}  // namespace detail

/// A handle; copies refer to the same unit.
class Unit {
 public:
  /// A unit of the parameters of these modules, which must all be constructed already.
  template <class... Modules>
    requires(!std::is_same_v<std::remove_cvref_t<Modules>, Unit> && ...)
  constexpr explicit Unit(Modules&... modules) : state_(Shared<detail::UnitState>::make()) {
    (add(modules, false), ...);
  }

  /// Uses the parameters of a module whose gradients belong to another unit: a table that is also the head.
  template <class Module>
  constexpr void borrow(Module& module) {
    add(module, true);
  }

  /// `f(x)` with the parameters available.
  template <Operand X, class F>
  constexpr auto operator()(const X& x, F f) const {
    if constexpr (AbstractOperand<X>) {
      return f(x);
    } else if constexpr (OperandTraits<X>::on_tape) {
      detail::UnitState& unit = state();
      const UnitScope scope(unit.recorder(), unit.number);
      auto& first = x.tape().template record<detail::UnitFirstNode>(x.tape(), state_);
      detail::UnitHold hold(unit);
      if (unit.next() && !x.tape().repeats()) unit.next()->prefetch();
      const int repeated = x.tape().repeated();
      auto y = f(x);
      if (x.tape().repeated() != repeated) unit.set_called_again();
      if (unit.previous() && !unit.next() && !x.tape().repeats())
        first.gather();  // its part of the backward pass comes next
      x.tape().template record<detail::UnitLastNode>(first);
      return y;
    } else {
      detail::UnitState& unit = state();
      const UnitScope scope(unit.recorder(), unit.number);
      detail::UnitHold hold(unit);
      if (unit.next()) unit.next()->prefetch();
      return f(x);
    }
  }

  /// `next` is called after this unit, and gets the next number.
  constexpr void link(const Unit& next) const { state().link(next.state()); }
  /// The number in an `EventLog`; 0 by default.
  constexpr void set_number(int number) const { state().number = number; }

 private:
  template <class Module>
  constexpr void add(Module& module, bool borrowed) {
    for (detail::ParameterState* cell : detail::parameters_of(module)) state().add(*cell, borrowed);
  }
  constexpr detail::UnitState& state() const {
    if (!state_) detail::no_cell();  // moved from, like its parameters
    return *state_;
  }

  Shared<detail::UnitState> state_;
};

}  // namespace shardwise
