// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

// expect: LayoutError<Reason::name_or_form_of_another_library, Cure<Hint::call_backward_of_the_tape>>

#include <shardwise/shardwise.hpp>

using namespace shardwise;
using Loss = Var<Tensor<float, 0, Mesh<tp>, Replicate>>;

#ifdef SHOULD_FAIL
void back(Tape&, const Loss& loss) {
  loss.backward();
}
#else
void back(Tape& tape, const Loss& loss) {
  tape.backward(loss);
}
#endif
