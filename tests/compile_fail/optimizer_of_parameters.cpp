// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

// expect: LayoutError<Reason::name_or_form_of_another_library, Cure<Hint::pass_the_model_or_call_for_each_parameter>>

#include <shardwise/shardwise.hpp>

using namespace shardwise;
using Model = Mlp<Mesh<tp>>;

#ifdef SHOULD_FAIL
void train(Model& model) {
  AdamW adamw(model.parameters(), 1e-3);
  adamw.step(model);
}
#else
void train(Model& model) {
  AdamW adamw({.rate = 1e-3});
  adamw.step(model);
}
#endif
