// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// A parameter brings no tape, so its gradient could not come back through this call.
/// `alongside(w, x)` is the parameter on the tape of `x`, or a tensor where `x` is one.
// expect: LayoutError<Reason::parameter_has_no_tape_use_alongside, Got<Parameter<Tensor<float, 1, Mesh<tp>, Replicate>.*>>, Cure<Hint::redistribute_alongside_of_the_parameter_and_the_other_operand>>

#include <shardwise/mesh/mesh.hpp>
#include <shardwise/module/parameter.hpp>
#include <shardwise/ops/add.hpp>

using namespace shardwise;
using Vector = Tensor<float, 1, Mesh<tp>, Shard<0>>;
using Bias = Parameter<Tensor<float, 1, Mesh<tp>, Replicate>>;

#ifdef SHOULD_FAIL
auto biased(const Var<Vector>& x, const Bias& bias) {
  return add(x, redistribute<tp, Shard<0>>(bias));
}
#else
auto biased(const Var<Vector>& x, const Bias& bias) {
  return add(x, redistribute<tp, Shard<0>>(alongside(bias, x)));
}
#endif
