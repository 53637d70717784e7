// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// A plan gives the modules of a model their styles, by name; the model itself does not change.
///
/// ```
/// using MyPlan = Plan<Use<"up", ColwiseParallel<tp>>, Use<"down", RowwiseParallel<tp>>>;
///
/// inline constexpr std::array modules{ModuleName{"up", ModuleKind::linear}, ModuleName{"down", ModuleKind::linear}};
///
/// template <class MeshType, class PlanType>
/// struct Model {
///   using Named = PlanFor<PlanType, modules>;
///   using Problem = plan_problem<MeshType, PlanType, modules>;
///   explicit Model(const MeshType& mesh) requires WellFormed<Problem> : up(mesh, 64, 256), down(mesh, 256, 64) {}
///   template <IllFormed Why = Problem>
///   explicit Model(const MeshType&) = delete;  // see Why
///   …
///   Linear<MeshType, style_of<Named, "up">> up;
///   Linear<MeshType, style_of<Named, "down">> down;
/// };
/// ```
/// In a name, `*` stands for any one part between dots: "layers.*.attention.wq" is the query projection of
/// every layer. Each layer with parameters is named just once; anything else is a compile error that gives
/// the name: `plan_problem`.

#include <algorithm>
#include <array>
#include <string_view>

#include <shardwise/layout/diagnosis.hpp>
#include <shardwise/layout/name.hpp>
#include <shardwise/parallel/prepare_module.hpp>
#include <shardwise/parallel/style.hpp>
#include <shardwise/parallel/zero.hpp>

namespace shardwise {

/// Gives the modules of this name a style.
template <FixedString Name, class Style>
struct Use {
  static constexpr std::string_view name = Name.view();
  using StyleOf = Style;
};

/// The name of a module for plans, with dots between its parts and `*` for the elements of a list.
struct ModuleName {
  std::string_view name;
  ModuleKind kind;
};

namespace detail {

/// Where the first part of a name ends. (Under -fsanitize=undefined, g++ 12 does not take
/// `string_view::find` for constant.)
constexpr std::size_t end_of_part(std::string_view name) {
  std::size_t end = 0;
  while (end < name.size() && name[end] != '.') ++end;
  return end;
}

/// Does the name of an entry stand for this module?
constexpr bool names_module(std::string_view entry, std::string_view module) {
  while (true) {
    const auto a = end_of_part(entry), b = end_of_part(module);
    if (entry.substr(0, a) != "*" && entry.substr(0, a) != module.substr(0, b)) return false;
    const bool last = a == entry.size();
    if (last != (b == module.size())) return false;
    if (last) return true;
    entry.remove_prefix(a + 1);
    module.remove_prefix(b + 1);
  }
}

/// The number of letters to insert, delete or replace to get from `a` to `b` (Levenshtein, 1966).
constexpr std::size_t edit_distance(std::string_view a, std::string_view b) {
  constexpr std::size_t longest = 128;
  if (b.size() >= longest) return a.size() + b.size();
  std::array<std::size_t, longest> row{};
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t above = row[j];
      row[j] = std::min({above + 1, row[j - 1] + 1, diagonal + (a[i - 1] == b[j - 1] ? 0 : 1)});
      diagonal = above;
    }
  }
  return row[b.size()];
}

inline constexpr std::size_t no_entry = static_cast<std::size_t>(-1);

}  // namespace detail

template <class... Uses>
struct Plan {
  static constexpr std::size_t size = sizeof...(Uses);
  static constexpr std::array<std::string_view, size> names{Uses::name...};

  /// The entry that names a module, from `first` on; `no_entry` if there is none.
  static constexpr std::size_t entry_for(std::string_view module, std::size_t first = 0) {
    for (std::size_t i = first; i < size; ++i) {
      if (detail::names_module(names[i], module)) return i;
    }
    return detail::no_entry;
  }
  template <std::size_t Entry>
  using StyleAt = typename std::tuple_element_t<Entry, std::tuple<Uses...>>::StyleOf;

