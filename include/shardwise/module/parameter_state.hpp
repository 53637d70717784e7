// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// A parameter without its type, for units, `reduce_gradients`, optimizers and checkpoints, which are thus compiled
/// once for all types. Functions that depend on the element type are stored with it.

#include <shardwise/autograd/recipe.hpp>
#include <shardwise/autograd/slot.hpp>
#include <shardwise/base/bodies.hpp>
#include <shardwise/kernel/random.hpp>
#include <shardwise/kernel/sums.hpp>
#include <shardwise/module/sharding.hpp>
#include <shardwise/tensor/buckets.hpp>
#include <shardwise/tensor/communicate_as.hpp>

namespace shardwise {

struct BlockFormat;  // in weights/stored_type.hpp

/// The distribution of a parameter's initial value.
struct Init {
  /// `scale` is the constant, the standard deviation, or the bound.
  enum class Kind : std::uint8_t { constant, normal, uniform };
  Kind kind = Kind::constant;
  double scale = 0;

  /// All elements equal `value`; below, normal with the mean 0. Throws `std::invalid_argument` for a deviation below 0.
  static constexpr Init constant(double value) { return {Kind::constant, value}; }
  static constexpr Init normal(double deviation) {
    return {Kind::normal, checked("Init::normal: the deviation", deviation)};
  }
  /// Uniform in [-bound, bound).
  static constexpr Init uniform(double bound) {
    return {Kind::uniform, checked("Init::uniform: the bound", bound)};
  }
  /// Uniform with the bound 1/√fan_in, as PyTorch initialises its Linear layers.
  static constexpr Init fan_in(Index features) {
    if (__builtin_is_constant_evaluated()) return uniform(1);
    return uniform(features > 0 ? 1 / std::sqrt(static_cast<double>(features)) : 0);
  }

 private:
  /// Returns `value`; throws `std::invalid_argument` unless it is finite and at least 0.
  static constexpr double checked(const char* what, double value) {
    if (!(value >= 0 && value <= std::numeric_limits<double>::max())) fail(what, value);
    return value;
  }
  [[noreturn, gnu::cold]] static void fail(const char* what, double value);
};

namespace detail {

/// Operations on a number of elements of one type; those that are null are for trained parameters.
struct ElementFunctions {
  const ElementSum* sum = nullptr;
  void (*scale)(Index, double, void*) = nullptr;
  double (*sum_of_squares)(Index, const void*) = nullptr;
  double (*largest_magnitude)(Index, const void*) = nullptr;
  kernel::NonFinite (*count_non_finite)(Index, const void*);
  /// Draws the initial values of the elements from number `first` on.
  void (*draw)(Index, std::uint64_t seed, std::uint64_t first, const Init&, void*);
  const BlockFormat* blocks = nullptr;  ///< how files become elements that are blocks
};

template <class T>
inline constexpr ElementFunctions element_functions{
    .sum = &element_sum<T>,
    .scale =
        [](Index n, double factor, void* x) {
          auto* values = static_cast<T*>(x);
          kernel::scale<T>(n, static_cast<kernel::compute_t<T>>(factor), values, values);
        },
    .sum_of_squares = [](Index n,
                         const void* x) { return kernel::sum_of_wide_squares(n, static_cast<const T*>(x)); },
    .largest_magnitude = [](Index n,
                            const void* x) { return kernel::largest_magnitude(n, static_cast<const T*>(x)); },
    .count_non_finite = [](Index n,
                           const void* x) { return kernel::count_non_finite(n, static_cast<const T*>(x)); },
    .draw =
        [](Index n, std::uint64_t seed, std::uint64_t first, const Init& init, void* x) {
          auto* values = static_cast<T*>(x);
          if (init.kind == Init::Kind::normal)
            return kernel::fill_normal(n, seed, first, 0., init.scale, values);
          if (init.kind == Init::Kind::uniform) {
            return kernel::fill_uniform(n, seed, first, -init.scale, init.scale, values);
          }
          std::fill_n(values, n, static_cast<T>(init.scale));
        },
};

/// The content of a parameter.
class ParameterState : public Pooled<ParameterState>, public Counted {
 public:
  constexpr ParameterState(const AnyTensor& value, const ParameterLayouts& all_layouts,
                           const ElementFunctions& element, const Init& first)
      : stored(value),
        layouts(all_layouts),
        functions(element),
        init(first),
        pending(pending_slot()),
        accumulated(Shared<GradientSlot>::make(MemoryUse::gradient)) {
    if (__builtin_is_constant_evaluated()) return;
    older_ = std::exchange(newest, this);
    if (older_) older_->newer_ = this;
  }
  constexpr ~ParameterState() {
    if (__builtin_is_constant_evaluated()) return;
    (newer_ ? newer_->older_ : newest) = older_;
    if (older_) older_->newer_ = newer_;
  }

