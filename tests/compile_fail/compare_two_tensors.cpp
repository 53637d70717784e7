// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

// expect: LayoutError<Reason::name_or_form_of_another_library, Cure<Hint::use_less_greater_or_equal_and_for_std_max_and_min_maximum_and_minimum>>

#include <shardwise/shardwise.hpp>

using namespace shardwise;
using Rows = Tensor<float, 2, Mesh<tp>, Shard<0>>;

#ifdef SHOULD_FAIL
auto larger(const Rows& a, const Rows& b) {
  return a < b ? b : a;  // as std::max(a, b) has it
}
#else
auto larger(const Rows& a, const Rows& b) {
  return maximum(a, b);
}
#endif
