// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

// expect: LayoutError<Reason::replicated_operand_meets_blocks_so_its_gradient_would_be_pending, On<tp>, Expected<Shard<1>, Reduced, Reduced>, Got<Shard<1>, Replicate, Replicate>, Cure<Hint::make_the_parameter_Reduced_on_this_axis_as_SequenceParallel_does>, Of<LayerNormOp>, InA<LayerNorm>, In<Block>, InA<Prepared>>

#include <shardwise/mesh/mesh.hpp>
#include <shardwise/nn/attention.hpp>
#include <shardwise/nn/layer_norm.hpp>
#include <shardwise/ops/add.hpp>
#include <shardwise/parallel/prepare_module.hpp>

using namespace shardwise;
using Grid = Mesh<dp, tp>;
using X = Tensor<float, 3, Grid, Shard<0>, Replicate>;

struct Block : Module<Block> {
  LayerNorm<Grid> norm;
  Attention<Grid> attention;

  auto forward(const auto& x) const {
    return add(x, attention(norm(x)));
  }
};

#ifdef SHOULD_FAIL
auto call(const Prepared<Block, PrepareModuleInput<tp, Shard<1>>>& block, const X& x) {
  return block(x);
}
#else
auto call(const Prepared<Block, PrepareModuleInput<tp, Replicate>>& block, const X& x) {
  return block(x);
}
#endif
