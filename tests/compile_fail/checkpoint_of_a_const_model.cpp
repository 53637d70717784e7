// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

// What is saved is what is loaded, so it can change.
// expect: LayoutError<Reason::this_is_written_otherwise_here, Cure<Hint::give_it_a_tensor_model_or_int64_not_const_or_an_optimizer_and_its_model>>

#include <shardwise/checkpoint/contents.hpp>
#include <shardwise/shardwise.hpp>

using namespace shardwise;

#ifdef SHOULD_FAIL
void fill(CheckpointContents& run, const Linear<Mesh<tp>>& model) {
  run.add("model", model);
}
#else
void fill(CheckpointContents& run, Linear<Mesh<tp>>& model) {
  run.add("model", model);
}
#endif
