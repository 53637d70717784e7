// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// `LinearCrossEntropyLoss` takes heads as in language models, without a
/// bias. For a head with a bias, use `CrossEntropyLoss` on the logits.
// expect: LayoutError<Reason::head_of_this_loss_has_a_bias, Got<Tensor<float, 1, Mesh<tp>, Shard<0>>>, Cure<Hint::make_the_head_without_bias>, In<LinearCrossEntropyLoss>>

#include <shardwise/mesh/mesh.hpp>
#include <shardwise/nn/linear.hpp>
#include <shardwise/nn/linear_cross_entropy_loss.hpp>

using namespace shardwise;
using Rows = Tensor<float, 2, Mesh<tp>, Replicate>;
using Targets = Tensor<int, 1, Mesh<tp>, Replicate>;
template <bool Bias>
using Head = Linear<Mesh<tp>, ColwiseParallel<tp>, float, 1, 1, Bias>;

#ifdef SHOULD_FAIL
auto loss(const Rows& x, const Head<true>& head, const Targets& targets) {
  return LinearCrossEntropyLoss()(x, head, targets);
}
#else
auto loss(const Rows& x, const Head<false>& head, const Targets& targets) {
  return LinearCrossEntropyLoss()(x, head, targets);
}
#endif
