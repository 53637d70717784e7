// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Events of a log by the names of modules, in a plan and in a recorded run, at compile time too:
///
/// ```
/// EventLog log;
/// trace<Mesh<dp, tp>>({2, 4}, [&](const auto& mesh) {
///   Model model(mesh);
///   name_modules(log, model);
///   … a training step …
/// }, {}, 0, &log);
/// traffic_of(log, "layers.0.mlp").bytes;   // of this module and of all within it, in all phases
/// ```
/// A call of a module, and its part of the backward pass, belong to the innermost module that has a name; the
/// communication of a parameter, its gradient and its optimizer to the parameter's module.

#include <optional>

#include <shardwise/base/name.hpp>
#include <shardwise/module/module.hpp>
#include <shardwise/module/parameters.hpp>

namespace shardwise {

namespace detail {

/// The text of a path, which is constexpr.
constexpr void append_path(std::vector<char>& text, const ParameterPath* path) {
  if (!path) return;
  append_path(text, path->above);
  if (!text.empty()) text.push_back('.');
  for (const char* letter = path->name; letter && *letter != 0; ++letter) text.push_back(*letter);
  std::size_t power = path->name ? 0 : 1;
  while (power > 0 && path->number / power >= 10) power *= 10;
  for (; power > 0; power /= 10) text.push_back(static_cast<char>('0' + path->number / power % 10));
}

struct NameModules {
  template <class M>
  static constexpr bool wants = is_parameter<M> || requires(M& module) {
    module.visit([](const char*, auto&) {});
  };
  EventLog& log;
  int module = -1;  ///< the one that is being visited

  template <class M>
  constexpr void operator()(const ParameterPath* path, M& it) const {
    if constexpr (is_parameter<M>) {
      AnyTensor& stored = it.cell()->stored;
      if (stored.module < 0) stored.module = module;
    } else {
      std::vector<char> name;
      append_path(name, path);
      const void* called = std::is_base_of_v<OtherModuleNames, M> ? &it : nullptr;  // containers are not
      const NameModules within{log, log.add_module(name, called)};
      it.visit(ModuleWalk<const NameModules>{within, path});
    }
  }
};

}  // namespace detail

/// From now on events of `log` belong to the modules of `model`, which must not move while it is recorded. Call it once
/// for each model, or stage, before the recorded calls; the names stay if the log is cleared. If modules share a
/// parameter, it has its first name.
template <class M, class Problem = detail::visit_problem<M>>
constexpr void name_modules(EventLog& log, M& model) {
  for (detail::ParameterState* cell : detail::parameters_of(model)) cell->stored.module = -1;
  detail::walk(model, detail::NameModules{log});
}
template <class M, IllFormed Why = detail::visit_problem<M>>
Why name_modules(EventLog&, M&);  // see Why

/// Calls and bytes of the communication of the module with this name and of all within it, in one phase or in all. A
/// call that several of these share counts once. If the log has no such name, throws `std::invalid_argument` with the
/// nearest one.
constexpr Traffic traffic_of(const EventLog& log, std::string_view name, std::optional<Phase> phase = {}) {
  const auto is_within = [&](int module) {
    if (module < 0) return false;
    const std::string_view own = log.module_name(module);
    return name.empty() || own == name || (own.starts_with(name) && own[name.size()] == '.');
  };
  std::size_t least = std::string_view::npos;
  std::string_view nearest;
  for (int module = 0; module < log.modules() && least > 0; ++module) {
    const std::string_view own = log.module_name(module);
    const std::size_t distance = is_within(module) ? 0
                                 : own.empty()     ? least
                                                   : detail::edit_distance(own, name);
    if (distance < least) least = distance, nearest = own;
  }
  if (log.modules() == 0) detail::fail({"traffic_of: the log has no names of modules"});
  if (least > 0) {
    detail::fail(
        {"traffic_of: the log has no module with the name \"", name, "\"; the nearest is \"", nearest, "\""});
  }
  Traffic sum;
  for (const Event& event : log.events()) {
    if (event.computes() || event.waits || (phase && event.phase != *phase)) continue;
    std::int64_t calls = 0;
    log.for_each_part(event, [&](const ModulePart& part) {
      if (!is_within(part.module)) return;
      calls = 1;
      sum.bytes += part.amount;
    });
    sum.calls += calls;
  }
  return sum;
}

}  // namespace shardwise
