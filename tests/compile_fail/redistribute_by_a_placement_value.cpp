// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

// expect: LayoutError<Reason::name_or_form_of_another_library, Cure<Hint::write_placements_in_angle_brackets>>

#include <shardwise/shardwise.hpp>

using namespace shardwise;

#ifdef SHOULD_FAIL
auto cut(const Tensor<float, 2, Mesh<tp>, Replicate>& x) {
  return redistribute(x, shard(0));
}
#else
auto cut(const Tensor<float, 2, Mesh<tp>, Replicate>& x) {
  return redistribute<Shard<0> >(x);
}
#endif
