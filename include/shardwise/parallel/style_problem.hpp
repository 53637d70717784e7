// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Checks a module's style: it must suit the module, name only axes of the mesh, and name none twice.

#include <shardwise/layout/diagnosis.hpp>

#include <shardwise/parallel/styled.hpp>

namespace shardwise::detail {

template <class... Axes>
constexpr std::tuple<Axes...> tuple_of(AxisList<Axes...>) {
  return {};
}
template <class Style>
constexpr auto named_axes() {
  if constexpr (requires { typename Style::NamedAxes; }) {
    return tuple_of(typename Style::NamedAxes{});
  } else {
    return std::tuple<>();
  }
}

/// The first axis of a list that the mesh lacks, or `void`.
template <class MeshType, class Named>
struct MissingAxis : TypeIs<void> {};
template <class MeshType, class First, class... Rest>
struct MissingAxis<MeshType, std::tuple<First, Rest...>> : MissingAxis<MeshType, std::tuple<Rest...>> {};
template <class MeshType, class First, class... Rest>
  requires(!MeshType::AxesOf::template has<First>)  //
struct MissingAxis<MeshType, std::tuple<First, Rest...>> : TypeIs<First> {};

/// For a type instead of a style, which may be a block of quantised weights.
template <class T>
constexpr Hint hint_for_no_style() {
  if constexpr (requires {
                  requires numbers_in(data_type_of<T>())
                  > 1;
                })
    return Hint::write_Quantized_of_the_block_or_LlamaQuantized_of_plan_and_block;
  return hint_for(Reason::argument_is_not_a_style);
}

/// Why a module of this kind cannot have these styles on this mesh: the first `LayoutError`, or `void`.
template <class MeshType, ModuleKind Kind, class... Parts>
struct StyleProblem : TypeIs<void> {};
template <class MeshType, ModuleKind Kind, class First, class... Rest>
struct StyleProblem<MeshType, Kind, First, Rest...> {
  static constexpr auto type_of() {
    using Others = typename StyleProblem<MeshType, Kind, Rest...>::type;
    using Missing = typename MissingAxis<MeshType, decltype(named_axes<First>())>::type;
    if constexpr (!ParallelStyle<First>) {
      return TypeIs<
          LayoutError<Reason::argument_is_not_a_style, Got<First>, Cure<hint_for_no_style<First>()>>>{};
    } else if constexpr (!First::suits(Kind)) {
      return Refused<Reason::style_does_not_suit_the_module, Got<First>>{};
    } else if constexpr (requires { requires First::misused != Hint::none; }) {
      return TypeIs<
          LayoutError<Reason::argument_of_the_style_is_not_allowed, Got<First>, Cure<First::misused>>>{};
    } else if constexpr (is_layer(Kind) && is_incomplete<First>) {
      return Refused<Reason::style_is_incomplete, Got<First>>{};
    } else if constexpr (!CommunicationOf<First>::type::is_possible) {
      return Refused<Reason::only_floating_point_numbers_are_communicated_as_another_type,
                     Expected<float, double, Eigen::bfloat16>, Got<typename CommunicationOf<First>::type>>{};
    } else if constexpr (requires { requires First::rank < 1 || First::alpha < 1; }) {
      return Refused<Reason::adapter_needs_rank_and_alpha_of_1_or_more, Got<First>>{};
    } else if constexpr (!std::is_void_v<Missing>) {
      return TypeIs<
          LayoutError<Reason::mesh_has_no_such_axis, Expected<typename MeshType::AxesOf>, Got<Missing>,
                      Cure<std::is_same_v<Missing, no_axis_in_angle_brackets>
                               ? Hint::name_an_axis_of_the_mesh
                               : Hint::give_the_mesh_this_axis_where_its_size_may_be_1>>>{};
    } else {
      return TypeIs<Others>{};
    }
  }
  using type = typename decltype(type_of())::type;
};
/// The first axis that occurs twice in a list, or `void`.
template <class List>
struct SharedAxis : TypeIs<void> {};
template <class Axis, class... Seen>
struct SharedAxis<std::tuple<Axis, Seen...>> : SharedAxis<std::tuple<Seen...>> {};
template <class Axis, class... Seen>
  requires(times_among<Axis, Axis, Seen...> > 1)  //
struct SharedAxis<std::tuple<Axis, Seen...>> : TypeIs<Axis> {};

/// See `LowRank`.
template <class Part>
inline constexpr int adapters_in = requires {
  Part::rank;
};
template <class... Parts>
inline constexpr int adapters_in<Styles<Parts...>> = (0 + ... + adapters_in<Parts>);

template <class Part, class As>
inline constexpr bool communicates_as =
    !CommunicationOf<Part>::says || std::is_same_v<typename CommunicationOf<Part>::type, As>;
/// Whether all parts that set element types of messages set the same ones.
template <class... Parts>
inline constexpr bool communicate_alike =
    (communicates_as<Parts, typename CommunicationOf<Styles<Parts...>>::type> && ...);

/// Whether a linear layer of this style computes terms of a sum over ranks.
template <class Style>
inline constexpr bool splits_inputs = false;
template <LayerStyle Style>
inline constexpr bool splits_inputs<Style> = Style::weight(0, 1) == shard(1);
template <class... Parts>
inline constexpr bool splits_inputs<Styles<Parts...>> = (splits_inputs<Parts> || ...);

/// Whether the results of a module of this style depend on the mesh: a product that is a sum over ranks does, and so do
/// messages of another type than their tensor, which the blocks of a rank itself do not travel in.
template <ModuleKind Kind, class Style>
inline constexpr bool depends_on_mesh =
    (Kind == ModuleKind::linear && splits_inputs<Style>) ||
    !std::is_same_v<typename CommunicationOf<Style>::type, CommunicateAsStored>;

template <class MeshType, ModuleKind Kind, class... Parts, class... Rest>
struct StyleProblem<MeshType, Kind, Styles<Parts...>, Rest...> {
  static constexpr auto type_of() {
    using Each = StyleProblem<MeshType, Kind, Parts..., Rest...>;
    using Axis = typename SharedAxis<decltype(std::tuple_cat(named_axes<Parts>()...))>::type;
    if constexpr (Styles<Parts...>::suits(ModuleKind::composite)) {
      return Each{};
    } else if constexpr (!std::is_void_v<Axis>) {
      return Refused<Reason::styles_name_one_axis_twice, On<Axis>, Got<Parts...>>{};
    } else if constexpr (!communicate_alike<Parts...>) {
      return Refused<Reason::styles_communicate_in_different_types, Got<Parts...>>{};
    } else if constexpr (adapters_in<Styles<Parts...>> > 1) {
      return Refused<Reason::layer_has_two_adapters, Got<Parts...>>{};
    } else if constexpr (((pieces_in<Parts> > 0) + ... + 0) > 1) {
      return Refused<Reason::layer_has_two_numbers_of_pieces, Got<Parts...>>{};
    } else if constexpr (gives_same_bits<Styles<Parts...>> && depends_on_mesh<Kind, Styles<Parts...>>) {
      return Refused<Reason::same_bits_allow_no_sum_over_ranks_and_no_rounded_message, Got<Parts...>>{};
    } else if constexpr (!style_levels<Styles<Parts...>, MeshType>().nests()) {
      return Refused<Reason::outer_data_axis_has_the_lower_zero_level, Got<Parts...>>{};
    } else {
      return Each{};
    }
  }
  using type = typename decltype(type_of())::type;
};
template <class MeshType, ModuleKind Kind, class... Parts>
using style_problem = typename StyleProblem<MeshType, Kind, Parts...>::type;

}  // namespace shardwise::detail
