// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

// expect: LayoutError<Reason::this_is_written_otherwise_here, Cure<Hint::give_the_optimizer_settings_and_step_the_model>>

#include <shardwise/shardwise.hpp>

using namespace shardwise;

#ifdef SHOULD_FAIL
void train(Mlp<Mesh<tp>>& model) {
  AdamW adamw(model, {.rate = 1e-3});
}
#else
void train(Mlp<Mesh<tp>>& model) {
  AdamW adamw({.rate = 1e-3});
  adamw.step(model);
}
#endif
