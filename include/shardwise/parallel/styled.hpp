// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// From a style to tensor types: how the parameters of a styled module lie on a mesh, what it makes of its
/// input, and what of its result.

#include <shardwise/layout/diagnosis.hpp>

#include <shardwise/autograd/redistribute.hpp>
#include <shardwise/module/parameter.hpp>
#include <shardwise/parallel/style.hpp>

namespace shardwise {

namespace detail {

/// Calls `f` with the part of the style that names axis `axis` of a mesh, if there is one. (A style for
/// composite modules has no answers for parameters.)
template <class Style>
struct StylePart {
  template <class Axes, class F>
  static constexpr void naming(int axis, F f) {
    if constexpr (requires { Style::bias(); }) {
      if (names<Axes>(typename Style::NamedAxes{}, axis)) f(Style{});
    }
  }
  template <class Axes, class... Named>
  static constexpr bool names(AxisList<Named...>, int axis) {
    return ((Axes::template index<Named> == axis) || ...);
  }
};
template <class... Parts>
struct StylePart<Styles<Parts...>> {
  template <class Axes, class F>
  static constexpr void naming(int axis, F f) {
    (StylePart<Parts>::template naming<Axes>(axis, f), ...);
  }
};

/// What a style answers for an axis: `answer(part)`, or `otherwise` if it does not name the axis.
template <class Style, class MeshType, class F>
constexpr Placement style_answer(int axis, Placement otherwise, F answer) {
  Placement result = otherwise;
  StylePart<Style>::template naming<typename MeshType::AxesOf>(axis,
                                                               [&](auto part) { result = answer(part); });
  return result;
}

/// How a parameter lies on an axis that its style does not name.
template <class MeshType>
constexpr Placement unnamed(int axis) {
  return MeshType::AxesOf::data[static_cast<std::size_t>(axis)] ? reduced : replicate;
}

/// On data axes a module's input is used with parameters that are `Reduced`; the cast is free.
template <class MeshType>
constexpr Placement entering(int axis, Placement found) {
  return MeshType::AxesOf::data[static_cast<std::size_t>(axis)] && found == replicate ? reduced : found;
}

/// What a style shards of parameters along an axis: see `Zero`.
template <class Style, class MeshType>
constexpr int zero_level(int axis) {
  int level = 0;
  StylePart<Style>::template naming<typename MeshType::AxesOf>(axis, [&](auto part) {
    if constexpr (requires { decltype(part)::level; }) level = decltype(part)::level;
  });
  return level;
}

/// Could one dimension be cut on all axes that a style shards over?
template <class Style, class MeshType>
constexpr bool style_levels_nest() {
  return []<int... Axes>(std::integer_sequence<int, Axes...>) {
    return levels_nest<zero_level<Style, MeshType>(Axes)...>();
  }
  (std::make_integer_sequence<int, MeshType::axes>{});
}

/// The first axis that a style names and the mesh lacks, as an `AxisList`; else `void`.
template <class MeshType, class Named>
struct MissingAxis {
  using type = void;
};
template <class MeshType, class First, class... Rest>
struct MissingAxis<MeshType, AxisList<First, Rest...>> : MissingAxis<MeshType, std::tuple<First, Rest...>> {};
template <class MeshType, class First, class... Rest>
struct MissingAxis<MeshType, std::tuple<First, Rest...>> : MissingAxis<MeshType, std::tuple<Rest...>> {};
template <class MeshType, class First, class... Rest>
  requires(!MeshType::AxesOf::template has<First>)  //
struct MissingAxis<MeshType, std::tuple<First, Rest...>> {
  using type = First;
};

/// Why a module of this kind cannot have these styles on this mesh: the first `LayoutError`, or `void`.
template <class MeshType, ModuleKind Kind, class... Parts>
struct StyleProblem {
  using type = void;
};
template <class MeshType, ModuleKind Kind, class First, class... Rest>
struct StyleProblem<MeshType, Kind, First, Rest...> {
  static constexpr auto type_of() {
    using Others = typename StyleProblem<MeshType, Kind, Rest...>::type;
    if constexpr (!First::suits(Kind)) {
      return TypeIs<LayoutError<Reason::style_does_not_suit_the_module, Got<First>,
                                Cure<Hint::see_which_modules_the_style_is_for>>>{};
    } else if constexpr (requires { typename First::NamedAxes; }) {
      using Missing = typename MissingAxis<MeshType, typename First::NamedAxes>::type;
      if constexpr (std::is_void_v<Missing>) {
        return TypeIs<Others>{};
      } else {
        return TypeIs<LayoutError<Reason::mesh_has_no_such_axis, Expected<typename MeshType::AxesOf>,
                                  Got<Missing>, Cure<Hint::name_an_axis_of_the_mesh>>>{};
      }
    } else {
      return TypeIs<Others>{};
    }
  }
  using type = typename decltype(type_of())::type;
};
/// The first axis that two of some lists name, or `void`.
template <class... Lists>
struct SharedAxis {
  using type = void;
};
template <class... First, class... Second, class... Rest>
struct SharedAxis<AxisList<First...>, AxisList<Second...>, Rest...>
    : SharedAxis<std::tuple<First..., Second...>, Rest...> {};
template <class... Seen, class... More, class... Rest>
struct SharedAxis<std::tuple<Seen...>, AxisList<More...>, Rest...>
    : SharedAxis<std::tuple<Seen..., More...>, Rest...> {};
template <class Axis, class... Seen>
struct SharedAxis<std::tuple<Axis, Seen...>> : SharedAxis<std::tuple<Seen...>> {};
template <class Axis, class... Seen>
  requires(times_among<Axis, Axis, Seen...> > 1)  //
struct SharedAxis<std::tuple<Axis, Seen...>> {
  using type = Axis;
};

template <class MeshType, ModuleKind Kind, class... Parts, class... Rest>
struct StyleProblem<MeshType, Kind, Styles<Parts...>, Rest...> {
  static constexpr auto type_of() {
    if constexpr (!Styles<Parts...>::suits(ModuleKind::composite)) {
      using Axis = typename SharedAxis<typename Parts::NamedAxes...>::type;
      if constexpr (!std::is_void_v<Axis>) {
        return TypeIs<LayoutError<Reason::styles_name_one_axis_twice, On<Axis>, Got<Parts...>,
                                  Cure<Hint::give_each_axis_one_style>>>{};
      } else if constexpr (!style_levels_nest<Styles<Parts...>, MeshType>()) {
        return TypeIs<LayoutError<Reason::left_data_axis_has_the_lower_zero_level, Got<Parts...>,
                                  Cure<Hint::give_the_left_axis_the_higher_level>>>{};
      } else {
        return StyleProblem<MeshType, Kind, Parts..., Rest...>{};
      }
    } else {
      return StyleProblem<MeshType, Kind, Parts..., Rest...>{};
    }
  }
  using type = typename decltype(type_of())::type;
};
template <class MeshType, ModuleKind Kind, class... Parts>
using style_problem = typename StyleProblem<MeshType, Kind, Parts...>::type;

/// The weight, whose output features begin at dimension `Out` and input features at `In`.
template <class Style, class MeshType, int Out, int In>
struct WeightCodes {
  static constexpr int at(int axis) {
    return style_answer<Style, MeshType>(axis, unnamed<MeshType>(axis),
                                         [](auto part) { return part.weight(Out, In); })
        .code;
  }
};
template <class Style, class MeshType>
struct BiasCodes {
  static constexpr int at(int axis) {
    return style_answer<Style, MeshType>(axis, unnamed<MeshType>(axis), [](auto part) { return part.bias(); })
        .code;
  }
};
/// What a module makes of its input `X` before it uses it; its features begin at dimension `Feature`.
template <class Style, class X, int Feature>
struct InputCodes {
  using MeshOf = typename X::MeshOf;
  static constexpr int at(int axis) {
    const Placement found = X::layout[axis];
    return style_answer<Style, MeshOf>(axis, entering<MeshOf>(axis, found),
                                       [&](auto part) { return part.input(found, Feature); })
        .code;
  }
};
/// What it makes of its result `Y`.
template <class Style, class Y>
struct OutputCodes {
  static constexpr int at(int axis) {
    const Placement natural = Y::layout[axis];
    return style_answer<Style, typename Y::MeshOf>(axis, natural,
                                                   [&](auto part) { return part.output_of(natural); })
        .code;
  }
};

template <class X, class Codes>
using with_codes = tensor_with<typename X::Element, X::rank, typename X::MeshOf, Codes>;

/// What a module of this style makes of its input `X`: a tensor type or a `LayoutError`.
template <class Style, class X, int Feature>
using taken_in = typename RedistributedTo<X, InputCodes<Style, X, Feature>>::type;
/// What `enter` makes of an `X`.
template <class X>
using entered = with_codes<X, InputCodes<NoParallel, X, 0>>;
/// What a module of this style gives, if it computes a `Y`.
template <class Style, class Y>
using given_out = typename RedistributedTo<Y, OutputCodes<Style, Y>>::type;

}  // namespace detail

/// `x` as modules without a style use it: `Reduced` instead of `Replicate` on data axes, which is free.
template <TensorOperand X>
constexpr auto enter(const X& x) {
  return redistribute_to<detail::entered<tensor_of<X>>>(x);
}

}  // namespace shardwise
