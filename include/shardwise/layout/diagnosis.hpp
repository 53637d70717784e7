// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The layout errors. A rule returns a type: the layout of the result, or a `LayoutError` whose arguments describe
/// the problem. The error is passed on unchanged, so the user reads the first cause:
///
/// ```
/// error: invalid use of incomplete type 'LayoutError<Reason::contracted_dimension_sharded_on_one_side_only,
///     On<tp>, Expected<Shard<1>, Shard<1>>, Got<Shard<1>, Reduced>,
///     Cure<Hint::redistribute_to_what_is_Expected>>'
///    12 |   return linear(x, w);
/// ```
/// A function that can be refused has an overload that is only declared and returns the error:
/// ```
/// template <class X, class W, class Result = result_of<Op, X, W>>
/// auto linear(const X& x, const W& w) { … }
/// template <class X, class W, IllFormed Why = result_of<Op, X, W>>
/// Why linear(const X&, const W&);  // see Why
/// ```

#include <type_traits>

#include <shardwise/base/index.hpp>

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
  argument_is_not_a_tensor,
  operands_are_on_different_meshes,
  operands_have_different_element_types,
  operands_do_not_fit_in_rank,
  more_operands_than_four,
  contraction_is_not_one_matrix_product,
  operation_needs_floating_point_numbers,
  operand_must_hold_integers,
  operand_is_still_in_flight,
  parameter_has_no_tape_use_alongside,
  operation_on_parameters_alone_would_never_train_them,
  tensor_off_the_tape_meets_one_on_it_so_its_gradient_would_be_lost,
  frozen_parameter_has_no_gradient,
  // an operation that a program defines
  signature_of_the_operation_is_wrong,
  member_of_the_operation_is_missing_or_does_not_fit,
  // layouts, and redistribution from one to another
  one_placement_per_mesh_axis_is_needed,
  mesh_has_no_such_axis,
  tensor_has_no_such_dimension,
  pending_reductions_of_different_kinds,
  unsupported_element_type,
  nothing_can_become_a_pending_maximum_or_minimum,
  finished_tensor_cannot_be_made_pending,
  only_floating_point_numbers_are_communicated_as_another_type,
  // reshape
  reshape_cannot_keep_this_dimension_sharded,
  // styles and plans
  argument_is_not_a_style,
  argument_of_the_style_is_not_allowed,
  style_does_not_suit_the_module,
  style_is_incomplete,
  adapter_needs_rank_and_alpha_of_1_or_more,
  layer_has_two_adapters,
  layer_has_two_numbers_of_pieces,
  styles_name_one_axis_twice,
  styles_communicate_in_different_types,
  outer_data_axis_has_the_lower_zero_level,
  same_bits_allow_no_sum_over_ranks_and_no_rounded_message,
  layers_expect_different_input_layouts,
  layer_changes_the_layout_of_its_input,
  stage_output_does_not_match_next_input,
  stage_does_not_accept_previous_output,
  head_of_this_loss_has_a_bias,
  plan_names_an_unknown_module,
  plan_names_a_module_twice,
  plan_leaves_a_module_without_a_style,
  // names and spellings of other libraries
  name_or_form_of_another_library,
  // modules
  no_matching_const_forward,
  forward_does_not_take_abstract_operands,
  module_does_not_name_its_members,
  call_runs_the_forward_of_a_base_class,
  const_model_cannot_change,
  tied_weights_have_different_layouts,
  // differentiation
  gradient_of_a_pending_maximum_or_minimum_is_not_defined,
  operation_has_no_gradient,
  loss_depends_on_nothing_that_has_a_gradient,
  loss_is_not_a_scalar,
  loss_is_not_the_same_finished_value_on_every_rank,
  loss_is_not_a_function_of_a_tape,
  samples_are_not_sharded,
  value_is_pending_on_every_rank,
  cannot_assign_tracked_to_untracked,
};

