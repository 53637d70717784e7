// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Styles for modules that are not layers: they redistribute the arguments of a call, its results, or both,
/// along the axes they name, and leave the module as it is.
///
/// ```
/// Prepared<MyAttention, PrepareModuleInput<tp, Reduced, Unchanged>> attention(mesh, …);
/// auto y = attention(x, mask);   // x is gathered (or whatever it takes), the mask is not touched
/// ```
/// One placement per argument; arguments beyond them, and those that are `Unchanged`, pass as they are. A
/// module that returns a tuple takes one placement per element.

#include <shardwise/layout/diagnosis.hpp>
#include <shardwise/module/module.hpp>
#include <shardwise/parallel/styled.hpp>

namespace shardwise {

/// In the place of a placement: leave it as it is.
struct Unchanged {};

/// Lists of placements, or `Unchanged`: of a call's arguments, and of its results.
template <class... Placements>
struct arguments {};
template <class... Placements>
struct results {};

template <StyleAxes Axes, class Arguments, class Results>
struct PrepareModuleInputOutput {
  using NamedAxes = typename detail::AxesNamed<Axes>::type;
  using ArgumentsOf = Arguments;
  using ResultsOf = Results;
  static constexpr bool suits(ModuleKind kind) { return kind == ModuleKind::composite; }
};
template <StyleAxes Axes, class... Placements>
struct PrepareModuleInput : PrepareModuleInputOutput<Axes, arguments<Placements...>, results<>> {};
template <StyleAxes Axes, class... Placements>
struct PrepareModuleOutput : PrepareModuleInputOutput<Axes, arguments<>, results<Placements...>> {};

namespace detail {

/// The layout of `X` with the placement `p` on all axes of a list.
template <class X, class... Named>
constexpr Layout prepared_layout(Placement p, AxisList<Named...>) {
  using AxesOf = typename X::MeshOf::AxesOf;
  return Layout::by_axis(X::MeshOf::axes, [=](int axis) {
    return ((AxesOf::template index<Named> == axis) || ...) ? p : X::layout[axis];
  });
}

/// What becomes of argument or result number `I` of type `X`: a type, or a `LayoutError`.
template <class X, class Style, class List, std::size_t I>
struct PreparedAs {
  using type = X;
};
template <class X, class Style, template <class...> class List, class First, class... Rest, std::size_t I>
  requires(I > 0)
struct PreparedAs<X, Style, List<First, Rest...>, I> : PreparedAs<X, Style, List<Rest...>, I - 1> {};
template <class X, class Style, template <class...> class List, class... Rest>
struct PreparedAs<X, Style, List<Unchanged, Rest...>, 0> {
  using type = X;
};
template <class X, class Style, template <class...> class List, PlacementTag First, class... Rest>
struct PreparedAs<X, Style, List<First, Rest...>, 0> {
  static_assert(is_tensor<X>, "this argument or result is no tensor: give `Unchanged` in its place");
  using Problem = style_problem<typename X::MeshOf, ModuleKind::composite, Style>;
  static constexpr auto type_of() {
    if constexpr (IllFormed<Problem>) {
      return TypeIs<Problem>{};
    } else {
      return RedistributedTo<X,
                             packed(prepared_layout<X>(placement_of<First>, typename Style::NamedAxes{}))>{};
    }
  }
  using type = typename decltype(type_of())::type;
};

template <class X>
struct TensorOrSelf {
  using type = X;
};
template <Operand X>
struct TensorOrSelf<X> {
  using type = tensor_of<X>;
};
template <class X, class Style, class List, std::size_t I>
using prepared_as = typename PreparedAs<typename TensorOrSelf<X>::type, Style, List, I>::type;

/// Argument or result number `I`, redistributed.
template <class Style, class List, std::size_t I, class X>
constexpr decltype(auto) prepared(X&& x) {
  using Bare = std::remove_cvref_t<X>;
  if constexpr (TensorOperand<Bare>) {
    return redistribute_to<prepared_as<Bare, Style, List, I>>(std::forward<X>(x));
  } else {
    return std::forward<X>(x);
  }
}

template <class List>
inline constexpr std::size_t placements_in = 0;
template <template <class...> class List, class... Placements>
inline constexpr std::size_t placements_in<List<Placements...>> = sizeof...(Placements);

/// What a module says it makes of an `X`.
template <class Module, class X>
struct ModuleResult {
  using type = typename Module::template ResultOf<X>;
};

template <class X>
inline constexpr bool is_tuple = false;
template <class... X>
inline constexpr bool is_tuple<std::tuple<X...>> = true;

/// The first problem with what a call gives, or `void`.
template <class Style, class Y>
struct ResultProblem : AllWellFormed<prepared_as<Y, Style, typename Style::ResultsOf, 0>, void> {};
template <class Style, IllFormed Why>
struct ResultProblem<Style, Why> {
  using type = Why;
};
template <class Style, class Indices, class... Y>
struct ResultsProblem;
template <class Style, std::size_t... I, class... Y>
struct ResultsProblem<Style, std::index_sequence<I...>, Y...>
    : AllWellFormed<prepared_as<Y, Style, typename Style::ResultsOf, I>..., void> {
  static_assert(placements_in<typename Style::ResultsOf> <= sizeof...(Y), "more placements than results");
};
template <class Style, class... Y>
struct ResultProblem<Style, std::tuple<Y...>> : ResultsProblem<Style, std::index_sequence_for<Y...>, Y...> {};

/// The first problem with a call of a module behind a style: with an argument, with the call itself, with a
/// result; or `void`.
template <class Module, class Style, class Indices, class... X>
struct CallProblem;
template <class Module, class Style, std::size_t... I, class... X>
struct CallProblem<Module, Style, std::index_sequence<I...>, X...> {
  using List = typename Style::ArgumentsOf;
  using Arguments =
      typename AllWellFormed<prepared_as<std::remove_cvref_t<X>, Style, List, I>..., void>::type;
  static constexpr auto type_of() {
    if constexpr (IllFormed<Arguments>) {
      return TypeIs<Arguments>{};
    } else {
      static_assert(placements_in<List> <= sizeof...(X), "more placements than arguments");
      static_assert(
          std::is_invocable_v<const Module&, decltype(prepared<Style, List, I>(std::declval<X>()))...>,
          "the module cannot be called with these arguments");
      using Y = decltype(std::declval<const Module&>()(prepared<Style, List, I>(std::declval<X>())...));
      return ResultProblem<Style, Y>{};
    }
  }
  using type = typename decltype(type_of())::type;
};

}  // namespace detail

/// `Module` behind a style: constructed and visited as it is, called with arguments and results redistributed.
template <class Module, class Style>
class Prepared : public Module {
 public:
  using Module::Module;

