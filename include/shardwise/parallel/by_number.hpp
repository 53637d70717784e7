// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Lists of modules of which a plan names some by number, "layers.3.attention.wq": these have types of their own.
///
/// ```
/// template <class Below, class Style>
/// using LayerWith = styled<Layer<MeshType, Below>, Style>;
/// ModulesOf<ByNumber<PlanFor<PlanType, modules>, "layers", LayerWith>> layers;   // where modules has "layers.*", by number
///
/// layers.make(count, count, mesh);                // Layer<…>(mesh), so often
/// auto y = sequential(x, layers);
/// layers[3].with([](auto& layer) { … });          // the layer itself
/// ```
/// If the plan names none by number, `ByNumber` is the layer's own type. Each number that it names is one type more to compile.

#include <shardwise/layout/diagnosis.hpp>
#include <shardwise/module/parameters.hpp>
#include <shardwise/parallel/plan.hpp>

namespace shardwise {

namespace detail {

/// An operand with a gradient, if others in its place have one: that of this one goes nowhere.
template <bool Tracked, class Y>
constexpr auto tracked_if(Y y) {
  if constexpr (Tracked && !OperandTraits<Y>::tracked) {
    return y.tape().input(std::move(y).release());
  } else {
    return y;
  }
}

/// What calls of several modules give, the first of which is for most elements: the type of all, or the first error.
template <class First, class... Rest>
struct GivenByAll {
  using Y = tensor_of<First>;
  static constexpr bool tracked = (OperandTraits<First>::tracked || ... || OperandTraits<Rest>::tracked);

  template <class Other>
  static constexpr auto differs() {
    if constexpr (IllFormed<Y> || std::is_same_v<Other, Y>) {
      return TypeIs<void>{};
    } else if constexpr (IllFormed<Other>) {
      return TypeIs<Other>{};
    } else {
      return Refused<Reason::layer_gives_another_layout_than_it_takes, Expected<Y>, Got<Other>>{};
    }
  }
  using Error = typename FirstError<Y, typename decltype(differs<tensor_of<Rest>>())::type...>::type;
  using type = std::conditional_t<std::is_void_v<Error>, Abstract<Y, OperandTraits<First>::on_tape, tracked>,
                                  Abstract<Error, false, false>>;
};

}  // namespace detail

/// The module of this number in a list.
template <std::size_t Number, class M>
struct AtNumber {
  static constexpr std::size_t number = Number;
  using ModuleOf = M;
};

/// An element of a list: an `Others`, unless it has one of the numbers that the plan `PlanType` gives. As a module it is
/// what it holds, so its parameters have the same names. All must give the same layout of the same input.
template <class PlanType, FixedString List, class Others, class... Some>
class OneOf : public Module<OneOf<PlanType, List, Others, Some...>> {
 public:
  /// Throws `std::invalid_argument` if the plan names an element that a list of `count` does not have.
  static constexpr void check_numbers(std::size_t count) {
    constexpr auto named = PlanType::template numbers_of<List>();
    for (std::size_t i = 0; i < named.count; ++i) {
      if (named.numbers[i] < count) continue;
      detail::fail({"the plan names \"", named.names[i], "\", but the model has ", count, " ", List.view(),
                    ", of which the first is number 0"});
    }
  }

  constexpr OneOf(NumberedAs as, const auto&... arguments) {
    const auto make = [&]<std::size_t... I>(std::index_sequence<I...>) {
      const bool made =
          ((as.number == Some::number && (std::get<I + 1>(held_).emplace(arguments...), true)) || ...);
      if (!made) std::get<0>(held_).emplace(arguments...);
    };
    make(std::index_sequence_for<Some...>());
  }

  /// f(module), of the one that it is; f gives the same type for each.
  constexpr decltype(auto) with(auto&& f) { return with_from<0>(held_, f); }
  constexpr decltype(auto) with(auto&& f) const { return with_from<0>(held_, f); }

  template <class... X>
  constexpr auto forward(X&&... x) const {
    using All = detail::GivenByAll<decltype(std::declval<const Others&>()(std::forward<X>(x)...)),
                                   decltype(std::declval<const typename Some::ModuleOf&>()(
                                       std::forward<X>(x)...))...>;
    if constexpr ((AbstractOperand<X> || ...)) {
      return typename All::type();
    } else {
      return with([&](const auto& module) {
        return detail::tracked_if<All::tracked>(module(std::forward<X>(x)...));
      });
    }
  }

  constexpr void visit(auto&& f) {
    with([&](auto& module) { module.visit(f); });
  }

 private:
  template <std::size_t I>
  static constexpr decltype(auto) with_from(auto& held, auto& f) {
    auto& module = std::get<I>(held);
    if constexpr (I < sizeof...(Some)) {
      if (!module) return with_from<I + 1>(held, f);
    }
    return f(*module);
  }

  std::tuple<std::optional<Others>, std::optional<typename Some::ModuleOf>...> held_;
};

namespace detail {

template <class PlanType, FixedString List, template <class, class> class Element, class Numbers>
struct ElementByNumber;
template <class PlanType, FixedString List, template <class, class> class Element, std::size_t... I>
struct ElementByNumber<PlanType, List, Element, std::index_sequence<I...>> {
  template <FixedString Name>
  using Named = Element<PlanBelow<PlanType, dotted(List, Name)>, style_of<PlanType, dotted(List, Name)>>;
  static constexpr auto numbers = PlanType::template numbers_of<List>().numbers;
  using type = OneOf<PlanType, List, Named<FixedString("*")>,
                     AtNumber<numbers[I], Named<number_name<numbers[I]>()>>...>;
};
template <class PlanType, FixedString List, template <class, class> class Element>
struct ElementByNumber<PlanType, List, Element, std::index_sequence<>> {
  static constexpr auto name = dotted(List, FixedString("*"));
  using type = Element<PlanBelow<PlanType, name>, style_of<PlanType, name>>;
};

/// The module that an element of a list is, mostly.
template <class M>
struct ElementType {
  using type = M;
};
template <class PlanType, FixedString List, class Others, class... Some>
struct ElementType<OneOf<PlanType, List, Others, Some...>> {
  using type = Others;
};
template <class M>
using element_type = typename ElementType<M>::type;

}  // namespace detail

/// The element of a list that plans call `List`: `Element<plan below it, its style>`; or, where the plan names elements by
/// number, one of that and theirs.
template <class PlanType, FixedString List, template <class, class> class Element>
using ByNumber = typename detail::ElementByNumber<
    PlanType, List, Element,
    std::make_index_sequence<decltype(PlanType::template numbers_of<List>())::count>>::type;

}  // namespace shardwise
