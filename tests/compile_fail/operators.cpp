// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// `x * y` of two tensors could mean two products: write `mul` (element by element) or `matmul`. Nor is there a quotient of two
/// tensors. The operators are `x + y`, `x - y`, `-x`, and `2 * x`, `x * 2`, `x / 2` with a number.
// expect: LayoutError<Reason::name_or_form_of_another_library, Cure<Hint::write_mul_or_matmul>>

#include <shardwise/shardwise.hpp>

using namespace shardwise;
using Rows = Tensor<float, 2, Mesh<tp>, Shard<0>>;

#ifdef SHOULD_FAIL
auto product(const Rows& x, const Rows& y) {
  return x * y;
}
#else
auto product(const Rows& x, const Rows& y) {
  return mul(x, y);
}
#endif
