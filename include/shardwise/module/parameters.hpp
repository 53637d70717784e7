// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The parameters of a module, found through its `visit(f)`, which calls f(name, child) for each parameter or
/// submodule, also in a list, a tuple, an optional or a pointer. Initialisation, optimizers, weights and
/// checkpoints use it.

#include <shardwise/base/bodies.hpp>
#include <shardwise/base/hash.hpp>
#include <shardwise/guard/same_on_all_ranks.hpp>
#include <shardwise/module/visit_problem.hpp>

namespace shardwise {

/// A module distributed over ranks, such as the stages of a pipeline. Two parts may each have a copy of a parameter
/// with the same name.
template <class M>
concept DividedModule = M::divided;

/// A consecutive part of a longer list of modules; names use the numbers of the whole list, from `first_number` on.
template <class M>
struct ModulesOf : std::vector<M> {
  std::size_t first_number = 0;

  /// This list alone: see `SlicedList`.
  constexpr auto groups() { return std::tie(*this); }
  constexpr auto groups() const { return std::tie(*this); }

  /// Constructs `count` elements, each with these arguments.
  constexpr void make(std::size_t count, const auto&... arguments) {
    this->reserve(count);
    for (std::size_t i = 0; i < count; ++i) this->emplace_back(arguments...);
  }
};

namespace detail {

/// A position in a walk through a module: member `name`, or element `number`, of the object at `above`. The text is
/// built only on request.
struct ParameterPath {
  const ParameterPath* above = nullptr;
  const char* name = nullptr;
  std::size_t number = 0;

  std::string text() const;
};

/// Walks through a module by its `visit`, and calls `visitor(path, it)` for objects that the visitor `wants`. The class
/// does not depend on the module, so the code for a submodule's type is compiled once, wherever such modules occur.
template <class Visitor>
struct ModuleWalk {
  Visitor& visitor;
  const ParameterPath* above = nullptr;

  template <class M>
  constexpr void operator()(const char* name, M& member) const {
    const ParameterPath here{above, name};
    enter(member, &here);
  }
  template <class M>
  constexpr void enter(M& module, const ParameterPath* here) const {
    constexpr bool can_change = !std::is_const_v<M>;
    static_assert(can_change,
                  "this model is const, so its parameters cannot be initialised, trained or loaded");
    if constexpr (!can_change) {
      return;
    } else if constexpr (Visitor::template wants<M>) {
      visitor(here, module);
    } else if constexpr (requires { module.begin(); }) {
      ParameterPath element{here};
      if constexpr (requires { module.first_number; }) element.number = module.first_number;
      for (auto& each : module) {
        enter(each, &element);
        ++element.number;
      }
    } else if constexpr (requires { module.groups(); }) {
      std::apply([&](auto&... group) { (enter(group, here), ...); }, module.groups());
    } else if constexpr (PointsToModule<M>) {
      if (module) enter(*module, here);
    } else if constexpr (requires { std::tuple_size<M>::value; }) {
      ParameterPath element{here};
      std::apply([&](auto&... each) { ((enter(each, &element), ++element.number), ...); }, module);
    } else if constexpr (!is_parameter<M>) {
      static_assert(!CallsItsBase<M>,
                    "a call of this module runs the forward of its base class: derive it from Module of "
                    "itself too, and write `using Module<…>::operator();`");
      const ModuleWalk below{visitor, here};
      constexpr bool has_visit = requires { module.visit(below); };
      static_assert(
          has_visit,
          "visit names parameters, modules, and lists, tuples, optionals and pointers of them: leave this "
          "out; or, if it is a module, give it `void visit(auto&& f) { f(\"up\", up); f(\"down\", down); }`");
      if constexpr (has_visit) module.visit(below);
    }
  }
};

template <class M, class Visitor>
constexpr void walk(M& module, Visitor&& visitor) {
  ModuleWalk<std::remove_reference_t<Visitor>>{visitor}.enter(module, nullptr);
}

template <class F>
struct ForEachParameter {
  template <class M>
  static constexpr bool wants = is_parameter<M>;
  F f;

