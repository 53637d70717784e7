// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// A parameter without its type: what units, `reduce_gradients`, optimizers and checkpoints work on. They are compiled
/// once, and not for each type of parameter; what needs the type of the elements is here as functions.

#include <algorithm>

#include <shardwise/kernel/random.hpp>
#include <shardwise/kernel/update.hpp>
#include <shardwise/module/init.hpp>
#include <shardwise/module/sharding.hpp>
#include <shardwise/tensor/any_tensor.hpp>

namespace shardwise::detail {

class Buckets;

/// What is done to so many elements of one type.
struct ElementFunctions {
  void (*add)(Index, const void*, const void*, void*);
  void (*scale)(Index, double, void*);
  double (*sum_of_squares)(Index, const void*);
  double (*largest_magnitude)(Index, const void*);
  kernel::NonFinite (*count_non_finite)(Index, const void*);
  /// The first values of elements that lie in the tensor from the second number on.
  void (*draw)(Index, std::uint64_t seed, std::uint64_t first, const Init&, void*);
};

template <class T>
inline constexpr ElementFunctions element_functions{
    .add = &add_elements<T>,
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

/// A gradient that waits to be used. Others add to it.
class AnyGradient {
 public:
  constexpr explicit operator bool() const { return static_cast<bool>(sum_); }
  constexpr const AnyTensor& get() const { return sum_; }
  constexpr AnyTensor take() { return std::exchange(sum_, AnyTensor()); }
  constexpr void clear() { sum_ = AnyTensor(); }
  /// To be changed in place.
  constexpr const AnyTensor& own() { return sum_ = owned(std::move(sum_), MemoryUse::gradient); }

  constexpr void add(AnyTensor more, const ElementFunctions& functions) {
    if (!sum_) {
      sum_ = std::move(more);
      return sum_.buffer.set_use(MemoryUse::gradient);
    }
    sum_ = sum_of(std::move(sum_), more, MemoryUse::gradient, functions.add);
  }

 private:
  AnyTensor sum_;
};

/// What all copies of a parameter share.
class ParameterCell : public Pooled<ParameterCell>, public Counted {
 public:
  [[gnu::noinline]] constexpr ParameterCell(const AnyTensor& value, const Layout& used_in,
                                            const Sharding& sharding, const ElementFunctions& element,
                                            const Init& first)
      : stored(value),
        used(used_in),
        resting_in(resting_layout(used_in, sharding)),
        finished_in(finished_layout(used_in, sharding)),
        functions(element),
        init(first) {}

  /// Is it stored in another layout than it is used in?
  constexpr bool is_gathered() const { return !(stored.layout == used); }
  /// Do pending gradients stay until the step?
  constexpr bool waits() const { return resting_in == cotangent(used); }
  /// Throws `std::logic_error` if there is no value.
  constexpr void check_set() const {
    if (!stored.mesh.dry() && !set) {
      throw std::logic_error("a parameter is used before it has a value: call initialize(model, seed) first");
    }
  }
  /// What is kept between the steps, to be changed in place.
  constexpr const AnyTensor& writable() {
    set = true;
    ++changes;
    return stored;
  }
  /// Draws the first value: the same global tensor on every mesh.
  void initialize(std::uint64_t seed) {
    const AnyTensor& value = writable();
    if (value.mesh.dry()) return;
    for_each_run(view_of(value), [&](Index local, Index global, Index count) {
      functions.draw(count, seed, static_cast<std::uint64_t>(global), init,
                     static_cast<char*>(value.buffer.data()) + local * value.element_bytes());
    });
  }

  /// Has it, as it is used, until there is another one, or none.
  constexpr virtual void hold(const AnyTensor& value) = 0;
  /// What `backward` has left; empty if that is nothing.
  constexpr virtual AnyTensor take_pending() = 0;
  constexpr virtual bool has_pending() const = 0;

  const AnyTensor stored;
  const Layout used, resting_in, finished_in;
  const ElementFunctions& functions;
  const Init init;
  Buckets* carrier = nullptr;  ///< what may still be on the way with the gathered value
  int users = 0;               ///< of the gathered value
  unsigned changes = 0;        ///< of the value
  unsigned gathered_at = 0;    ///< how many changes the gathered value knows of
  bool set = false, seen = false;
  AnyGradient resting;  ///< not used if pending gradients stay where they are
  AnyGradient finished;
};

}  // namespace shardwise::detail
