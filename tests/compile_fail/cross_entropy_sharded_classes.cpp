// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

// expect: LayoutError<Reason::operation_needs_this_dimension_whole_on_every_rank, On<tp>, Expected<Replicate, Replicate>, Got<Shard<1>, Replicate>, Cure<Hint::redistribute_to_what_is_Expected>>

#include <shardwise/mesh/mesh.hpp>
#include <shardwise/ops/cross_entropy.hpp>

using namespace shardwise;
template <class P>
using Matrix = Tensor<float, 2, Mesh<tp>, P>;
using Targets = Tensor<int, 1, Mesh<tp>, Replicate>;

#ifdef SHOULD_FAIL
auto loss(const Matrix<Shard<1>>& logits, const Targets& targets) {
  return cross_entropy(logits, targets);
}
#else
auto loss(const Matrix<Shard<1>>& logits, const Targets& targets) {
  return cross_entropy(redistribute<tp, Replicate>(logits), targets);
}
#endif