enum class Hint {
  none,
  redistribute_to_what_is_Expected,
  redistribute_to_Reduced_which_is_free,
  make_the_parameter_Reduced_on_this_axis_as_SequenceParallel_does,
  redistribute_alongside_of_the_parameter_and_the_other_operand,
  use_alongside_to_put_a_parameter_on_the_tape,
  use_the_Var_or_parameter_not_its_value_or_alongside_if_it_is_data,
  remove_Frozen_or_Lora_from_its_style,
  train_adapters_beside_it_as_LlamaAdapted_does_or_leave_it_unquantised,
  redistribute_to_Replicate_to_finish_the_reduction,
  redistribute_to_Replicate_first,
  redistribute_before_the_reduction,
  take_the_root_of_sum_of_squares_after_you_redistribute_it,
  pass_a_tensor_a_Var_or_a_parameter,
  use_the_same_mesh_for_both,
  give_both_the_same_element_type,
  see_the_shapes_it_takes,
  join_four_at_most_and_cat_the_results,
  last_dimensions_meet_so_scale_rows_by_contract_rc_r_to_rc,
  use_matrix_product_which_communicates,
  use_CholeskyFactor_which_takes_blocks,
  contract_two_operands_and_the_result_with_the_next,
  contract_two_operands_or_sum_over_a_dimension_of_one,
  use_exp_of_the_exponent_times_log,
  use_solve_with_what_it_would_multiply,
  transpose_until_batch_indices_come_first_and_summed_ones_together,
  name_each_index_in_two_or_all_three_tensors_and_once_in_each,
  write_an_arrow_and_the_indices_of_the_result,
  use_a_tensor_of_float_or_double,
  use_where_if_it_is_a_mask,
  call_solve_which_computes_in_float,
  leave_communicate_as_out_or_name_one_of_Expected,
  use_a_tensor_of_int32_or_int64,
  keep_it_without_const_and_call_wait_first,
  give_one_placement_per_axis,
  name_an_axis_of_the_mesh,
  name_two_to_eight_pieces,
  name_an_existing_dimension,
  use_float_double_bfloat16_int32_int64_or_uint8,
  make_it_Replicate_then_redistribute,
  pass_a_style_such_as_ColwiseParallel_or_Frozen,
  write_Quantized_of_the_block_or_LlamaQuantized_of_plan_and_block,
  see_which_modules_the_style_applies_to,
  include_shardwise_nn_ring_attention_hpp,
  define_NamedAxes_input_weight_bias_output_of_as_ColwiseParallel_does,
  use_1_or_more,
  use_a_level_of_0_to_3,
  use_Block16_Block8_or_Block4,
  give_the_mesh_this_axis_where_its_size_may_be_1,
  give_it_RowwiseParallel_with_the_output_that_tokens_and_the_other_sums_have,
  give_each_axis_one_style,
  give_all_the_same_communicate_as,
  give_the_left_axis_the_higher_level,
  use_ColwiseParallel_with_output_Replicate_and_no_communicate_as,
  call_them_one_by_one,
  stages_must_preserve_the_tensor_type,
  make_the_head_without_bias,
  use_the_name_in_Expected,
  keep_one_of_the_two,
  name_it_with_a_style_or_NoParallel,
  pass_what_its_forward_takes_or_define_a_const_one_of_these,
  use_auto_parameters_in_forward,
  define_visit,
  derive_it_from_Module_of_itself_too,
  use_a_model_that_is_not_const,
  give_both_modules_styles_of_one_layout,
  use_sequential_or_a_new_variable,
  use_max_over_a_sharded_dimension,
  put_its_inputs_on_the_tape_with_input_or_constant,
  reduce_it_by_sum_or_mean_first,
  pass_it_with_the_targets_to_a_loss_such_as_mse_loss_or_CrossEntropyLoss,
  pass_the_loss_first_and_then_the_model,
  use_LinearCrossEntropyLoss_which_takes_the_head_too,
  return_the_loss_itself_not_the_number_of_item,
  pass_a_function_that_takes_Tape_and_returns_the_loss,
  shard_the_samples_or_redistribute_to_Replicate,
  write_x_equals_x_plus_y,
  let_an_optimizer_such_as_SGD_change_the_parameter,
  pass_the_model_or_call_for_each_parameter,
  pass_the_model_whose_parameters_backward_gave_gradients,
  remove_it_or_call_clear_gradients,
  use_clip_gradients_of_the_model,
  pass_Communicator_duplicate_of_this,
  pass_the_mesh_first,
  pass_the_shape_before_the_values,
  pass_the_value_after_the_shape,
  pass_a_seed_as_the_next_argument,
  pass_Init_to_the_modules_and_a_seed_here,
  pass_the_step_and_leave_it_out_when_you_evaluate,
  let_it_take_the_stage_and_its_mesh_and_return_the_part,
  pass_std_span_of_the_pointer_and_the_number,
  write_placements_in_angle_brackets,
  write_the_dimension_in_angle_brackets,
  reduce_one_dimension_and_then_the_next,
  write_the_element_type_in_angle_brackets,
  write_the_text_in_angle_brackets,
  write_options_in_braces_by_name,
  put_the_number_into_the_operation_as_in_Function_Op_number,
  pass_what_route_returns,
  write_false_as_the_template_argument_HasBias,
  use_less_less_equal_greater_greater_equal_or_equal,
  use_less_greater_or_equal_and_for_std_max_and_min_maximum_and_minimum,
  use_the_number_that_item_returns,
  it_is_read_only_so_make_another_with_from_local,
  let_the_lambda_capture_nothing_and_take_arguments_instead,
  write_it_as_a_function_of_the_tensor,
  call_backward_of_the_tape,
  use_shape,
  use_full_tensor_which_communicates_or_local_of_this_rank,
  remove_it_and_pass_dropout_the_step,
  pass_settings_to_the_optimizer_and_the_model_to_step,
  name_settings_rate_beta1_beta2_epsilon_momentum_weight_decay,
  write_settings_dot_rate_or_set_rate,
  pass_the_input_first_and_then_the_layers,
  pass_the_module_first,
  pass_a_tensor_and_use_parameters_as_they_are,
  pass_one_size_per_axis,
  write_the_sizes_in_braces,
  define_a_public_static_constexpr_signature,
  make_the_name_static_constexpr,
  write_letters_commas_an_arrow_and_the_letters_of_the_result,
  name_each_index_once_in_each_tensor,
  pass_whole_a_letter_of_an_operand,
  define_shape_or_use_the_letters_of_the_operands,
  name_only_operands_in_saved_and_passes,
  define_saved_with_inputs_or_output_forward_and_pull_back,
  let_forward_take_what_is_Expected,
  let_pull_back_take_what_is_Expected,
  let_residual_bytes_take_what_is_Expected,
  let_shape_take_and_return_what_is_Expected,
  use_its_value,
  read_values_after_the_call_as_forward_sees_types_alone,
  pass_the_parameter_itself,
  remove_the_element_type,
  pass_a_tensor_model_or_int64_not_const_or_an_optimizer_and_its_model,
  pass_a_plan_which_PlanWith_takes_first,
  write_each_entry_as_Use_of_a_name_and_a_style_which_PlanWith_adds_to_all,
};

