// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

// expect: LayoutError<Reason::name_or_form_of_another_library, Cure<Hint::pass_the_input_first_and_then_the_layers>>

#include <shardwise/shardwise.hpp>

using namespace shardwise;
using Layers = std::vector<Mlp<Mesh<tp>>>;
using Matrix = Tensor<float, 2, Mesh<tp>, Replicate>;

#ifdef SHOULD_FAIL
auto all(const Layers& layers, const Matrix& x) {
  return sequential(layers, x);
}
#else
auto all(const Layers& layers, const Matrix& x) {
  return sequential(x, layers);
}
#endif
