// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

// expect: LayoutError<Reason::name_or_form_of_another_library, Cure<Hint::let_an_optimizer_such_as_SGD_change_the_parameter>>

#include <shardwise/shardwise.hpp>

using namespace shardwise;
using Matrix = Tensor<float, 2, Mesh<dp>, Shard<0>>;
using Model = Linear<Mesh<dp>>;

#ifdef SHOULD_FAIL
void step(Linear<Mesh<dp>>& layer) {
  layer.weight -= 0.1 * layer.weight.gradient();
}
#else
void step(Linear<Mesh<dp>>& layer) {
  SGD({.rate = 0.1}).step(layer);
}
#endif