/// How to fix an error with this reason.
constexpr Hint hint_for(Reason reason) {
  using enum Reason;
  constexpr struct {
    Reason reason;
    Hint hint;
  } cures[] = {
      {replicated_operand_meets_blocks_so_its_gradient_would_be_pending,
       Hint::redistribute_to_Reduced_which_is_free},
      {replicated_operand_meets_reduced_one, Hint::redistribute_to_Reduced_which_is_free},
      {operation_is_not_linear_so_it_needs_the_finished_sum,
       Hint::redistribute_to_Replicate_to_finish_the_reduction},
      {pending_maximum_or_minimum_must_be_reduced_first,
       Hint::redistribute_to_Replicate_to_finish_the_reduction},
      {loss_is_not_the_same_finished_value_on_every_rank,
       Hint::redistribute_to_Replicate_to_finish_the_reduction},
      {value_is_pending_on_every_rank, Hint::redistribute_to_Replicate_to_finish_the_reduction},
      {contracted_blocks_have_no_pending_form,
       Hint::take_the_root_of_sum_of_squares_after_you_redistribute_it},
      {argument_is_not_a_tensor, Hint::pass_a_tensor_a_Var_or_a_parameter},
      {operands_are_on_different_meshes, Hint::use_the_same_mesh_for_both},
      {operands_have_different_element_types, Hint::give_both_the_same_element_type},
      {operands_do_not_fit_in_rank, Hint::see_the_shapes_it_takes},
      {more_operands_than_four, Hint::join_four_at_most_and_cat_the_results},
      {unsupported_element_type, Hint::use_float_double_bfloat16_int32_int64_or_uint8},
      {operation_needs_floating_point_numbers, Hint::use_a_tensor_of_float_or_double},
      {operand_must_hold_integers, Hint::use_a_tensor_of_int32_or_int64},
      {operand_is_still_in_flight, Hint::keep_it_without_const_and_call_wait_first},
      {parameter_has_no_tape_use_alongside,
       Hint::redistribute_alongside_of_the_parameter_and_the_other_operand},
      {operation_on_parameters_alone_would_never_train_them,
       Hint::use_alongside_to_put_a_parameter_on_the_tape},
      {tensor_off_the_tape_meets_one_on_it_so_its_gradient_would_be_lost,
       Hint::use_the_Var_or_parameter_not_its_value_or_alongside_if_it_is_data},
      {frozen_parameter_has_no_gradient, Hint::remove_Frozen_or_Lora_from_its_style},
      {one_placement_per_mesh_axis_is_needed, Hint::give_one_placement_per_axis},
      {mesh_has_no_such_axis, Hint::name_an_axis_of_the_mesh},
      {tensor_has_no_such_dimension, Hint::name_an_existing_dimension},
      {pending_reductions_of_different_kinds, Hint::redistribute_to_Replicate_first},
      {reshape_cannot_keep_this_dimension_sharded, Hint::redistribute_to_Replicate_first},
      {nothing_can_become_a_pending_maximum_or_minimum, Hint::use_max_over_a_sharded_dimension},
      {finished_tensor_cannot_be_made_pending, Hint::make_it_Replicate_then_redistribute},
      {only_floating_point_numbers_are_communicated_as_another_type,
       Hint::leave_communicate_as_out_or_name_one_of_Expected},
      {styles_communicate_in_different_types, Hint::give_all_the_same_communicate_as},
      {argument_is_not_a_style, Hint::pass_a_style_such_as_ColwiseParallel_or_Frozen},
      {style_does_not_suit_the_module, Hint::see_which_modules_the_style_applies_to},
      {style_is_incomplete, Hint::define_NamedAxes_input_weight_bias_output_of_as_ColwiseParallel_does},
      {adapter_needs_rank_and_alpha_of_1_or_more, Hint::use_1_or_more},
      {layer_has_two_adapters, Hint::keep_one_of_the_two},
      {layer_has_two_numbers_of_pieces, Hint::keep_one_of_the_two},
      {styles_name_one_axis_twice, Hint::give_each_axis_one_style},
      {outer_data_axis_has_the_lower_zero_level, Hint::give_the_left_axis_the_higher_level},
      {same_bits_allow_no_sum_over_ranks_and_no_rounded_message,
       Hint::use_ColwiseParallel_with_output_Replicate_and_no_communicate_as},
      {layers_expect_different_input_layouts, Hint::call_them_one_by_one},
      {stage_output_does_not_match_next_input, Hint::stages_must_preserve_the_tensor_type},
      {stage_does_not_accept_previous_output, Hint::stages_must_preserve_the_tensor_type},
      {head_of_this_loss_has_a_bias, Hint::make_the_head_without_bias},
      {plan_names_an_unknown_module, Hint::use_the_name_in_Expected},
      {plan_names_a_module_twice, Hint::keep_one_of_the_two},
      {plan_leaves_a_module_without_a_style, Hint::name_it_with_a_style_or_NoParallel},
      {no_matching_const_forward, Hint::pass_what_its_forward_takes_or_define_a_const_one_of_these},
      {forward_does_not_take_abstract_operands, Hint::use_auto_parameters_in_forward},
      {module_does_not_name_its_members, Hint::define_visit},
      {call_runs_the_forward_of_a_base_class, Hint::derive_it_from_Module_of_itself_too},
      {const_model_cannot_change, Hint::use_a_model_that_is_not_const},
      {tied_weights_have_different_layouts, Hint::give_both_modules_styles_of_one_layout},
      {cannot_assign_tracked_to_untracked, Hint::use_sequential_or_a_new_variable},
      {gradient_of_a_pending_maximum_or_minimum_is_not_defined, Hint::redistribute_before_the_reduction},
      {operation_has_no_gradient, Hint::use_its_value},
      {loss_depends_on_nothing_that_has_a_gradient, Hint::put_its_inputs_on_the_tape_with_input_or_constant},
      {samples_are_not_sharded, Hint::shard_the_samples_or_redistribute_to_Replicate},
      {loss_is_not_a_scalar, Hint::reduce_it_by_sum_or_mean_first},
      {loss_is_not_a_function_of_a_tape, Hint::pass_a_function_that_takes_Tape_and_returns_the_loss},
  };
  for (const auto& cure : cures) {
    if (cure.reason == reason) return cure.hint;
  }
  return reason == none ? Hint::none : Hint::redistribute_to_what_is_Expected;
}