  constexpr void operator()(const ParameterPath* path, auto& parameter) const { f(path, parameter); }
};
template <class F>
ForEachParameter(F) -> ForEachParameter<F>;

}  // namespace detail

/// Calls f(parameter) for every parameter of a module, in the order of `visit`.
template <class M, class F>
constexpr void for_each_parameter(M& module, F&& f) {
  detail::walk(module, detail::ForEachParameter{[&](const auto*, auto& parameter) { f(parameter); }});
}

/// Calls f(path, parameter) for every parameter, with its dotted path: "blocks.0.attention.wq.weight".
template <class M, class F>
void for_each_named_parameter(M& module, F&& f) {
  detail::walk(module, detail::ForEachParameter{[&](const auto* path, auto& parameter) {
                 f(std::string_view(path ? path->text() : ""), parameter);
               }});
}

namespace detail {  // lists of parameters: code on them is compiled once for all modules

struct NamedParameter {
  std::string name;  ///< its path: "layers.0.attention.wq.weight"
  ParameterState* cell;
};

using ParameterList = std::vector<ParameterState*, PoolAllocator<ParameterState*>>;

struct CollectParameters {
  template <class M>
  static constexpr bool wants = is_parameter<M>;
  ParameterList* cells = nullptr;
  std::vector<NamedParameter>* named = nullptr;

