// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Parallel styles: what layout a module wants in, how its parameters lie, and what it gives out, along one
/// axis of the mesh. What comes in is known from its type, so the module inserts the `redistribute` from what
/// is there to what is wanted, which may be none.
///
/// | style                    | wants (Linear)    | weight [out, in] | gives                             |
/// |--------------------------|-------------------|------------------|-----------------------------------|
/// | `ColwiseParallel<Axis>`  | `Reduced`         | `Shard<out>`     | `Shard` of the features           |
/// | `RowwiseParallel<Axis>`  | `Shard` of the features | `Shard<in>` | `Replicate`, by an all-reduce     |
/// | `NoParallel`             | what it finds     | the same on all  | what comes out                    |
///
/// `RowwiseParallel<tp, output<Shard<1>>>` gives `Shard<1>` instead, by a reduce-scatter. On axes that a
/// style does not name, parameters are `Replicate`; on data axes, where ranks work on different samples,
/// `Reduced`.

#include <shardwise/layout/diagnosis.hpp>

#include <shardwise/autograd/redistribute.hpp>
#include <shardwise/mesh/axis.hpp>

namespace shardwise {

/// What a style gives out instead of its default.
template <PlacementTag P>
struct output {
  static constexpr Placement placement(Placement) { return placement_of<P>; }
};

namespace detail {
/// The module's result as it comes.
struct NaturalOutput {
  static constexpr Placement placement(Placement natural) { return natural; }
};
struct ReplicatedOutput {
  static constexpr Placement placement(Placement) { return replicate; }
};
}  // namespace detail

/// A style answers for its axis; the numbers are dimensions. `NamedAxis`, if it has one, is an axis of the mesh.
template <class S>
concept ParallelStyle = requires {
  { S::template axis<AxisList<dp>> } -> std::convertible_to<int>;
  { S::input(Placement{}, 0) } -> std::same_as<Placement>;
  { S::weight(0, 0) } -> std::same_as<Placement>;
  { S::bias() } -> std::same_as<Placement>;
  { S::output_of(Placement{}) } -> std::same_as<Placement>;
};

/// Splits the output features (Megatron-LM's column-parallel layer): each rank computes some of them.
template <MeshAxis Axis, class Output = detail::NaturalOutput>
struct ColwiseParallel {
  using NamedAxis = Axis;
  template <class Axes>
  static constexpr int axis = Axes::template index<Axis>;
  static constexpr Placement input(Placement, int) { return reduced; }
  static constexpr Placement weight(int out, int) { return shard(out); }
  static constexpr Placement bias() { return shard(0); }
  static constexpr Placement output_of(Placement natural) { return Output::placement(natural); }
};

/// Splits the input features (Megatron-LM's row-parallel layer): each rank computes a term of every output.
template <MeshAxis Axis, class Output = detail::ReplicatedOutput>
struct RowwiseParallel {
  using NamedAxis = Axis;
  template <class Axes>
  static constexpr int axis = Axes::template index<Axis>;
  static constexpr Placement input(Placement, int feature) { return shard(feature); }
  static constexpr Placement weight(int, int in) { return shard(in); }
  static constexpr Placement bias() { return replicate; }
  static constexpr Placement output_of(Placement natural) { return Output::placement(natural); }
};

/// Every rank does all of it.
struct NoParallel {
  template <class Axes>
  static constexpr int axis = -1;
  static constexpr Placement input(Placement found, int) { return found; }
  static constexpr Placement weight(int, int) { return replicate; }
  static constexpr Placement bias() { return replicate; }
  static constexpr Placement output_of(Placement natural) { return natural; }
};

namespace detail {  // from a style to tensor types

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

/// `void` if the mesh has the axes that the styles name, else the `LayoutError` that names the first it lacks.
template <class MeshType, class... Styles>
struct StyleProblem {
  using type = void;
};
template <class MeshType, class First, class... Rest>
struct StyleProblem<MeshType, First, Rest...> : StyleProblem<MeshType, Rest...> {};
template <class MeshType, class First, class... Rest>
  requires(!MeshType::AxesOf::template has<typename First::NamedAxis>)  //
struct StyleProblem<MeshType, First, Rest...> {
  using type = LayoutError<Reason::mesh_has_no_such_axis, Expected<typename MeshType::AxesOf>,
                           Got<typename First::NamedAxis>, Cure<Hint::name_an_axis_of_the_mesh>>;
};
template <class MeshType, class... Styles>
using style_problem = typename StyleProblem<MeshType, Styles...>::type;

template <class Style, class MeshType>
inline constexpr int style_axis = Style::template axis<typename MeshType::AxesOf>;

/// The weight, whose output features begin at dimension `Out` and input features at `In`.
template <class Style, class MeshType, int Out, int In>
struct WeightCodes {
  static constexpr int at(int axis) {
    return (axis == style_axis<Style, MeshType> ? Style::weight(Out, In) : unnamed<MeshType>(axis)).code;
  }
};
template <class Style, class MeshType>
struct BiasCodes {
  static constexpr int at(int axis) {
    return (axis == style_axis<Style, MeshType> ? Style::bias() : unnamed<MeshType>(axis)).code;
  }
};
/// What a module makes of its input `X` before it uses it; its features begin at dimension `Feature`.
template <class Style, class X, int Feature>
struct InputCodes {
  using MeshOf = typename X::MeshOf;
  static constexpr int at(int axis) {
    Placement found = X::layout[axis];
    return (axis == style_axis<Style, MeshOf> ? Style::input(found, Feature) : entering<MeshOf>(axis, found))
        .code;
  }
};
/// What it makes of its result `Y`.
template <class Style, class Y>
struct OutputCodes {
  static constexpr int at(int axis) {
    Placement natural = Y::layout[axis];
    return (axis == style_axis<Style, typename Y::MeshOf> ? Style::output_of(natural) : natural).code;
  }
};

template <class X, class Codes>
using with_codes = tensor_with<typename X::Element, X::rank, typename X::MeshOf, Codes>;

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
