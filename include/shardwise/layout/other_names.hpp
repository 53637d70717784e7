// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Names that PyTorch and Eigen have for members and settings: using one is a compile error that names the equivalent
/// here.

#include <array>

#include <shardwise/layout/diagnosis.hpp>

namespace shardwise::detail {

// Refused members are static: of others, clang 14 also reports how the result is used.
#define SHARDWISE_OTHER_NAME(name, hint)                                         \
  template <class..., IllFormed Why = WrittenOtherwise<Hint::hint>> /* NOLINT */ \
  static Why name(const auto&...)
/// The base of tensors and `Var`s.
struct OtherNames {
  SHARDWISE_OTHER_NAME(item, write_it_as_a_function_of_the_tensor);
  SHARDWISE_OTHER_NAME(sum, write_it_as_a_function_of_the_tensor);
  SHARDWISE_OTHER_NAME(mean, write_it_as_a_function_of_the_tensor);
  SHARDWISE_OTHER_NAME(norm, write_it_as_a_function_of_the_tensor);
  SHARDWISE_OTHER_NAME(relu, write_it_as_a_function_of_the_tensor);
  SHARDWISE_OTHER_NAME(tanh, write_it_as_a_function_of_the_tensor);
  SHARDWISE_OTHER_NAME(softmax, write_it_as_a_function_of_the_tensor);
  SHARDWISE_OTHER_NAME(matmul, write_it_as_a_function_of_the_tensor);
  SHARDWISE_OTHER_NAME(reshape, write_it_as_a_function_of_the_tensor);
  SHARDWISE_OTHER_NAME(transpose, write_it_as_a_function_of_the_tensor);
  SHARDWISE_OTHER_NAME(redistribute, write_it_as_a_function_of_the_tensor);
  SHARDWISE_OTHER_NAME(full_tensor, write_it_as_a_function_of_the_tensor);
  SHARDWISE_OTHER_NAME(local, use_its_value);
  SHARDWISE_OTHER_NAME(backward, call_backward_of_the_tape);
  SHARDWISE_OTHER_NAME(size, use_shape);
  SHARDWISE_OTHER_NAME(rows, use_shape);
  SHARDWISE_OTHER_NAME(cols, use_shape);
  template <class...,
            IllFormed Why = WrittenOtherwise<Hint::use_full_tensor_which_communicates_or_local_of_this_rank>>
  Why operator()(const auto&...) const;  // see Why
  template <IllFormed Why = WrittenOtherwise<Hint::use_full_tensor_which_communicates_or_local_of_this_rank>>
  Why operator[](Index) const;  // see Why
  // NOLINTNEXTLINE(google-explicit-constructor)
  operator double() const = delete;  // write item(x), if it is a scalar, or leave std:: out: sqrt(x)
};
/// The base of modules.
struct OtherModuleNames {
  SHARDWISE_OTHER_NAME(parameters, pass_the_model_or_call_for_each_parameter);
  SHARDWISE_OTHER_NAME(named_parameters, pass_the_model_or_call_for_each_parameter);
  SHARDWISE_OTHER_NAME(zero_grad, remove_it_or_call_clear_gradients);
  SHARDWISE_OTHER_NAME(train, remove_it_and_pass_dropout_the_step);
  SHARDWISE_OTHER_NAME(eval, remove_it_and_pass_dropout_the_step);
};
#undef SHARDWISE_OTHER_NAME

/// Settings of optimizers by other libraries' names. With names that are all our own, another constructor is better.
struct SettingsOfOthers {
  double lr, learning_rate, rate;
  std::array<double, 2> betas;
  double beta1, beta2, eps, epsilon, momentum, weight_decay;
};

/// `optimizer.lr = rate` is an error.
struct RateByAnotherName {
  template <class X, IllFormed Why = WrittenOtherwise<Hint::write_settings_dot_rate_or_set_rate>>
  Why operator=(const X&) const;  // NOLINT(misc-unconventional-assign-operator): see Why
};

}  // namespace shardwise::detail
