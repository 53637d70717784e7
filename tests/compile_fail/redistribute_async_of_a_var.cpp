// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

// What is under way has no gradient; on a tape, `redistribute` does it.
// expect: LayoutError<Reason::name_or_form_of_another_library, Cure<Hint::use_redistribute_on_a_tape>>

#include <shardwise/shardwise.hpp>

using namespace shardwise;
using X = Tensor<float, 2, Mesh<tp>, Shard<0>>;

#ifdef SHOULD_FAIL
auto gather(const Var<X>& x) {
  return redistribute_async<Replicate>(x);
}
#else
auto gather(const Var<X>& x) {
  return redistribute<Replicate>(x);
}
#endif
