// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

// expect: LayoutError<Reason::[a-z_]*, On<tp>, Expected<.*>, Got<Shard<0>, Shard<0>>, Cure<Hint::use_matrix_product_which_communicates>>

#include <shardwise/shardwise.hpp>

using namespace shardwise;
using Rows = Tensor<float, 2, Mesh<tp>, Shard<0>>;

#ifdef SHOULD_FAIL
auto product(const Rows& a, const Rows& b) {
  return matmul(a, b);
}
#else
auto product(const Rows& a, const Rows& b) {
  return matrix_product<Shard<0>>(a, b);
}
#endif
