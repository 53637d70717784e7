// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

// expect: LayoutError<Reason::name_or_form_of_another_library, Cure<Hint::pass_a_tensor_and_use_parameters_as_they_are>>

#include <shardwise/shardwise.hpp>

using namespace shardwise;
using Layer = Linear<Mesh<tp>>;
using X = Var<Tensor<float, 2, Mesh<tp>, Replicate>>;

#ifdef SHOULD_FAIL
auto use(Tape& tape, const Layer& layer) {
  return tape.constant(layer.weight);
}
#else
auto use(const X& x, const Layer& layer) {
  return linear(x, layer.weight);
}
#endif
