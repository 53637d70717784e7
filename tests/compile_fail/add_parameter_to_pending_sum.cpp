// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

// expect: LayoutError<Reason::pending_sum_meets_a_finished_value, On<tp>, Expected<Partial<>, Partial<>>, Got<Partial<>, Replicate>, Cure<Hint::redistribute_alongside_of_the_parameter_and_the_other_operand>>

#include <shardwise/mesh/mesh.hpp>
#include <shardwise/module/parameter.hpp>
#include <shardwise/ops/add.hpp>

using namespace shardwise;
template <class P>
using Matrix = Tensor<float, 2, Mesh<tp>, P>;
using Bias = Parameter<Tensor<float, 1, Mesh<tp>, Replicate>>;

#ifdef SHOULD_FAIL
auto biased(const Var<Matrix<Partial<>>>& x, const Bias& bias) {
  return add(x, bias);
}
#else
auto biased(const Var<Matrix<Partial<>>>& x, const Bias& bias) {
  return add(x, redistribute<tp, Partial<>>(alongside(bias, x)));  // with its gradient
}
#endif
