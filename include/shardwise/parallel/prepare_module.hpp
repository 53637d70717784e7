// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Styles for modules other than layers: they redistribute the arguments of a call, its results, or both, along the
/// axes that they name; the module itself is unchanged.
///
/// ```
/// Prepared<MyAttention, PrepareModuleInput<tp, Reduced, Unchanged>> attention(mesh, …);
/// auto y = attention(x, mask);   // x is redistributed, the mask is passed unchanged
/// ```
/// Give one placement per argument; `Unchanged` and further arguments are passed through. For a module that returns
/// a tuple, give one placement per element. `PrepareModuleInput<tp, communicate_as<Eigen::bfloat16>, Reduced>`
/// communicates in bfloat16.

#include <shardwise/layout/diagnosis.hpp>
#include <shardwise/module/module.hpp>
#include <shardwise/parallel/style_problem.hpp>
#include <shardwise/parallel/styled.hpp>

namespace shardwise {

/// Instead of a placement: passes the argument or result through.
struct Unchanged {};

namespace detail {
template <class... Placements>
struct PlacementList {
  static constexpr std::size_t count = sizeof...(Placements);
  /// `Unchanged` beyond the end.
  template <std::size_t I>
  using at = std::tuple_element_t<std::min(I, count), std::tuple<Placements..., Unchanged>>;
};
}  // namespace detail

/// Lists of placements or `Unchanged`: for a call's arguments, and for its results.
template <class... Placements>
struct arguments : detail::PlacementList<Placements...> {};
template <class... Placements>
struct results : detail::PlacementList<Placements...> {};

/// Redistributes arguments and results; the two below, only one of them.
template <StyleAxes Axes, class Arguments, class Results, class Communication = detail::CommunicateAsStored>
struct PrepareModuleInputOutput {
  using NamedAxes = typename detail::AxesNamed<Axes>::type;
  using ArgumentsOf = Arguments;
  using ResultsOf = Results;
  using MessagesOf = Communication;
  static constexpr bool suits(ModuleKind kind) { return !detail::is_layer(kind); }
};
template <StyleAxes Axes, class... Placements>
struct PrepareModuleInput : PrepareModuleInputOutput<Axes, arguments<Placements...>, results<>> {};
template <StyleAxes Axes, class... Placements>
struct PrepareModuleOutput : PrepareModuleInputOutput<Axes, arguments<>, results<Placements...>> {};
template <StyleAxes Axes, class F, class B, class... Placements>
struct PrepareModuleInput<Axes, communicate_as<F, B>, Placements...>
    : PrepareModuleInputOutput<Axes, arguments<Placements...>, results<>, communicate_as<F, B>> {};
template <StyleAxes Axes, class F, class B, class... Placements>
struct PrepareModuleOutput<Axes, communicate_as<F, B>, Placements...>
    : PrepareModuleInputOutput<Axes, arguments<>, results<Placements...>, communicate_as<F, B>> {};

namespace detail {

/// Argument or result number `I` of a call, redistributed as the style requires.
template <class Style, class List, std::size_t I, class X>
constexpr decltype(auto) prepared(X&& x) {
  using P = typename List::template at<I>;
  if constexpr (std::is_same_v<P, Unchanged>) {
    return std::forward<X>(x);
  } else {
    static_assert(Operand<X>, "this argument or result is not a tensor: give `Unchanged` in its place");
    using T = tensor_of<X>;
    if constexpr (IllFormed<T>) {
      return redistribute_to<T>(x);
    } else {
      using Problem = style_problem<typename T::MeshOf, ModuleKind::composite, Style>;
      if constexpr (IllFormed<Problem>) {
        return redistribute_to<Problem>(x);
      } else {
        constexpr Layout wanted = Layout::by_axis(T::MeshOf::axes, [](int axis) {
          const bool named = names_axis<typename T::MeshOf::AxesOf>(typename Style::NamedAxes{}, axis);
          return named ? placement_of<P> : T::layout[axis];
        });
        return redistribute_to<redistributed_by<Style, packed(wanted), X>>(
            std::forward<X>(x), CommunicationOf<Style>::type::types());
      }
    }
  }
}

template <class X>
inline constexpr bool is_tuple = false;
template <class... X>
inline constexpr bool is_tuple<std::tuple<X...>> = true;

}  // namespace detail

/// `M` with a style: constructed and visited like `M`, called with redistributed arguments and results.
template <class M, class Style>
class Prepared : public M, public Module<Prepared<M, Style>> {
  using Arguments = typename Style::ArgumentsOf;
  using Results = typename Style::ResultsOf;

 public:
  using M::M;
  using Module<Prepared>::operator();

  template <class... X>
  constexpr auto forward(X&&... x) const {
    static_assert(Arguments::count <= sizeof...(X), "more placements than arguments");
    return call(std::index_sequence_for<X...>(), std::forward<X>(x)...);
  }

 private:
  template <std::size_t... I, class... X>
  constexpr auto call(std::index_sequence<I...>, X&&... x) const {
    return give(M::operator()(detail::prepared<Style, Arguments, I>(std::forward<X>(x))...));
  }
  template <class Y>
  static constexpr auto give(Y y) {
    if constexpr (detail::is_tuple<Y>) {
      return give_each(std::move(y), std::make_index_sequence<std::tuple_size_v<Y>>());
    } else {
      return detail::prepared<Style, Results, 0>(std::move(y));
    }
  }
  template <class Y, std::size_t... I>
  static constexpr auto give_each(Y y, std::index_sequence<I...>) {
    static_assert(Results::count <= sizeof...(I), "more placements than results");
    return std::make_tuple(detail::prepared<Style, Results, I>(std::get<I>(std::move(y)))...);
  }
};

namespace detail {

template <class M, class Style>
struct Styled : TypeIs<M> {};
template <class M, class Style>
  requires requires { typename Style::ArgumentsOf; }
struct Styled<M, Style> : TypeIs<Prepared<M, Style>> {};
template <class M, class First, class... Rest>
struct Styled<M, Styles<First, Rest...>> : Styled<typename Styled<M, First>::type, Styles<Rest...>> {};

/// The value that a module receives, after its styles, for an argument `x` of a call.
template <class M>
constexpr auto taken_by(const M&, const auto& x) {
  return x;
}
template <class M, class Style>
constexpr auto taken_by(const Prepared<M, Style>& module, const auto& x) {
  return taken_by(static_cast<const M&>(module), prepared<Style, typename Style::ArgumentsOf, 0>(x));
}

}  // namespace detail

/// `M` with `Style`, if the style applies to it; else `M` itself.
template <class M, class Style>
using styled = typename detail::Styled<M, Style>::type;

}  // namespace shardwise
