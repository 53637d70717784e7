// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The axes and options that a style names, and the kinds of modules that it suits.

#include <shardwise/layout/axis.hpp>
#include <shardwise/layout/placement.hpp>
#include <shardwise/tensor/communicate_as.hpp>

namespace shardwise {

/// The placement of a style's output instead of the default.
template <PlacementTag P>
struct output {
  /// `P`, whatever the default is.
  static constexpr Placement placement(Placement) { return placement_of<P>; }
};

/// The kind of a module. Each style suits some kinds.
enum class ModuleKind : std::uint8_t {
  linear,
  embedding,
  norm,
  dropout,
  experts,
  composite,
  inner_attention
};

namespace detail {
/// Styles of other modules only redistribute their inputs or outputs.
constexpr bool is_layer(ModuleKind kind) {
  return kind != ModuleKind::composite && kind != ModuleKind::inner_attention;
}

/// The module's result, unchanged.
struct NaturalOutput {
  static constexpr Placement placement(Placement natural) { return natural; }
};

template <class T>
inline constexpr bool is_output = false;
template <PlacementTag P>
inline constexpr bool is_output<output<P>> = true;
template <class T>
inline constexpr bool is_communicate_as = false;
template <class F, class B>
inline constexpr bool is_communicate_as<communicate_as<F, B>> = true;

/// The options of a style: the `output` and the `communicate_as` among them, or the defaults.
template <class Output, class Communication, class... Options>
struct StyleOptions {
  using MessagesOf = Communication;
  static constexpr Placement output_of(Placement natural) { return Output::placement(natural); }
};
template <class Output, class Communication, class First, class... Rest>
struct StyleOptions<Output, Communication, First, Rest...>
    : StyleOptions<std::conditional_t<is_output<First>, First, Output>,
                   std::conditional_t<is_communicate_as<First>, First, Communication>, Rest...> {
  static_assert((is_output<First> + ... + is_output<Rest>) <= 1, "a style has at most one output<...>");
  static_assert((is_communicate_as<First> + ... + is_communicate_as<Rest>) <= 1,
                "a style has at most one communicate_as<...>");
};

/// The axis of `ColwiseParallel<>`, so that its error names what is missing: no mesh has it.
struct no_axis_in_angle_brackets {
  static constexpr const char* name = "no axis";
};
/// An axis, or a list of them, as a list.
template <class Axes>
struct AxesNamed;
template <MeshAxis Axis>
struct AxesNamed<Axis> : TypeIs<AxisList<Axis>> {};
template <MeshAxis... Axes>
struct AxesNamed<AxisList<Axes...>> : TypeIs<AxisList<Axes...>> {};
/// A style for these axes.
template <class Axes, class Output, class... Options>
struct StyleFor : StyleOptions<Output, CommunicateAsStored, Options...> {
  using NamedAxes = typename AxesNamed<Axes>::type;
};
/// Whether axis number `axis` of a mesh with the axes `All` is among `Named`.
template <class All, class... Named>
constexpr bool names_axis(AxisList<Named...>, int axis) {
  return ((All::template index<Named> == axis) || ...);
}

constexpr bool multiplies(ModuleKind kind) {
  return kind == ModuleKind::linear || kind == ModuleKind::embedding;
}
}  // namespace detail

/// `communicate_as<…>`; below, that or `output<…>`.
template <class T>
concept CommunicationOption = detail::is_communicate_as<T>;
template <class T>
concept StyleOption = detail::is_output<T> || detail::is_communicate_as<T>;

/// An axis of a mesh, or an `AxisList` of several.
template <class A>
concept StyleAxes = requires {
  typename detail::AxesNamed<A>::type;
};

}  // namespace shardwise
