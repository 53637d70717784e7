// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

// What is saved is what is loaded, so it can change.
// expect: LayoutError<Reason::name_or_form_of_another_library, Cure<Hint::pass_a_tensor_model_or_int64_not_const_or_an_optimizer_and_its_model>>

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
