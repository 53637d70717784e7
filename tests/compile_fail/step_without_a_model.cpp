// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

// expect: LayoutError<Reason::name_or_form_of_another_library, Cure<Hint::pass_settings_to_the_optimizer_and_the_model_to_step>>

#include <shardwise/shardwise.hpp>

using namespace shardwise;
using Model = Mlp<Mesh<tp>>;

#ifdef SHOULD_FAIL
void train(AdamW& adamw, Model&) {
  adamw.step();
}
#else
void train(AdamW& adamw, Model& model) {
  adamw.step(model);
}
#endif