  template <class X>
  using TakenIn = detail::prepared_as<X, Style, typename Style::ArgumentsOf, 0>;
  template <class X>
  using Computed = typename detail::ModuleResult<Module, X>::type;
  template <class Y>
  using GivenOut = detail::prepared_as<Y, Style, typename Style::ResultsOf, 0>;
  /// What a call with an `X` gives, or the `LayoutError` that says why none, if the module says so too.
  template <class X>
  using ResultOf = detail::through<X, TakenIn, Computed, GivenOut>;
  template <class... X>
  using Problem = typename detail::CallProblem<Module, Style, std::index_sequence_for<X...>, X...>::type;

  template <class... X, class Why = Problem<X...>>
    requires WellFormed<Why>
  constexpr auto operator()(X&&... x) const {
    return call(std::index_sequence_for<X...>(), std::forward<X>(x)...);
  }
  template <class... X, IllFormed Why = Problem<X...>>
  Why operator()(X&&...) const;  // see Why

 private:
  template <std::size_t... I, class... X>
  constexpr auto call(std::index_sequence<I...>, X&&... x) const {
    return give(
        Module::operator()(detail::prepared<Style, typename Style::ArgumentsOf, I>(std::forward<X>(x))...));
  }
  template <class Y>
  static constexpr auto give(Y y) {
    if constexpr (detail::is_tuple<Y>) {
      return give_each(std::move(y), std::make_index_sequence<std::tuple_size_v<Y>>());
    } else {
      return detail::prepared<Style, typename Style::ResultsOf, 0>(std::move(y));
    }
  }
  template <class Y, std::size_t... I>
  static constexpr auto give_each(Y y, std::index_sequence<I...>) {
    return std::make_tuple(
        detail::prepared<Style, typename Style::ResultsOf, I>(std::get<I>(std::move(y)))...);
  }
};

namespace detail {

template <class Module, class Style>
struct Styled {
  using type = Module;
};
template <class Module, class Style>
  requires requires { typename Style::ArgumentsOf; }
struct Styled<Module, Style> {
  using type = Prepared<Module, Style>;
};
template <class Module, class First, class... Rest>
struct Styled<Module, Styles<First, Rest...>>
    : Styled<typename Styled<Module, First>::type, Styles<Rest...>> {};

/// What a module gets of an `X` that it is called with: itself, or what the style before the module makes of it.
template <class Module>
struct TakenBy {
  template <class X>
  using Input = X;
};
template <class Module, class Style>
struct TakenBy<Prepared<Module, Style>> {
  template <class X>
  using Input = through<X, Prepared<Module, Style>::template TakenIn, TakenBy<Module>::template Input>;
};

}  // namespace detail

/// `Module` behind `Style`, if that is a style for it; else `Module` itself.
template <class Module, class Style>
using styled = typename detail::Styled<Module, Style>::type;

}  // namespace shardwise
