// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

// expect: LayoutError<Reason::name_or_form_of_another_library, Cure<Hint::write_the_dimension_in_angle_brackets>>

#include <shardwise/shardwise.hpp>

using namespace shardwise;
using Rows = Tensor<float, 2, Mesh<tp>, Shard<0>>;

#ifdef SHOULD_FAIL
auto joined(const Rows& a, const Rows& b) {
  return cat(a, b, 1);
}
#else
auto joined(const Rows& a, const Rows& b) {
  return cat<1>(a, b);
}
#endif
