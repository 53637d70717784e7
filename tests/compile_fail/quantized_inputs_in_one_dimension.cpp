// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

// expect: LayoutError<Reason::operation_needs_this_dimension_whole_on_every_rank, On<tp>,

#include <shardwise/llm/decoding/quantized.hpp>
#include <shardwise/mesh/mesh.hpp>

using namespace shardwise;
using namespace shardwise::llm;

// Blocks of 32 numbers are not cut, so a row-parallel layer has its inputs in two dimensions.
using Rows = Styles<RowwiseParallel<tp>, Quantized<Block8>>;
using Out = Tensor<float, 2, Mesh<tp>, Replicate>;

#ifdef SHOULD_FAIL
Out forward(const Linear<Mesh<tp>, Rows>& down, const Tensor<float, 2, Mesh<tp>, Shard<1>>& x) {
  return down(x);
}
#else
Out forward(const Linear<Mesh<tp>, Rows, float, 1, 2>& down, const Tensor<float, 3, Mesh<tp>, Shard<1>>& x) {
  return down(x);
}
#endif
