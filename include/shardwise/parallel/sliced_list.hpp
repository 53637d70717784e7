// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// A list of modules in which a plan may give slices other styles. Consecutive elements that no bound of a slice
/// divides are a group, and have one type. The list of a plan without slices is a `ModulesOf`.
///
/// ```
/// template <int At>
/// using LayerAt = Layer<MeshType, PlanBelow<Named, "layers.*", At>>;
/// ListOf<Named, "layers.*", LayerAt> layers;      // in the model's table: {"layers.*", ModuleKind::composite, true}
///
/// fill_list<Named, "layers.*">(layers, {.count = 12}, [&](auto& group, Index) { group.emplace_back(mesh); });
/// auto y = through_list(x, layers, [](const auto& in, const auto& layer, std::size_t) { return layer(in); });
/// ```

#include <shardwise/autograd/abstract.hpp>
#include <shardwise/module/sequential.hpp>
#include <shardwise/parallel/plan.hpp>

namespace shardwise {

/// A list of several groups. Names, files and checkpoints see one list.
template <class... Elements>
class SlicedList {
 public:
  /// References to the groups, each a `ModulesOf`.
  constexpr auto groups() { return std::apply(references, groups_); }
  constexpr auto groups() const { return std::apply(references, groups_); }
  constexpr std::size_t size() const {
    return std::apply([](const auto&... group) { return (group.size() + ...); }, groups_);
  }

 private:
  static constexpr auto references = [](auto&... group) { return std::tie(group...); };
  std::tuple<ModulesOf<Elements>...> groups_;
};

namespace detail {

/// The groups of a list.
template <class PlanType, FixedString List>
struct ListGroups {
  static constexpr auto begins = groups_in_plan<PlanType, List>;

