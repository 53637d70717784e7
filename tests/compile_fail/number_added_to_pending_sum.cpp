// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

// Each rank would add the number to its own term.
// expect: LayoutError<Reason::operation_is_not_linear_so_it_needs_the_finished_sum, On<tp>, Expected<Replicate>, Got<Partial<>>, Cure<Hint::redistribute_to_Replicate_to_finish_the_reduction>>

#include <shardwise/shardwise.hpp>

using namespace shardwise;
using Terms = Tensor<float, 2, Mesh<tp>, Partial<>>;

#ifdef SHOULD_FAIL
auto moved(const Terms& x) {
  return 1.0 - x;
}
#else
auto moved(const Terms& x) {
  return 1.0 - redistribute<tp, Replicate>(x);
}
#endif
