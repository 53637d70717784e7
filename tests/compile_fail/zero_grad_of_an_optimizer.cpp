// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// A step clears the gradients. `clear_gradients(model)` clears them without a step.
// expect: LayoutError<Reason::name_or_form_of_another_library, Cure<Hint::remove_it_or_call_clear_gradients>>

#include <shardwise/shardwise.hpp>

using namespace shardwise;

#ifdef SHOULD_FAIL
void step(AdamW& optimizer, Linear<Mesh<tp>>& model) {
  optimizer.zero_grad();
  optimizer.step(model);
}
#else
void step(AdamW& optimizer, Linear<Mesh<tp>>& model) {
  optimizer.step(model);
}
#endif