  [[gnu::always_inline]] constexpr void operator()(const ParameterPath* path, auto& parameter) const {
    add(path, *parameter.cell());
  }
  SHARDWISE_ONCE(void, add, (const ParameterPath* path, ParameterState& cell) const, (path, cell),
                 add_here(path, cell))
  constexpr void add_here(const ParameterPath* path, ParameterState& cell) const {
    cell.await();
    cell.named |= path != nullptr;
    if (cells) cells->push_back(&cell);
    if (named) add_named(path, cell);
  }
  void add_named(const ParameterPath* path, ParameterState& cell) const;
};

/// In the order of `visit`; a parameter that is visited several times is repeated. Waits for values in flight.
template <class M>
constexpr ParameterList parameters_of(M& module) {
  ParameterList all;
  all.reserve(512);  // 4 KiB: growing would dominate the work, also at compile time
  detail::walk(module, CollectParameters{.cells = &all});
  return all;
}
template <class M>
std::vector<NamedParameter> named_parameters_of(M& module) {
  std::vector<NamedParameter> all;
  detail::walk(module, CollectParameters{.named = &all});
  return all;
}

inline ParameterState& cell_of(const NamedParameter& parameter) { return *parameter.cell; }
constexpr ParameterState& cell_of(ParameterState* cell) { return *cell; }

/// Each parameter once, under its first name.
template <class List>
constexpr List distinct(List all) {
  for (auto& parameter : all) cell_of(parameter).seen = false;
  List once;
  for (auto& parameter : all) {
    if (!std::exchange(cell_of(parameter).seen, true)) once.push_back(std::move(parameter));
  }
  return once;
}

constexpr Index count_elements(ParameterList cells, bool frozen_too) {
  Index count = 0;
  for (const ParameterState* cell : distinct(std::move(cells))) {
    if (frozen_too || cell->layouts.trained())
      count += elements(cell->stored.shape) * numbers_in(cell->stored.type);
  }
  return count;
}

}  // namespace detail

/// Derives a seed for each name from a common seed (FNV-1a, then SplitMix64's finaliser).
constexpr std::uint64_t derived_seed(std::uint64_t seed, std::string_view name) {
  detail::Fnv1a of_name;
  of_name.value ^= seed;
  of_name.add(name);
  std::uint64_t hash = of_name.value;
  hash = (hash ^ (hash >> 30)) * 0xbf58476d1ce4e5b9u;
  hash = (hash ^ (hash >> 27)) * 0x94d049bb133111ebu;
  return hash ^ (hash >> 31);
}

namespace detail {

void initialize_all(std::vector<NamedParameter> parameters, std::uint64_t seed, bool divided);

}  // namespace detail

/// Draws the initial value of every parameter, each from a seed derived from its (first) path: the same model on
/// every mesh. On a dry mesh it does nothing. The seed must be the same on all ranks, which is checked only with
/// SHARDWISE_CHECK=1. Throws `std::invalid_argument` if two parameters have the same name.
template <class M, class Problem = detail::visit_problem<M>>
constexpr void initialize(M& module, std::uint64_t seed) {
  if (!__builtin_is_constant_evaluated())
    detail::initialize_all(detail::named_parameters_of(module), seed, DividedModule<M>);
}

template <class M, IllFormed Why = detail::visit_problem<M>>
Why initialize(M&, std::uint64_t);  // see Why
template <class M, IllFormed Why = WrittenOtherwise<Hint::pass_a_seed_as_the_next_argument>>
Why initialize(const M&);  // see Why
template <class M, IllFormed Why = WrittenOtherwise<Hint::pass_Init_to_the_modules_and_a_seed_here>>
Why initialize(const M&, const Init&, std::uint64_t = 0);  // see Why

/// From now on messages for the parameters of `module` use other element types. `forward`: messages that gather fully
/// sharded parameters for use, in both passes (the converted values are then computed with), and those that carry rows
/// of a sharded table. `backward`: messages that reduce gradients. Stored, updated and saved values keep their type,
/// and so do whole parameters that a step of `Zero<1>` or `Zero<2>` gathers after the update. Must be the same on all
/// ranks; for a parameter that modules share, the last call counts. Throws `std::invalid_argument` for integer types.
template <class M>
constexpr void set_communication(M& module, DataType forward, DataType backward) {
  const detail::Communication types{true, forward, backward};
  for (const DataType type : {forward, backward}) {
    if (!is_floating(type))
      throw std::invalid_argument("set_communication: parameters cannot be communicated as integers");
  }
  for (detail::ParameterState* cell : detail::parameters_of(module))
    if (!cell->layouts.counted && is_floating(cell->stored.type))  // rounded counts would depend on the mesh
      cell->communication = types;
}
template <class M, class Forward, class Backward>
constexpr void set_communication(M& module, communicate_as<Forward, Backward> as) {
  static_assert(as.is_possible, "parameters are communicated as float, double or Eigen::bfloat16");
  set_communication(module, as.types().forward, as.types().backward);
}

/// From now on the parameters of `module` have at most this ZeRO level on the axes where they have 1 or 2 (`Zero<1>`,
/// `Zero<2>`): so one compiled model serves several levels. Gradients and optimizer state have other layouts then,
/// which are not those of the types. Must be the same on all ranks, and precede the first backward pass and the
/// optimizer's state. Throws `std::logic_error` if a parameter has a gradient.
template <class M>
constexpr void lower_zero_level(M& module, int level) {
  for (detail::ParameterState* cell : detail::parameters_of(module)) cell->lower_zero_level(level);
}

/// Global number of numbers in all parameters. A parameter with several names counts once.
template <class M>
constexpr Index parameter_count(M& module) {
  return detail::count_elements(detail::parameters_of(module), true);
}
/// The same without frozen parameters.
template <class M>
constexpr Index trained_parameter_count(M& module) {
  return detail::count_elements(detail::parameters_of(module), false);
}

}  // namespace shardwise

#ifdef SHARDWISE_BODIES
#include <set>

namespace shardwise::detail {

SHARDWISE_INLINE std::string ParameterPath::text() const {
  const TextPart own = name ? TextPart(name) : TextPart(number);
  const std::string before = above ? above->text() : std::string();
  return before.empty() ? detail::text({own}) : detail::text({before, ".", own});
}

SHARDWISE_INLINE void CollectParameters::add_named(const ParameterPath* path, ParameterState& cell) const {
  named->push_back({path ? path->text() : "", &cell});
}

SHARDWISE_INLINE void initialize_all(std::vector<NamedParameter> parameters, std::uint64_t seed,
                                     bool divided) {
  const std::vector<NamedParameter> all = distinct(std::move(parameters));
  std::set<std::string_view> names;
  for (const NamedParameter& parameter : all) {
    if (!names.insert(parameter.name).second && !divided)
      fail({"two parameters of a module have the name \"", parameter.name,
            "\": they would get the same first value"});
  }
  if (all.empty()) return;
  check_same_on(all.front().cell->stored.mesh, "initialize", "seed", seed);
  for (const NamedParameter& parameter : all) parameter.cell->initialize(derived_seed(seed, parameter.name));
}

}  // namespace shardwise::detail
#endif
