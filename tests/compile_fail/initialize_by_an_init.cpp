// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

// expect: LayoutError<Reason::name_or_form_of_another_library, Cure<Hint::pass_Init_to_the_modules_and_a_seed_here>>

#include <shardwise/shardwise.hpp>

using namespace shardwise;
using Matrix = Tensor<float, 2, Mesh<dp>, Shard<0>>;
using Model = Linear<Mesh<dp>>;

#ifdef SHOULD_FAIL
void begin(const Mesh<dp>& mesh) {
  Linear<Mesh<dp>> layer(mesh, 8, 8);
  initialize(layer, Init::normal(0.02));
}
#else
void begin(const Mesh<dp>& mesh) {
  Linear<Mesh<dp>> layer(mesh, {8}, {8}, Init::normal(0.02));
  initialize(layer, 1);
}
#endif
