// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

// expect: LayoutError<Reason::operands_sharded_on_different_dimensions, On<tp>, Expected<Shard<0>, Shard<0>>, Got<Shard<1>, Shard<0>>, Cure<Hint::redistribute_to_what_is_Expected>, Of<detail::CrossEntropyLossRule<false>>, In<CrossEntropyLoss>>

#include <shardwise/mesh/mesh.hpp>
#include <shardwise/nn/cross_entropy_loss.hpp>

using namespace shardwise;
using Logits = Var<Tensor<float, 2, Mesh<tp>, Shard<1>>>;  // [rows, classes]
template <class P>
using Targets = Tensor<int, 1, Mesh<tp>, P>;

#ifdef SHOULD_FAIL
auto loss(const CrossEntropyLoss& criterion, const Logits& logits, const Targets<Shard<0>>& targets) {
  return criterion(logits, targets);
}
#else
auto loss(const CrossEntropyLoss& criterion, const Logits& logits, const Targets<Shard<0>>& targets) {
  return criterion(logits, redistribute<tp, Replicate>(targets));
}
#endif
