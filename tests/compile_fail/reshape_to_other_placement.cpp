// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// `reshape` moves no data, so on each axis a placement keeps its kind. A cut dimension
/// stays cut, perhaps as another dimension, and a whole one stays whole. `Expected` is
/// a layout that fits, if the extents fit too; otherwise the call throws at run time.
// expect: LayoutError<Reason::reshape_cannot_keep_this_dimension_sharded, On<tp>, Expected<Shard<1>>, Got<Replicate>, Cure<Hint::redistribute_to_Replicate_first>>

#include <shardwise/mesh/mesh.hpp>
#include <shardwise/ops/reshape.hpp>

using namespace shardwise;
template <class P>
using Matrix = Tensor<float, 2, Mesh<tp>, P>;

#ifdef SHOULD_FAIL
auto heads(const Matrix<Shard<1>>& x) {
  return reshape<Replicate>(x, {64, 8, 4});
}
#else
auto heads(const Matrix<Shard<1>>& x) {
  return reshape<Shard<1>>(x, {64, 8, 4});  // whole heads
}
#endif
