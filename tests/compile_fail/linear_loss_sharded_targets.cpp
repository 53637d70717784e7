// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

// expect: LayoutError<Reason::operands_sharded_on_different_dimensions, On<dp>, Expected<Shard<0>, Reduced, Shard<0>>, Got<Shard<0>, Reduced, Shard<1>>, Cure<Hint::redistribute_to_what_is_Expected>, Of<detail::LinearCrossEntropyLossRule<false>>, In<LinearCrossEntropyLoss>, InA<llm::Llama>>

#include <shardwise/llm/models/llama/model.hpp>
#include <shardwise/mesh/mesh.hpp>
#include <shardwise/nn/linear_cross_entropy_loss.hpp>

using namespace shardwise;
template <class P>
using Ids = Tensor<int, 2, Mesh<dp, tp>, P, Replicate>;

#ifdef SHOULD_FAIL
auto loss(const llm::Llama<Mesh<dp, tp>>& model, const Ids<Shard<0>>& ids, const Ids<Shard<1>>& targets) {
  return model(ids, targets, LinearCrossEntropyLoss());
}
#else
auto loss(const llm::Llama<Mesh<dp, tp>>& model, const Ids<Shard<0>>& ids, const Ids<Shard<0>>& targets) {
  return model(ids, targets, LinearCrossEntropyLoss());
}
#endif
