// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// A module is any type with `visit(f)`, which calls f(name, child) for each parameter, submodule, or vector
/// of submodules. On it rest `for_each_parameter`, `initialize` and the optimizers.
///
/// ```
/// constexpr void visit(auto&& f) { f("up", up); f("down", down); }
/// ```

#include <string>
#include <string_view>
#include <vector>

#include <shardwise/layout/diagnosis.hpp>
#include <shardwise/module/parameter.hpp>
#include <shardwise/ops/result.hpp>

namespace shardwise {

namespace detail {  // what comes of a module's input, in types, so that a call of the module can be refused

/// What becomes of the operand `X` in `Steps`, each a map from a tensor type to a tensor type or a
/// `LayoutError`; the first error ends it.
template <class X, template <class> class... Steps>
struct Through {
  using type = X;
};
template <Operand X, template <class> class First, template <class> class... Rest>
struct Through<X, First, Rest...> : Through<First<tensor_of<X>>, Rest...> {};
template <Operand X, template <class> class First, template <class> class... Rest>
  requires(!TensorOperand<X>)
struct Through<X, First, Rest...> {
  using type = tensor_of<X>;
};
template <class X, template <class> class... Steps>
using through = typename Through<X, Steps...>::type;

/// The first of the results that is an error, else the last.
template <class First, class... Rest>
struct AllWellFormed : AllWellFormed<Rest...> {};
template <class Last>
struct AllWellFormed<Last> {
  using type = Last;
};
template <IllFormed First, class Second, class... Rest>
struct AllWellFormed<First, Second, Rest...> {
  using type = First;
};

/// What the operation `Op` makes of operands each of which is a tensor type, or the error that there is none.
template <class Op, class... X>
struct ResultAfter {
  using type = typename AllWellFormed<X...>::type;
};
template <class Op, TensorType... X>
struct ResultAfter<Op, X...> {
  using type = result_of<Op, X...>;
};
template <class Op, class... X>
using result_after = typename ResultAfter<Op, X...>::type;

}  // namespace detail

/// Calls f(parameter) for every parameter of a module, in the order of `visit`.
template <class Module, class F>
constexpr void for_each_parameter(Module& module, F&& f) {
  if constexpr (is_parameter<Module>) {
    f(module);
  } else if constexpr (requires { module.begin(); }) {
    for (auto& element : module) for_each_parameter(element, f);
  } else {
    module.visit([&](const char*, auto& child) { for_each_parameter(child, f); });
  }
}

/// The same, but once for a parameter that is visited several times, itself or as copies.
template <class Module, class F>
constexpr void for_each_distinct_parameter(Module& module, F&& f) {
  for_each_parameter(module, [](auto& parameter) { parameter.cell()->seen = false; });
  for_each_parameter(module, [&](auto& parameter) {
    if (!std::exchange(parameter.cell()->seen, true)) f(parameter);
  });
}

/// Calls f(path, parameter) for every parameter, with its dotted path: "blocks.0.attention.wq.weight".
template <class Module, class F>
void for_each_named_parameter(Module& module, F&& f, const std::string& path = "") {
  auto below = [&](std::string_view name) {
    return path.empty() ? std::string(name) : path + "." + std::string(name);
  };
  if constexpr (is_parameter<Module>) {
    f(std::string_view(path), module);
  } else if constexpr (requires { module.begin(); }) {
    std::size_t index = 0;
    for (auto& element : module) for_each_named_parameter(element, f, below(std::to_string(index++)));
  } else {
    module.visit([&](const char* name, auto& child) { for_each_named_parameter(child, f, below(name)); });
  }
}

/// A seed for each name, from one seed for all (FNV-1a, then SplitMix64's finaliser).
constexpr std::uint64_t derived_seed(std::uint64_t seed, std::string_view name) {
  std::uint64_t hash = 14695981039346656037u ^ seed;
  for (char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211u;
  hash = (hash ^ (hash >> 30)) * 0xbf58476d1ce4e5b9u;
  hash = (hash ^ (hash >> 27)) * 0x94d049bb133111ebu;
  return hash ^ (hash >> 31);
}

/// Draws the first value of every parameter, each from a seed derived from its path: the same model on every
/// mesh. On a dry mesh there is nothing to draw.
template <class Module>
constexpr void initialize(Module& module, std::uint64_t seed) {
  if (std::is_constant_evaluated()) return;
  for_each_named_parameter(module, [&](std::string_view path, auto& parameter) {
    parameter.initialize(derived_seed(seed, path));
  });
}

/// Global number of elements of all parameters.
template <class Module>
constexpr Index parameter_count(Module& module) {
  Index count = 0;
  for_each_parameter(module, [&](auto& parameter) { count += elements(parameter.shape()); });
  return count;
}

}  // namespace shardwise
