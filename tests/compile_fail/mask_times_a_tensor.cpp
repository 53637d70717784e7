// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// A comparison gives a mask of `std::uint8_t`, which is not a number to multiply by: `where` takes it.
// expect: LayoutError<Reason::operands_have_different_element_types, Got<unsigned char, float>, Cure<Hint::use_where_if_it_is_a_mask>>

#include <shardwise/shardwise.hpp>

using namespace shardwise;
using Rows = Tensor<float, 2, Mesh<tp>, Shard<0>>;

#ifdef SHOULD_FAIL
auto positive(const Rows& x) {
  return greater(x, 0) * x;
}
#else
auto positive(const Rows& x) {
  return where(greater(x, 0), x, 0);
}
#endif
