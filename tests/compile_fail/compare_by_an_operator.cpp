// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

// expect: LayoutError<Reason::name_or_form_of_another_library, Cure<Hint::use_less_less_equal_greater_greater_equal_or_equal>>

#include <shardwise/shardwise.hpp>

using namespace shardwise;
using Rows = Tensor<float, 2, Mesh<tp>, Shard<0>>;

#ifdef SHOULD_FAIL
auto mask(const Rows& x) {
  return x < 0;
}
#else
auto mask(const Rows& x) {
  return less(x, 0);
}
#endif
