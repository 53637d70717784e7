// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

// expect: LayoutError<Reason::name_or_form_of_another_library, Cure<Hint::remove_it_and_pass_dropout_the_step>>

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