/// `Got`: the placements found on the axis, one per operand. `Expected`: placements that would be accepted.
template <class... Placements>
struct Got {};
template <class... Placements>
struct Expected {};
/// The mesh axis at fault.
template <class Axis>
struct On {};
/// How to fix it.
template <Hint H>
struct Cure {};
/// If a module was called, these follow: the operation at fault, and the calling modules, innermost first. `InA`
/// names a template without its arguments, which may hold a whole plan.
template <class Operation>
struct Of {};
template <class Module>
struct In {};
template <template <class...> class Module>
struct InA {};

/// An error as a type. It is never defined, so a call that returns one fails to compile at the caller's line. No
/// further errors follow, because compilers stop at a value of incomplete type.
template <Reason R, class... Details>
struct LayoutError;

/// An error inside the body of a `forward` has already been reported, so this one is defined and a call that
/// returns it compiles.
template <>
struct LayoutError<Reason::no_matching_const_forward> {
  constexpr const LayoutError& value() const { return *this; }
};

/// The error with the hint for its reason. `Details` are `On`, `Expected` and `Got`, as far as they apply.
template <Reason R, class... Details>
using layout_error = LayoutError<R, Details..., Cure<hint_for(R)>>;

/// The error of a call in another library's form, with the form to write instead.
template <Hint H>
using WrittenOtherwise = LayoutError<Reason::name_or_form_of_another_library, Cure<H>>;

