// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// The operation works along this dimension: every element of the result depends
/// on a whole row. So the rows must be whole. Other dimensions may be cut.
// expect: LayoutError<Reason::operation_needs_this_dimension_whole_on_every_rank, On<tp>, Expected<Shard<0>>, Got<Shard<1>>, Cure<Hint::redistribute_to_what_is_Expected>>

#include <shardwise/mesh/mesh.hpp>
#include <shardwise/ops/softmax.hpp>

using namespace shardwise;
template <class P>
using Matrix = Tensor<float, 2, Mesh<tp>, P>;

#ifdef SHOULD_FAIL
auto weights(const Matrix<Shard<1>>& scores) {
  return softmax(scores);
}
#else
auto weights(const Matrix<Shard<1>>& scores) {
  return softmax(redistribute<tp, Shard<0>>(scores));
}
#endif
