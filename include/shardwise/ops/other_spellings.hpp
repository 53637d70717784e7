// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Errors for calls as in PyTorch and NumPy, where dimensions, element types and texts are arguments.
///
/// ```
/// y = sum(x, 1);   // refused, and the error says how to write it: sum<1>(x)
/// ```

#include <shardwise/ops/result.hpp>

namespace shardwise {

#define SHARDWISE_DIMENSION_IS_AN_ARGUMENT(name, condition) \
  template <Operand X, class... More>                       \
    requires(condition)                                     \
  WrittenOtherwise<Hint::write_the_dimension_in_angle_brackets> name(const X&, const More&...)
#define SHARDWISE_ONE_IS_A_NUMBER (std::is_integral_v<More> || ...)
SHARDWISE_DIMENSION_IS_AN_ARGUMENT(argmax, SHARDWISE_ONE_IS_A_NUMBER);
SHARDWISE_DIMENSION_IS_AN_ARGUMENT(max, SHARDWISE_ONE_IS_A_NUMBER);
SHARDWISE_DIMENSION_IS_AN_ARGUMENT(mean, SHARDWISE_ONE_IS_A_NUMBER);
SHARDWISE_DIMENSION_IS_AN_ARGUMENT(norm, SHARDWISE_ONE_IS_A_NUMBER);
SHARDWISE_DIMENSION_IS_AN_ARGUMENT(softmax, SHARDWISE_ONE_IS_A_NUMBER);
SHARDWISE_DIMENSION_IS_AN_ARGUMENT(sum, SHARDWISE_ONE_IS_A_NUMBER);
SHARDWISE_DIMENSION_IS_AN_ARGUMENT(transpose, SHARDWISE_ONE_IS_A_NUMBER);
SHARDWISE_DIMENSION_IS_AN_ARGUMENT(cat, true);
SHARDWISE_DIMENSION_IS_AN_ARGUMENT(index_select, true);
SHARDWISE_DIMENSION_IS_AN_ARGUMENT(narrow, true);
SHARDWISE_DIMENSION_IS_AN_ARGUMENT(stack, true);
#undef SHARDWISE_ONE_IS_A_NUMBER
#undef SHARDWISE_DIMENSION_IS_AN_ARGUMENT

#define SHARDWISE_SEVERAL_DIMENSIONS(name)                                       \
  template <int, int, int..., Operand X>                                         \
  WrittenOtherwise<Hint::reduce_one_dimension_and_then_the_next> name(const X&); \
  template <Operand X>                                                           \
  WrittenOtherwise<Hint::reduce_one_dimension_and_then_the_next> name(const X&, std::initializer_list<int>)
SHARDWISE_SEVERAL_DIMENSIONS(max);
SHARDWISE_SEVERAL_DIMENSIONS(mean);
SHARDWISE_SEVERAL_DIMENSIONS(norm);
SHARDWISE_SEVERAL_DIMENSIONS(sum);
#undef SHARDWISE_SEVERAL_DIMENSIONS

template <Operand Ids>
WrittenOtherwise<Hint::write_the_element_type_in_angle_brackets> one_hot(const Ids&, Index);

template <Operand X, IllFormed Why = WrittenOtherwise<Hint::use_solve_with_what_it_would_multiply>>
Why inverse(const X&);  // see Why

template <Operand... X>
WrittenOtherwise<Hint::write_the_text_in_angle_brackets> contract(const char*, const X&...);

}  // namespace shardwise
