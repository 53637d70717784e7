// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

// expect: LayoutError<Reason::name_or_form_of_another_library, Cure<Hint::pass_a_seed_as_the_next_argument>>

#include <shardwise/shardwise.hpp>

using namespace shardwise;
using Model = Mlp<Mesh<tp>>;

#ifdef SHOULD_FAIL
void begin(Model& model) {
  initialize(model);
}
#else
void begin(Model& model) {
  initialize(model, 1);
}
#endif
