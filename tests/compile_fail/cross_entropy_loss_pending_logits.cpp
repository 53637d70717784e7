// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

// expect: LayoutError<Reason::operation_is_not_linear_so_it_needs_the_finished_sum, On<tp>, Expected<Replicate, Replicate>, Got<Partial<>, Replicate>, Cure<Hint::redistribute_to_Replicate_to_finish_the_reduction>, Of<detail::CrossEntropyLossRule<false>>, In<CrossEntropyLoss>>

#include <shardwise/mesh/mesh.hpp>
#include <shardwise/nn/cross_entropy_loss.hpp>

using namespace shardwise;
using Logits = Tensor<float, 2, Mesh<tp>, Partial<>>;  // [rows, classes]
using Targets = Tensor<int, 1, Mesh<tp>, Replicate>;

#ifdef SHOULD_FAIL
auto loss(const CrossEntropyLoss& criterion, const Logits& logits, const Targets& targets) {
  return criterion(logits, targets);
}
#else
auto loss(const CrossEntropyLoss& criterion, const Logits& logits, const Targets& targets) {
  return criterion(redistribute<tp, Shard<1>>(logits), targets);
}
#endif
