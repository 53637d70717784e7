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
/// exactly once; anything else is a compile error that states the name: `plan_problem`. A slice names some elements of
/// a list, "layers.[:4].mlp.up" (parallel/slice.hpp); its entry counts there instead of one with `*`.

#include <shardwise/base/name.hpp>
#include <shardwise/layout/diagnosis.hpp>
#include <shardwise/parallel/prepare_module.hpp>
#include <shardwise/parallel/slice.hpp>
#include <shardwise/parallel/style.hpp>
#include <shardwise/parallel/zero.hpp>

namespace shardwise {

/// The name of a module for plans, with dots between its parts and `*` for the elements of a list.
struct ModuleName {
  std::string_view name;
  ModuleKind kind;
  bool sliced = false;  ///< a list, "layers.*", that is a `SlicedList`: plans may name slices of it
};

template <FixedString Name, class Style>
struct Use {
  static constexpr std::string_view name = Name.view();
  static constexpr detail::Slice slice = detail::slice_in(name);
  /// A type that is not a style is wrapped, so that a model can have it until `plan_problem` refuses it.
  using StyleOf = std::conditional_t<ParallelStyle<Style>, Style, Styles<Style>>;
};

namespace detail {

inline constexpr std::size_t no_entry = static_cast<std::size_t>(-1);

/// Whether an entry's name matches this module. A `*` matches any characters within one part, a slice the `*` of a
/// list.
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
    } else if (wanted == '[' && letter == '*') {
      while (e < none && entries[e] != ']') ++e;
      ++e, ++m;
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
  static constexpr std::array<detail::Slice, size> slices{Uses::slice...};
  static constexpr bool has_slices = (Uses::slice.given() || ...);

  /// The first entry, from `first` on, that names a module, in the elements from bound `at` on; `no_entry` if there is
  /// none. Those with a slice come first.
  static constexpr std::size_t entry_for(std::string_view module, int at = -1, std::size_t first = 0,
                                         bool in_slice = has_slices) {
    for (std::size_t i = first; i < size; ++i) {
      if (has_slices && (slices[i].given() != in_slice || (in_slice && !slices[i].has(at)))) continue;
      if (detail::names_module(names[i], module)) return i;
    }
    return in_slice && first == 0 ? entry_for(module, at, 0, false) : detail::no_entry;
  }
  /// Calls f with the names that may have slices.
  static constexpr void for_each_name([[maybe_unused]] auto f) { (f(Uses::name), ...); }
  template <std::size_t Entry>
  using StyleAt = typename std::tuple_element_t<Entry, std::tuple<Uses...>>::StyleOf;

  template <FixedString Module, int At>
  static constexpr auto style_for() {
    if constexpr (entry_for(Module.view(), At) == detail::no_entry) {
      return detail::TypeIs<NoStyle<Plan, Module>>{};
    } else {
      return detail::TypeIs<StyleAt<entry_for(Module.view(), At)>>{};
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
/// A plan's slices of `list`, such as "layers.*"; all slices if it is empty.
template <class PlanType>
constexpr std::vector<NamedSlice> slices_of(std::string_view list = {}) {
  std::vector<NamedSlice> found;
  PlanType::for_each_name([&](std::string_view name) {
    const Slice slice = slice_in(name);
    if (slice.given() && (list.empty() || names_module(up_to_slice(name), list)))
      found.push_back({name, slice});
  });
  return found;
}

/// Where groups of elements begin that no bound of a slice of `List`, or of any list, divides; -1 for those that no
/// slice has, so that all of these have one type.
template <class PlanType, FixedString List = "">
inline constexpr auto groups_in_plan = [] {
  constexpr std::size_t count = bounds_of(slices_of<PlanType>(List.view())).size() - 1;
  std::array<int, count> begins{};
  const auto slices = slices_of<PlanType>(List.view());
  const auto bounds = bounds_of(slices);
  for (std::size_t i = 0; i < count; ++i) {
    const auto has = [&](const NamedSlice& each) { return each.slice.has(bounds[i]); };
    begins[i] = std::any_of(slices.begin(), slices.end(), has) ? bounds[i] : -1;
  }
  return begins;
}();

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
  template <FixedString Module, int At>
  static constexpr auto style_for() {
    static_assert(lists(Module.view()), "the model's table of modules lacks a module that the model has");
    return Given::template style_for<Module, At>();
  }
};

/// The part of a plan for the modules below `Prefix`; in a list, for the elements from bound `At` on (see
/// `SlicedList`), or those that no slice names.
template <class PlanType, FixedString Prefix, int At = -1>
struct PlanBelow {
  /// Its bound, or else the one of a plan above it.
  static constexpr int at(int above) { return At == -1 ? above : At; }
  template <FixedString Module, int Above>
  static constexpr auto style_for() {
    return PlanType::template style_for<detail::dotted(Prefix, Module), at(Above)>();
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

/// Whether one of `names` names this module, or one that it is in, in the elements from bound `at` on.
constexpr bool is_within(std::string_view module, int at, std::initializer_list<std::string_view> names) {
  return std::any_of(names.begin(), names.end(), [=](std::string_view name) {
    if (name.find('[') != name.npos && !slice_in(name).has(at)) return false;
    for (std::size_t part = module.find('.');; part = module.find('.', part + 1)) {
      if (names_module(name, module.substr(0, part))) return true;
      if (part == module.npos) return false;
    }
  });
}

}  // namespace detail

/// A plan in which every layer also has the style `Extra`, such as `FullyShard<dp>`; or those within the modules that
/// `Where` names: `PlanWith<MyPlan, Frozen, "tokens", "layers.[:4]">`.
template <class PlanType, class Extra = void, FixedString... Where>
struct PlanWith : PlanType {
  /// Whether a module has the style `Extra`, in the elements from bound `at` on.
  static constexpr bool adds_to(std::string_view module, int at) {
    return sizeof...(Where) == 0 || detail::is_within(module, at, {Where.view()...});
  }
  static constexpr void for_each_name(auto f) {
    PlanType::for_each_name(f);
    (f(Where.view()), ...);
  }

  template <FixedString Module, int At>
  static constexpr auto style_for() {
    using Style = typename decltype(PlanType::template style_for<Module, At>())::type;
    if constexpr (adds_to(Module.view(), At)) {
      return detail::TypeIs<typename detail::StyleAnd<Style, Extra>::type>{};
    } else {
      return detail::TypeIs<Style>{};
    }
  }
};

/// Not a plan: see `plan_problem`.
template <class NoPlan, class Extra, FixedString... Where>
  requires(!detail::is_plan<NoPlan>)
struct PlanWith<NoPlan, Extra, Where...> {};

namespace detail {
template <class NoPlan, class... More>
struct PlanAndMore : TypeIs<NoPlan> {};
template <class... Uses, class... More>
struct PlanAndMore<Plan<Uses...>, More...> : TypeIs<Plan<Uses..., More...>> {};
template <class PlanType, class Extra, FixedString... Where, class... More>
struct PlanAndMore<PlanWith<PlanType, Extra, Where...>, More...>
    : TypeIs<PlanWith<typename PlanAndMore<PlanType, More...>::type, Extra, Where...>> {};
}  // namespace detail

/// A plan with additional entries. A style that was added to all entries of the plan is added to these as well.
template <class PlanType, class... More>
using PlanAnd = typename detail::PlanAndMore<PlanType, More...>::type;

/// The style of a module in a plan. A module with parameters that the plan does not name cannot be constructed.
template <class PlanType, FixedString Module, int At = -1>
using style_of = typename decltype(PlanType::template style_for<Module, At>())::type;

}  // namespace shardwise
