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
/// In a name, `*` matches one part between dots, or any characters within one: "layers.*.attention.wq" is the query
/// projection of every layer, "layers.*.mlp.*" everything in its MLP. Each layer with parameters must be named
/// exactly once; anything else is a compile error that states the name: `plan_problem`.

#include <shardwise/base/name.hpp>
#include <shardwise/layout/diagnosis.hpp>
#include <shardwise/parallel/prepare_module.hpp>
#include <shardwise/parallel/style.hpp>
#include <shardwise/parallel/zero.hpp>

namespace shardwise {

/// The name of a module for plans, with dots between its parts and `*` for the elements of a list.
struct ModuleName {
  std::string_view name;
  ModuleKind kind;
};

template <FixedString Name, class Style>
struct Use {
  static constexpr std::string_view name = Name.view();
  /// A type that is not a style is wrapped, so that a model can have it until `plan_problem` refuses it.
  using StyleOf = std::conditional_t<ParallelStyle<Style>, Style, Styles<Style>>;
};

namespace detail {

inline constexpr std::size_t no_entry = static_cast<std::size_t>(-1);

/// Whether an entry's name matches this module. A `*` matches any characters within one part.
constexpr bool names_module(std::string_view entry, std::string_view module) {
  const char *const entries = entry.data(), *const letters = module.data();  // g++ compiles these much faster
  const std::size_t size = module.size(), none = entry.size();
  std::size_t e = 0, m = 0;
  std::size_t star = none, rest = 0;  // the last `*` of this part, and where the text after it may begin
  while (m < size || e < none) {
    const char wanted = e < none ? entries[e] : '\0', letter = m < size ? letters[m] : '\0';
    if (wanted == '*') {
      star = e++, rest = m;
    } else if (wanted == letter) {
      if (letter == '.') star = none;
      ++e, ++m;
    } else if (star < none && rest < size && letters[rest] != '.') {
      e = star + 1, m = ++rest;
    } else {
      return false;
    }
  }
  return true;
}

template <class T>
concept is_entry = requires {
  typename T::StyleOf;
};

}  // namespace detail

/// The style of a module that a plan does not name: an error where a module with parameters of its own is
/// constructed; for others the same as `NoParallel`.
template <class PlanType, FixedString Module>
struct NoStyle {
  static constexpr bool suits(ModuleKind) { return true; }
};

template <class... Uses>
struct Plan {
  static constexpr std::size_t size = sizeof...(Uses);
  static constexpr std::array<std::string_view, size> names{Uses::name...};

  /// The first entry, from `first` on, that names a module; `no_entry` if there is none.
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
      return detail::TypeIs<NoStyle<Plan, Module>>{};
    } else {
      return detail::TypeIs<StyleAt<entry_for(Module.view())>>{};
    }
  }
};

/// Not a plan: see `plan_problem`.
template <class... Uses>
  requires(!(detail::is_entry<Uses> && ...))
struct Plan<Uses...> {};

namespace detail {
template <class T>
concept is_plan = requires {
  T::names;
};
}  // namespace detail

/// A plan for a model with the modules `Modules`, a static array of `ModuleName`: the model looks up styles here,
/// by names in that table.
template <class PlanType, const auto& Modules>
struct PlanFor : std::conditional_t<detail::is_plan<PlanType>, PlanType, Plan<>> {
  using Given = std::conditional_t<detail::is_plan<PlanType>, PlanType, Plan<>>;
  static constexpr bool lists(std::string_view name) {
    return std::any_of(Modules.begin(), Modules.end(),
                       [=](const ModuleName& module) { return module.name == name; });
  }
  template <FixedString Module>
  static constexpr auto style_for() {
    static_assert(lists(Module.view()), "the model's table of modules lacks a module that the model has");
    return Given::template style_for<Module>();
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

template <class Style, class Extra>
struct StyleAnd : TypeIs<Styles<Style, Extra>> {};
template <class... Parts, class Extra>
struct StyleAnd<Styles<Parts...>, Extra> : TypeIs<Styles<Parts..., Extra>> {};
template <class Extra>
struct StyleAnd<NoParallel, Extra> : TypeIs<typename Use<"", Extra>::StyleOf> {};
template <class PlanType, FixedString Module, class Extra>
struct StyleAnd<NoStyle<PlanType, Module>, Extra> : TypeIs<NoStyle<PlanType, Module>> {};
template <class Style, class Extra>
  requires requires { typename Style::ArgumentsOf; }
struct StyleAnd<Style, Extra> : TypeIs<Style> {};

/// The error for constructing a module that a plan does not name: it states the module's name and the nearest name
/// in the plan, which may belong to another module.
template <class MeshType, ModuleKind Kind, class PlanType, FixedString Module, class... Rest>
  requires(is_layer(Kind) && Kind != ModuleKind::dropout)
struct StyleProblem<MeshType, Kind, NoStyle<PlanType, Module>, Rest...> {
  struct Wanted {
    static constexpr std::string_view value = Module.view();
  };
  static constexpr std::string_view nearest() {
    constexpr auto& names = PlanType::names;
    const auto distance = [](std::string_view name) { return edit_distance(name, Wanted::value); };
    return names.empty() ? std::string_view() : *std::ranges::min_element(names, {}, distance);
  }
  struct Nearest {
    static constexpr std::string_view value = nearest();
  };
  using type = layout_error<Reason::plan_leaves_a_module_without_a_style, Expected<name_type<Wanted>>,
                            Got<name_type<Nearest>>>;
};

}  // namespace detail

/// A plan in which every layer also has the style `Extra`, such as `FullyShard<dp>`.
template <class PlanType, class Extra = void>
struct PlanWith : PlanType {
  template <std::size_t Entry>
  using StyleAt = typename detail::StyleAnd<typename PlanType::template StyleAt<Entry>, Extra>::type;

  template <FixedString Module>
  static constexpr auto style_for() {
    using Style = typename decltype(PlanType::template style_for<Module>())::type;
    return detail::TypeIs<typename detail::StyleAnd<Style, Extra>::type>{};
  }
};

/// Not a plan: see `plan_problem`.
template <class NoPlan, class Extra>
  requires(!detail::is_plan<NoPlan>)
struct PlanWith<NoPlan, Extra> {};

namespace detail {
template <class NoPlan, class... More>
struct PlanAndMore : TypeIs<NoPlan> {};
template <class... Uses, class... More>
struct PlanAndMore<Plan<Uses...>, More...> : TypeIs<Plan<Uses..., More...>> {};
template <class PlanType, class Extra, class... More>
struct PlanAndMore<PlanWith<PlanType, Extra>, More...>
    : TypeIs<PlanWith<typename PlanAndMore<PlanType, More...>::type, Extra>> {};
}  // namespace detail

/// A plan with additional entries. A style that was added to all entries of the plan is added to these as well.
template <class PlanType, class... More>
using PlanAnd = typename detail::PlanAndMore<PlanType, More...>::type;

/// The style of a module in a plan. A module with parameters that the plan does not name cannot be constructed.
template <class PlanType, FixedString Module>
using style_of = typename decltype(PlanType::template style_for<Module>())::type;

}  // namespace shardwise
