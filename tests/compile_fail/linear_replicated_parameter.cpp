// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

// expect: LayoutError<Reason::replicated_operand_meets_blocks_so_its_gradient_would_be_pending, On<dp>, Expected<Shard<0>, Reduced>, Got<Shard<0>, Replicate>, Cure<Hint::make_the_parameter_Reduced_on_this_axis_as_SequenceParallel_does>>

#include <shardwise/mesh/mesh.hpp>
#include <shardwise/module/parameter.hpp>
#include <shardwise/ops/linear.hpp>

using namespace shardwise;
template <class P>
using Matrix = Tensor<float, 2, Mesh<dp>, P>;

#ifdef SHOULD_FAIL
auto product(const Var<Matrix<Shard<0>>>& rows, const Parameter<Matrix<Replicate>>& weight) {
  return linear(rows, weight);
}
#else
auto product(const Var<Matrix<Shard<0>>>& rows, const Parameter<Matrix<Reduced>>& weight) {
  return linear(rows, weight);
}
#endif
