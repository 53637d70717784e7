// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

// expect: LayoutError<Reason::name_or_form_of_another_library, Cure<Hint::pass_the_model_or_call_for_each_parameter>>

#include <shardwise/shardwise.hpp>

using namespace shardwise;
using Net = Linear<Mesh<tp>, ColwiseParallel<tp>>;

#ifdef SHOULD_FAIL
void step(AdamW& adamw, Net&, Tape& tape) {
  adamw.step(tape);
}
#else
void step(AdamW& adamw, Net& net, Tape&) {
  adamw.step(net);
}
#endif