/// The reason of an error type; `Reason::none` for all other types.
template <class T>
inline constexpr Reason reason_of = Reason::none;
template <Reason R, class... Details>
inline constexpr Reason reason_of<LayoutError<R, Details...>> = R;

/// A result type that is not an error.
template <class T>
concept WellFormed = (reason_of<T> == Reason::none);
template <class T>
concept IllFormed = (reason_of<T> != Reason::none);

namespace detail {

/// Wraps a type (a result or an error) as the return value of a constexpr function.
template <class T>
struct TypeIs {
  using type = T;
};
template <Reason R, class... Details>
using Refused = TypeIs<layout_error<R, Details...>>;

/// `Error` with `More` appended, unless an operand brought that error along. `Came`: the operands' types.
template <class Error, class More, class... Came>
struct Extended : TypeIs<Error> {};
template <Reason R, class... Details, class More, class... Came>
  requires(sizeof...(Details) > 0 && !(std::is_same_v<LayoutError<R, Details...>, Came> || ...))
struct Extended<LayoutError<R, Details...>, More, Came...> : TypeIs<LayoutError<R, Details..., More>> {};

using Reported = LayoutError<Reason::no_matching_const_forward>;

/// The first of these types that is a `LayoutError`, or `void`.
template <class... Types>
struct FirstError : TypeIs<void> {};
template <class First, class... Rest>
struct FirstError<First, Rest...> : FirstError<Rest...> {};
template <IllFormed First, class... Rest>
struct FirstError<First, Rest...> : TypeIs<First> {};

}  // namespace detail

}  // namespace shardwise
