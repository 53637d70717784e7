// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// This function changes the model, so the model must not be const.
// expect: LayoutError<Reason::const_model_cannot_change, Got<const Mlp<Mesh<tp>.*>>, Cure<Hint::use_a_model_that_is_not_const>>

#include <shardwise/shardwise.hpp>

using namespace shardwise;

#ifdef SHOULD_FAIL
void step(AdamW& adamw, const Mlp<Mesh<tp>>& model) {
  adamw.step(model);
}
#else
void step(AdamW& adamw, Mlp<Mesh<tp>>& model) {
  adamw.step(model);
}
#endif