  template <FixedString Module>
  static constexpr auto style_for() {
    if constexpr (entry_for(Module.view()) == detail::no_entry) {
      return detail::TypeIs<NoParallel>{};
    } else {
      return detail::TypeIs<StyleAt<entry_for(Module.view())>>{};
    }
  }
};

/// A plan for a model with the modules `Modules`, a static array of `ModuleName`: its modules get their styles from
/// this, by names that are in that table.
template <class PlanType, const auto& Modules>
struct PlanFor {
  static constexpr bool lists(std::string_view name) {
    for (const ModuleName& module : Modules) {
      if (module.name == name) return true;
    }
    return false;
  }
  template <FixedString Module>
  static constexpr auto style_for() {
    static_assert(lists(Module.view()), "the model's table of modules lacks a module that the model has");
    return PlanType::template style_for<Module>();
  }
};

/// The part of a plan for the modules below `Prefix`.
template <class PlanType, FixedString Prefix>
struct PlanBelow {
  template <FixedString Module>
  static constexpr auto style_for() {
    return PlanType::template style_for<detail::dotted(Prefix, Module)>();
  }
};

namespace detail {

/// `Style` and `Extra` in one.
template <class Style, class Extra>
struct StyleAnd {
  using type = Styles<Style, Extra>;
};
template <class... Parts, class Extra>
struct StyleAnd<Styles<Parts...>, Extra> {
  using type = Styles<Parts..., Extra>;
};
template <class Extra>
struct StyleAnd<NoParallel, Extra> {
  using type = Extra;
};
template <class Style, class Extra>
  requires requires { typename Style::ArgumentsOf; }
struct StyleAnd<Style, Extra> {
  using type = Style;
};

}  // namespace detail

/// A plan in which every layer has the style `Extra` beside its own: `FullyShard<dp>`.
template <class PlanType, class Extra>
struct PlanWith {
  static constexpr std::size_t size = PlanType::size;
  static constexpr auto names = PlanType::names;
  template <std::size_t Entry>
  using StyleAt = typename detail::StyleAnd<typename PlanType::template StyleAt<Entry>, Extra>::type;

  template <FixedString Module>
  static constexpr auto style_for() {
    using Style = typename decltype(PlanType::template style_for<Module>())::type;
    return detail::TypeIs<typename detail::StyleAnd<Style, Extra>::type>{};
  }
};

/// The style of a module in a plan, or `NoParallel` if the plan does not name it.
template <class PlanType, FixedString Module>
using style_of = typename decltype(PlanType::template style_for<Module>())::type;