  /// A trained parameter of this thread that has a gradient but was never visited in a model; or null.
  static const ParameterState* unvisited_with_gradient() {
    const ParameterState* cell = newest;
    while (cell && (cell->named || cell->layouts.frozen || !cell->has_gradient())) cell = cell->older_;
    return cell;
  }

  /// Returns when no transfer of the value is in flight.
  constexpr void await() {
    if (carrier) finish_transfer();
  }
  /// Returns when the value is available. Throws `std::logic_error` if there is none.
  constexpr void check_set() {
    if (carrier) await();
    if (!set && !stored.mesh.dry()) fail_unset();
  }
  /// Starts gathering the value for use; it is available when `by` has finished.
  constexpr void gather(Buckets& by) {
    Recorder* recorder = stored.mesh.recorder();
    gathered_at = changes();
    gathered = by.carry(AnyTensor(stored), layouts.used, communication.forward_of(stored.type),
                        MemoryUse::gathered, recorder ? recorder->phase() : Phase::forward)
                   .buffer;
  }
  /// The gathered value. Throws `std::logic_error` outside the parameter's units, and if the value was never set.
  constexpr const Buffer& gathered_value() {
    check_set();
    if (!gathered) gather_alone();
    return gathered;
  }
  /// The value stored between steps, to be changed in place.
  constexpr const AnyTensor& writable() {
    await();
    set = true;
    ++stored.buffer->changes;
    return stored;
  }
  /// See the function `lower_zero_level`.
  constexpr void lower_zero_level(int level) {
    if (has_gradient()) fail<std::logic_error>({"lower_zero_level: a parameter has a gradient already"});
    layouts = layouts.at_most(level);
    pending = pending_slot();
  }
  /// Draws the initial value: the same global tensor on every mesh.
  void initialize(std::uint64_t seed) {
    const AnyTensor& value = writable();
    if (value.mesh.dry()) return;
    for_each_run(view_of(value), [&](Index local, Index global, Index count) {
      functions.draw(count, seed, static_cast<std::uint64_t>(global), init,
                     static_cast<char*>(value.buffer->data) + local * value.element_bytes());
    });
  }

  /// Whether `backward` has left a gradient since the last step, at whatever stage of its reduction.
  constexpr bool has_gradient() const {
    return pending->filled() || accumulated->filled() || finished.filled();
  }

  constexpr unsigned changes() const { return stored.buffer->changes; }

  /// The gradient that `backward` has left.
  constexpr AnyTensor take_pending() { return numbered(stored.with(layouts.pending, pending->take())); }
  /// The sum between backward passes.
  constexpr AnyTensor take_accumulated() {
    return numbered(stored.with(layouts.accumulated, accumulated->take()));
  }
  /// The gradient that `reduce_gradients` has left.
  constexpr AnyTensor finished_gradient() { return stored.with(layouts.finished, finished.sum()); }

