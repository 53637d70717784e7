// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// What a layout error says. A rule returns a type: the layout of the result, or a `LayoutError` whose
/// arguments are sentences. It is passed on unchanged, so the first cause is what the user reads:
///
/// ```
/// error: use of deleted function '… matmul(…) [with … Why = LayoutError<
///     Reason::contracted_dimension_sharded_on_one_side_only, On<tp>,
///     Expected<Shard<1>, Shard<1>>, Got<Shard<1>, Reduced>, Cure<Hint::redistribute_an_operand_first>>]'
/// ```

#include <type_traits>

namespace shardwise {

enum class Reason {
  none,
  // propagation through an operation
  contracted_dimension_sharded_on_one_side_only,
  dimension_sharded_on_one_side_only,
  operands_sharded_on_different_dimensions,
  operation_needs_this_dimension_whole_on_every_rank,
  replicated_operand_meets_blocks_so_its_gradient_would_be_pending,
  replicated_operand_meets_reduced_one,
  operation_is_not_linear_so_it_needs_the_finished_sum,
  product_of_two_pending_sums,
  pending_sum_meets_a_finished_value,
  pending_maximum_or_minimum_must_be_reduced_first,
  contracted_blocks_have_no_pending_form,
  // operands
  operands_live_on_different_meshes,
  operands_have_different_element_types,
  operands_do_not_fit_in_rank,
  operand_is_not_a_tensor,
  // redistribution
  nothing_can_become_a_pending_maximum_or_minimum,
  tensor_has_no_such_dimension,
  pending_reductions_of_different_kinds,
  one_placement_per_mesh_axis_is_needed,
  mesh_has_no_such_axis,
  // reshape
  reshape_cannot_keep_this_dimension_sharded,
  // differentiation
  gradient_of_a_pending_maximum_or_minimum_is_not_defined,
  loss_is_not_a_scalar,
  loss_is_not_the_same_finished_value_on_every_rank,
  value_is_pending_on_every_rank,
  // modules and styles
  style_does_not_suit_this_module,
};

enum class Hint {
  none,
  redistribute_an_operand_first,
  redistribute_to_Reduced_which_is_free,
  redistribute_to_Replicate_to_finish_the_reduction,
  redistribute_the_pending_sum_to_Reduced_or_the_other_to_Partial,
  name_an_existing_dimension,
  give_one_placement_per_axis,
  use_the_same_mesh_for_both,
  convert_one_operand,
  redistribute_to_Replicate_first,
  take_sum_or_mean_of_it_first,
  use_sum_of_squares_then_redistribute,
  see_the_shapes_it_takes,
  see_the_styles_of_this_module,
};

/// The placements, one per operand (or the one placement), that were found on the axis, and that would do.
template <class... Placements>
struct Got {};
template <class... Placements>
struct Expected {};
/// The mesh axis at fault.
template <class Axis>
struct On {};
/// What to do about it.
template <Hint H>
struct Cure {};

/// An error that is a type.
template <Reason R, class... Details>
struct LayoutError {
  static constexpr Reason reason = R;
};

template <class T>
inline constexpr bool is_layout_error = false;
template <Reason R, class... Details>
inline constexpr bool is_layout_error<LayoutError<R, Details...>> = true;

/// A result type that is not an error.
template <class T>
concept WellFormed = !is_layout_error<T>;
template <class T>
concept IllFormed = is_layout_error<T>;

}  // namespace shardwise
