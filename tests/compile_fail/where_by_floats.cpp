// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

// expect: LayoutError<Reason::operand_must_hold_integers, Got<float, float, float>, Cure<Hint::use_a_tensor_of_int32_or_int64>>

#include <shardwise/shardwise.hpp>

using namespace shardwise;
using Rows = Tensor<float, 2, Mesh<tp>, Shard<0>>;

#ifdef SHOULD_FAIL
auto chosen(const Rows& weights, const Rows& a, const Rows& b) {
  return where(weights, a, b);
}
#else
auto chosen(const Rows& weights, const Rows& a, const Rows& b) {
  return where(greater(weights, 0), a, b);
}
#endif