  AnyTensor stored;  ///< of this only the `module` changes
  ParameterLayouts layouts;
  const ElementFunctions& functions;
  const Init init;
  Buffer gathered;             ///< the value for use, while in use, if its layout differs from the stored one
  Buckets* carrier = nullptr;  ///< may still carry the value, stored or gathered
  int users = 0;               ///< of the gathered value
  unsigned gathered_at = 0;    ///< the number of changes that the gathered value includes
  int number = -1;             ///< in the list of those that are reduced together
  bool set = false, seen = false;
  bool named = false;                      ///< a model's visit has named it
  bool on_demand = false;                  ///< its unit does not gather it ahead: see `Embedding`
  bool read_backward = false;              ///< a pullback reads the gathered value; none does for a bias
  Communication communication;             ///< of the gathered value, and of gradients
  Shared<GradientSlot> pending;            ///< the gradient from `backward`
  const Shared<GradientSlot> accumulated;  ///< unused if pending gradients are not moved
  GradientSlot finished{MemoryUse::gradient};

 private:
  [[noreturn, gnu::cold]] void fail_unset() const;
  [[noreturn, gnu::cold]] void fail_not_gathered() const;
  constexpr Shared<GradientSlot> pending_slot() const {
    return Shared<GradientSlot>::make(layouts.accumulates_pending ? MemoryUse::gradient
                                                                  : MemoryUse::gathered);
  }
  constexpr AnyTensor numbered(AnyTensor gradient) const {
    gradient.parameter = number;
    return gradient;
  }
  constexpr void gather_here() {
    if (users <= 0) fail_not_gathered();
    Buckets now(std::numeric_limits<Index>::max(), 0);
    gather(now);
    now.finish();
  }
  SHARDWISE_ONCE(void, gather_alone, (), (), gather_here())
  constexpr void await_here() {
    while (carrier) {
      if (carrier->idle()) {
        carrier = nullptr;
      } else {
        carrier->finish_next();
      }
    }
  }
  SHARDWISE_ONCE(void, finish_transfer, (), (), await_here())

  static inline thread_local ParameterState* newest = nullptr;  ///< of this thread
  ParameterState *newer_ = nullptr, *older_ = nullptr;
};

/// The state of a new parameter; the arguments are those of the constructor.
SHARDWISE_ONCE(Shared<ParameterState>, new_parameter_state,
               (const AnyTensor& value, const ParameterLayouts& layouts, const ElementFunctions& functions,
                const Init& init),
               (value, layouts, functions, init),
               Shared<ParameterState>::make(value, layouts, functions, init))

/// The value of a parameter as it is used.
class GatheredAgain final : public Recipe {
 public:
  constexpr explicit GatheredAgain(const Shared<ParameterState>& cell)
      : cell_(cell), changes_(cell->changes()) {}
  constexpr void is_kept() override { cell_->read_backward = true; }

 private:
  constexpr Buffer compute() override {
    if (cell_->changes() != changes_) value_has_changed();
    return cell_->gathered_value();
  }

  Shared<ParameterState> cell_;
  unsigned changes_;
};

/// A recipe that gathers the value of a parameter again.
SHARDWISE_ONCE(Shared<Recipe>, gathered_again, (const Shared<ParameterState>& cell), (cell),
               Shared<GatheredAgain>::make(cell))

#ifdef SHARDWISE_BODIES

SHARDWISE_INLINE void ParameterState::fail_unset() const {
  fail<std::logic_error>({"a parameter ", stored.extents(),
                          " is used before it has a value: call initialize(model, seed) first; if you "
                          "did, a module's visit does not name it"});
}
SHARDWISE_INLINE void ParameterState::fail_not_gathered() const {
  fail<std::logic_error>({"a fully sharded parameter ", stored.extents(),
                          " is used, but not gathered: run the modules that use it in a Unit (what this "
                          "rank keeps of it is stored())"});
}

#endif

}  // namespace detail

#ifdef SHARDWISE_BODIES

SHARDWISE_INLINE void Init::fail(const char* what, double value) {
  detail::fail({what, " is ", value, ", but must be finite and at least 0"});
}

#endif

}  // namespace shardwise
