// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

// expect: LayoutError<Reason::this_is_written_otherwise_here, Cure<Hint::write_add_sub_mul_scale_or_matmul>>

#include <shardwise/shardwise.hpp>

using namespace shardwise;

#ifdef SHOULD_FAIL
auto halved(const Var<Tensor<float, 2, Mesh<tp>, Shard<0>>>& x) {
  return x / 2.0f;
}
#else
auto halved(const Var<Tensor<float, 2, Mesh<tp>, Shard<0>>>& x) {
  return scale(x, 0.5);
}
#endif
