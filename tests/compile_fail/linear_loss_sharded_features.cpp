// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

// expect: LayoutError<Reason::operation_needs_this_dimension_whole_on_every_rank, On<tp>, Expected<Replicate, Replicate, Replicate>, Got<Shard<1>, Shard<1>, Replicate>, Cure<Hint::redistribute_to_what_is_Expected>, Of<detail::LinearCrossEntropyLossRule<false>>, In<LinearCrossEntropyLoss>>

#include <shardwise/mesh/mesh.hpp>
#include <shardwise/nn/linear.hpp>
#include <shardwise/nn/linear_cross_entropy_loss.hpp>

using namespace shardwise;
using X = Tensor<float, 2, Mesh<tp>, Shard<1>>;  // [rows, features]
template <class Style>
using Head = Linear<Mesh<tp>, Style, float, 1, 1, false>;
using Targets = Tensor<int, 1, Mesh<tp>, Replicate>;

#ifdef SHOULD_FAIL
auto loss(const LinearCrossEntropyLoss& criterion, const X& x, const Head<RowwiseParallel<tp>>& head,
          const Targets& targets) {
  return criterion(x, head, targets);
}
#else
auto loss(const LinearCrossEntropyLoss& criterion, const X& x, const Head<ColwiseParallel<tp>>& head,
          const Targets& targets) {
  return criterion(x, head, targets);
}
#endif
