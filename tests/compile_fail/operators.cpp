// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// Tensors have no operators, since `a * b` could mean two products. The functions
/// are `add`, `sub`, `mul` (element by element), `scale` (by a number) and `matmul`.
// expect: LayoutError<Reason::this_is_written_otherwise_here, Cure<Hint::write_add_sub_mul_scale_or_matmul>>

#include <shardwise/shardwise.hpp>

using namespace shardwise;
using Rows = Tensor<float, 2, Mesh<tp>, Shard<0>>;

#ifdef SHOULD_FAIL
auto doubled(const Rows& x) {
  return x + x;
}
#else
auto doubled(const Rows& x) {
  return add(x, x);
}
#endif