namespace detail {

/// What is wrong with a plan for a model: which entry, which module.
struct PlanFault {
  Reason reason = Reason::none;
  std::size_t entry = 0;
  std::size_t other = 0;   ///< entry
  std::size_t module = 0;  ///< at fault, or the nearest in name
};

/// The module whose name is nearest to that of an entry.
template <std::size_t Count>
constexpr std::size_t nearest_name(std::string_view entry, const std::array<ModuleName, Count>& modules) {
  std::size_t nearest = 0, least = no_entry;
  for (std::size_t m = 0; m < Count; ++m) {
    const std::size_t distance = edit_distance(entry, modules[m].name);
    if (distance >= least) continue;
    least = distance;
    nearest = m;
  }
  return nearest;
}

template <class... Uses, std::size_t Count>
constexpr PlanFault plan_fault(Plan<Uses...>, const std::array<ModuleName, Count>& modules) {
  using PlanType = Plan<Uses...>;
  for (std::size_t entry = 0; entry < PlanType::size; ++entry) {
    const std::string_view name = PlanType::names[entry];
    const auto named = [&](const ModuleName& module) { return names_module(name, module.name); };
    if (std::none_of(modules.begin(), modules.end(), named)) {
      return {Reason::plan_names_no_such_module, entry, 0, nearest_name(name, modules)};
    }
  }
  const std::array<bool (*)(ModuleKind), PlanType::size> suits{&Uses::StyleOf::suits...};
  for (std::size_t m = 0; m < Count; ++m) {
    const std::size_t entry = PlanType::entry_for(modules[m].name);
    if (entry == no_entry) {
      const ModuleKind kind = modules[m].kind;
      if (kind == ModuleKind::composite || kind == ModuleKind::dropout) continue;
      return {Reason::plan_leaves_a_module_without_a_style, 0, 0, m};
    }
    const std::size_t other = PlanType::entry_for(modules[m].name, entry + 1);
    if (other != no_entry) return {Reason::plan_names_a_module_twice, entry, other, m};
    if (!suits[entry](modules[m].kind)) return {Reason::style_does_not_suit_the_module, entry, 0, m};
  }
  return {};
}

/// Why the mesh lacks an axis that a style names, or `void`.
template <class MeshType, class PlanType, const auto& Modules, class Entries>
struct PlanAxesProblem;
template <class MeshType, class PlanType, const auto& Modules, std::size_t... Entry>
struct PlanAxesProblem<MeshType, PlanType, Modules, std::index_sequence<Entry...>> {
  static constexpr ModuleKind kind(std::size_t entry) {
    for (const ModuleName& module : Modules) {
      if (names_module(PlanType::names[entry], module.name)) return module.kind;
    }
    return ModuleKind::composite;
  }
  using type = typename FirstError<
      style_problem<MeshType, kind(Entry), typename PlanType::template StyleAt<Entry>>...>::type;
};

template <class MeshType, class PlanType, const auto& Modules>
struct PlanProblem {
  static constexpr PlanFault fault = plan_fault(PlanType{}, Modules);

  struct ModuleText {
    static constexpr std::string_view value = Modules[fault.module].name;
  };
  template <std::size_t Entry>
  struct EntryText {
    static constexpr std::string_view value = PlanType::names[Entry];
  };

  static constexpr auto type_of() {
    using Module = name_type<ModuleText>;
    if constexpr (fault.reason == Reason::none) {
      return PlanAxesProblem<MeshType, PlanType, Modules, std::make_index_sequence<PlanType::size>>{};
    } else if constexpr (fault.reason == Reason::plan_leaves_a_module_without_a_style) {
      return Refused<fault.reason, Got<Module>>{};
    } else {
      using Entry = name_type<EntryText<fault.entry>>;
      using Style = typename PlanType::template StyleAt<fault.entry>;
      if constexpr (fault.reason == Reason::plan_names_no_such_module) {
        return Refused<fault.reason, Expected<Module>, Got<Entry>>{};
      } else if constexpr (fault.reason == Reason::plan_names_a_module_twice) {
        return Refused<fault.reason, Expected<Module>, Got<Entry, name_type<EntryText<fault.other>>>>{};
      } else {
        return Refused<fault.reason, Got<Module, Style>>{};
      }
    }
  }
  using type = typename decltype(type_of())::type;
};
template <class MeshType, class PlanType, class Extra, const auto& Modules>
struct PlanProblem<MeshType, PlanWith<PlanType, Extra>, Modules> {
  static constexpr auto type_of() {
    using Without = typename PlanProblem<MeshType, PlanType, Modules>::type;
    if constexpr (IllFormed<Without>) {
      return TypeIs<Without>{};
    } else {
      return PlanAxesProblem<MeshType, PlanWith<PlanType, Extra>, Modules,
                             std::make_index_sequence<PlanType::size>>{};
    }
  }
  using type = typename decltype(type_of())::type;
};

}  // namespace detail

/// `void` if a plan names each of the layers in `Modules`, a static array of `ModuleName`, just once, with a
/// style that suits it, over axes of the mesh, and nothing else; else the `LayoutError` that gives the first
/// name at fault, and for a name that is none, the nearest.
template <class MeshType, class PlanType, const auto& Modules>
using plan_problem = typename detail::PlanProblem<MeshType, PlanType, Modules>::type;

}  // namespace shardwise
