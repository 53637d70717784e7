// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

// expect: LayoutError<Reason::this_is_written_otherwise_here, Cure<Hint::leave_it_out_and_give_dropout_the_step>>

#include <shardwise/shardwise.hpp>

using namespace shardwise;

#ifdef SHOULD_FAIL
void begin(Mlp<Mesh<tp>>& model) {
  model.train();
}
#else
void begin(Mlp<Mesh<tp>>& model) {
  initialize(model, 1);
}
#endif