  template <template <int> class Element, std::size_t... Group>
  static constexpr auto list(std::index_sequence<Group...>) {
    if constexpr (sizeof...(Group) == 1) {
      return TypeIs<ModulesOf<Element<begins[0]>>>{};
    } else {
      return TypeIs<SlicedList<Element<begins[Group]>...>>{};
    }
  }
};

template <class List>
inline constexpr std::size_t groups_in = std::tuple_size_v<decltype(std::declval<List&>().groups())>;
constexpr void for_each_group(auto& list, auto f) {
  std::apply([&](auto&... group) { (f(group), ...); }, list.groups());
}

}  // namespace detail

/// The type of a list: of its elements from bound `at` on, `Element<at>`.
template <class PlanType, FixedString List, template <int> class Element>
using ListOf = typename decltype(detail::ListGroups<PlanType, List>::template list<Element>(
    std::make_index_sequence<detail::ListGroups<PlanType, List>::begins.size()>()))::type;

/// The elements of a list to be made: all of `count`, or in a part of the model those from `first` to before `last`.
struct ListPart {
  Index count = 0;
  std::optional<Index> n{};     ///< in the plan's slices
  const char* name_of_n = "n";  ///< for errors
  Index first = 0, last = std::numeric_limits<Index>::max();
};

namespace detail {

/// The element at a bound of a slice.
constexpr Index element_at(int bound, const ListPart& part) {
  const bool from_end = bound > Slice::end / 2;
  const int distance = from_end ? Slice::end - bound : bound;
  const Index place = distance == Slice::n ? part.n.value_or(0) : distance;
  return from_end ? part.count - place : place;
}

[[noreturn, gnu::cold]] inline void fail_with_n(const ListPart& part) {
  fail({part.name_of_n, " is ", *part.n, ", but no slice of the plan has an n, as \"layers.[:n]\" would"});
}
/// Throws `std::invalid_argument` unless the slices fit the list.
constexpr void check_slices(const auto& slices, const ListPart& part) {
  bool has_n = false;
  for (const auto& [name, slice] : slices) {
    const Index first = element_at(slice.first, part), last = element_at(slice.last, part);
    has_n |= slice.has_n();
    if (slice.has_n() && !part.n)
      fail({"the plan names \"", name, "\", but no ", part.name_of_n, " is given"});
    if (first < 0 || last > part.count || first > last || (first == last && !slice.has_n())) {
      fail({"the plan names \"", name, "\", from ", first, " to before ", last, ", but the list has ",
            part.count, part.count == 1 ? " element" : " elements"});
    }
  }
  if (part.n && !has_n) fail_with_n(part);
  const std::vector<int> bounds = bounds_of(slices);
  for (std::size_t i = 0; i + 1 < bounds.size(); ++i) {
    const Index before = element_at(bounds[i], part), after = element_at(bounds[i + 1], part);
    if (before <= after) continue;
    std::string_view first, second;
    for (const auto& [name, slice] : slices) {
      if (slice.first == bounds[i] || slice.last == bounds[i]) first = name;
      if (slice.first == bounds[i + 1] || slice.last == bounds[i + 1]) second = name;
    }
    fail({"the plan names \"", first, "\" and \"", second,
          "\", whose bounds have another order in a list of ", part.count,
          " elements than in a long one: ", before, " comes after ", after});
  }
}

}  // namespace detail

/// Makes the elements of a list: add(group, i) adds number i to its group. Throws `std::invalid_argument` for a slice
/// beyond the list or without elements (one with an n may have none), for slices whose bounds do not have the order of
/// a long list, and for an n that is missing or not in the plan.
template <class PlanType, FixedString List>
constexpr void fill_list(auto& list, const ListPart& part, const auto& add) {
  const auto slices = detail::slices_of<PlanType>(List.view());
  if constexpr (detail::groups_in_plan<PlanType, List>.size() == 1) {  // what follows takes long to compile
    if (part.n) detail::fail_with_n(part);
  } else {
    detail::check_slices(slices, part);
  }
  const std::vector<int> bounds = detail::bounds_of(slices);
  const Index last = std::min(part.count, part.last);
  std::size_t number = 0;
  detail::for_each_group(list, [&](auto& group) {
    const Index begin = detail::element_at(bounds[number++], part),
                end = detail::element_at(bounds[number], part);
    const Index from = std::clamp(begin, part.first, last), to = std::clamp(end, part.first, last);
    group.first_number = static_cast<std::size_t>(from);
    group.reserve(static_cast<std::size_t>(to - from));
    for (Index i = from; i < to; ++i) add(group, i);
  });
}

namespace detail {

/// `x` as the result of an empty group whose layers return a `Y`.
template <class Y, Operand X>
constexpr Y passed_on(const X& x) {
  auto y = redistribute_to<tensor_of<Y>>(x);
  if constexpr (OperandTraits<Y>::tracked && !OperandTraits<decltype(y)>::tracked) {
    Tape& tape = y.tape();
    return tape.input(std::move(y).release());
  } else {
    return y;
  }
}
/// `x` in the layout of the elements of one of several groups, which may have a `take` for it.
template <class Element, class X>
constexpr decltype(auto) taken_by_group(const X& x) {
  if constexpr (requires { Element::take(x); }) {
    return Element::take(x);
  } else {
    return x;
  }
}

}  // namespace detail

/// The elements of a list in turn, from x on: call(in, element, i), where i counts the elements that are here. The
/// result of a group is redistributed to what `Element::take(x)` returns in the next one, if there is such a function.
/// Without elements, returns x; throws `std::invalid_argument` if their result would have another type.
template <std::size_t Group = 0, Operand X, class List>
constexpr auto through_list(const X& x, const List& list, const auto& call, std::size_t before = 0) {
  constexpr std::size_t groups = detail::groups_in<List>;
  const auto& group = std::get<Group>(list.groups());
  const auto step = [&](const auto& each, std::size_t i) { return call(each, group[i], before + i); };
  if constexpr (groups == 1) {
    using Y = decltype(repeat(x, group.size(), step));
    if constexpr (std::is_same_v<X, Y>) {
      if (group.empty()) return x;
    }
    return repeat(x, group.size(), step);
  } else {
    const auto through_group = [&](const auto& in) {
      using Y = decltype(repeat(in, group.size(), step));
      if constexpr (!AbstractOperand<X>) {
        if (group.empty()) return detail::passed_on<Y>(in);
      }
      return repeat(in, group.size(), step);
    };
    using Element = typename std::remove_cvref_t<decltype(group)>::value_type;
    auto y = through_group(detail::taken_by_group<Element>(x));
    if constexpr (Group + 1 == groups) {
      return y;
    } else {
      return through_list<Group + 1>(y, list, call, before + group.size());
    }
  }
}

}  // namespace shardwise
