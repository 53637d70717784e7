// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Checks a plan for a model: it must name each layer exactly once, with a style that suits it, over axes of the
/// mesh, and nothing else.

#include <shardwise/layout/diagnosis.hpp>

#include <shardwise/parallel/plan.hpp>
#include <shardwise/parallel/style_problem.hpp>

namespace shardwise {

namespace detail {

/// The fault of a plan: the entry and the module.
struct PlanFault {
  Reason reason = Reason::none;
  std::size_t entry = 0;
  std::size_t other = 0;   ///< a second entry
  std::size_t module = 0;  ///< at fault, or with the nearest name
};

/// Whether a plan must name this module, and does not.
template <class PlanType>
constexpr bool lacks_style(const ModuleName& module, int at = -1) {
  const ModuleKind kind = module.kind;
  return is_layer(kind) && kind != ModuleKind::dropout && kind != ModuleKind::experts &&
         PlanType::entry_for(module.name, at) == no_entry;
}

/// Whether a name with a slice names a list that can be sliced; other names are fine.
constexpr bool slices_a_list(std::string_view name, std::span<const ModuleName> modules) {
  if (name.find('[') == name.npos) return true;
  return slice_in(name).given() && std::any_of(modules.begin(), modules.end(), [=](const ModuleName& module) {
           return module.sliced && names_module(up_to_slice(name), module.name);
         });
}

/// The first of these names that no module has, and in which none is; the number of names if there is none.
constexpr std::size_t first_unknown(std::span<const std::string_view> names,
                                    std::span<const ModuleName> modules) {
  const auto is_unknown = [=](std::string_view name) {
    return !slices_a_list(name, modules) ||
           std::none_of(modules.begin(), modules.end(), [=](const ModuleName& module) {
             return is_within(module.name, slice_in(name).first, {name});
           });
  };
  return static_cast<std::size_t>(std::find_if(names.begin(), names.end(), is_unknown) - names.begin());
}

/// The entry whose style a module has in the elements from bound `at` on, or `no_entry`: also for a composite module
/// that the pattern of an entry for others matches.
template <class PlanType>
constexpr std::size_t suited_entry(const ModuleName& module, int at) {
  const std::size_t entry = PlanType::entry_for(module.name, at);
  if (entry == no_entry || is_layer(module.kind)) return entry;
  const std::string_view name = PlanType::names[entry], tail = name.substr(up_to_slice(name).size());
  return module.name.ends_with(tail) ? entry : no_entry;
}

template <class... Uses, std::size_t Count>
constexpr PlanFault plan_fault(Plan<Uses...>, const std::array<ModuleName, Count>& modules) {
  using PlanType = Plan<Uses...>;
  const std::array<bool (*)(ModuleKind), PlanType::size> suits{&Uses::StyleOf::suits...};
  for (std::size_t entry = 0; entry < PlanType::size; ++entry) {
    const std::string_view name = PlanType::names[entry];
    const auto named = [=](const ModuleName& module) { return names_module(name, module.name); };
    if (std::none_of(modules.begin(), modules.end(), named) || !slices_a_list(name, modules)) {
      // First those that still lack a style, and those that the entry's style suits.
      const auto distance = [&](const ModuleName& module) {
        return std::tuple(!lacks_style<PlanType>(module), !suits[entry](module.kind),
                          edit_distance(name, module.name));
      };
      const auto nearest = std::ranges::min_element(modules, {}, distance) - modules.begin();
      return {Reason::plan_names_an_unknown_module, entry, 0, static_cast<std::size_t>(nearest)};
    }
  }
  for (const int at : groups_in_plan<PlanType>) {
    for (std::size_t m = 0; m < Count; ++m) {
      const std::size_t entry = PlanType::entry_for(modules[m].name, at);
      if (lacks_style<PlanType>(modules[m], at))
        return {Reason::plan_leaves_a_module_without_a_style, 0, 0, m};
      if (entry == no_entry) continue;
      const std::size_t other =
          PlanType::entry_for(modules[m].name, at, entry + 1, PlanType::slices[entry].given());
      if (other != no_entry) return {Reason::plan_names_a_module_twice, entry, other, m};
      if (suited_entry<PlanType>(modules[m], at) == entry && !suits[entry](modules[m].kind))
        return {Reason::style_does_not_suit_the_module, entry, 0, m};
    }
  }
  return {};
}

/// The style of module number `M` of a table, in the elements from bound `At` on.
template <class PlanType, const auto& Modules, std::size_t M, int At>
constexpr auto style_in_table() {
  constexpr auto name = [] {
    FixedString<Modules[M].name.size() + 1> text;
    std::ranges::copy(Modules[M].name, text.text);
    return text;
  }();
  return PlanType::template style_for<name, At>();
}

/// An error if a module cannot have its style on this mesh, or `void`.
template <class MeshType, class PlanType, const auto& Modules,
          class Each = std::make_index_sequence<Modules.size() * groups_in_plan<PlanType>.size()>>
struct PlanStylesProblem;
template <class MeshType, class PlanType, const auto& Modules, std::size_t... I>
struct PlanStylesProblem<MeshType, PlanType, Modules, std::index_sequence<I...>> {
  template <std::size_t M, int At>
  static constexpr auto problem() {
    if constexpr (suited_entry<PlanType>(Modules[M], At) == no_entry) {
      return TypeIs<void>{};
    } else {
      using Style = typename decltype(style_in_table<PlanType, Modules, M, At>())::type;
      return TypeIs<style_problem<MeshType, Modules[M].kind, Style>>{};
    }
  }
  using type = typename FirstError<
      typename decltype(problem<I % Modules.size(),
                                groups_in_plan<PlanType>[I / Modules.size()]>())::type...>::type;
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
      return PlanStylesProblem<MeshType, PlanType, Modules>{};
    } else if constexpr (fault.reason == Reason::plan_leaves_a_module_without_a_style) {
      return Refused<fault.reason, Got<Module>>{};
    } else {
      using Entry = name_type<EntryText<fault.entry>>;
      using Style = typename PlanType::template StyleAt<fault.entry>;
      if constexpr (fault.reason == Reason::plan_names_an_unknown_module) {
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
template <class MeshType, class NoPlan, const auto& Modules>
  requires(!is_plan<NoPlan>)
struct PlanProblem<MeshType, NoPlan, Modules>
    : TypeIs<WrittenOtherwise<Hint::pass_a_plan_which_PlanWith_takes_first>> {};
template <class MeshType, class... Uses, const auto& Modules>
  requires(!is_plan<Plan<Uses...>>)
struct PlanProblem<MeshType, Plan<Uses...>, Modules>
    : TypeIs<
          WrittenOtherwise<Hint::write_each_entry_as_Use_of_a_name_and_a_style_which_PlanWith_adds_to_all>> {
};
template <class MeshType, is_plan PlanType, class Extra, FixedString... Where, const auto& Modules>
struct PlanProblem<MeshType, PlanWith<PlanType, Extra, Where...>, Modules> {
  static constexpr std::array<std::string_view, sizeof...(Where)> names{Where.view()...};
  static constexpr std::size_t unknown = first_unknown(names, Modules);
  struct UnknownText {
    static constexpr std::string_view value = names[unknown];
  };
  struct NearestText {
    static constexpr auto distance = [](const ModuleName& module) {
      return edit_distance(names[unknown], module.name);
    };
    static constexpr std::string_view value = std::ranges::min_element(Modules, {}, distance)->name;
  };

  static constexpr auto type_of() {
    using Without = typename PlanProblem<MeshType, PlanType, Modules>::type;
    if constexpr (IllFormed<Without>) {
      return TypeIs<Without>{};
    } else if constexpr (unknown < sizeof...(Where)) {
      return Refused<Reason::plan_names_an_unknown_module, Expected<name_type<NearestText>>,
                     Got<name_type<UnknownText>>>{};
    } else {
      return PlanStylesProblem<MeshType, PlanWith<PlanType, Extra, Where...>, Modules>{};
    }
  }
  using type = typename decltype(type_of())::type;
};

}  // namespace detail

/// `void` if a plan names each of the layers in `Modules`, a static array of `ModuleName`, exactly once, with a
/// style that suits it, over axes of the mesh, and nothing else; otherwise a `LayoutError` with the first wrong
/// name, and for an unknown name the nearest known one.
template <class MeshType, class PlanType, const auto& Modules>
using plan_problem = typename detail::PlanProblem<MeshType, PlanType, Modules>::type;

}  // namespace shardwise
