// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

// expect: LayoutError<Reason::name_or_form_of_another_library, Cure<Hint::let_the_lambda_capture_nothing_and_take_arguments_instead>>

#include <shardwise/mesh/mesh.hpp>
#include <shardwise/nn/mlp.hpp>
#include <shardwise/train/recompute.hpp>

using namespace shardwise;
using X = Var<Tensor<float, 2, Mesh<tp>, Replicate>>;

#ifdef SHOULD_FAIL
auto halved(const Mlp<Mesh<tp>>& mlp, const X& x) {
  const float half = 0.5f;
  return recompute([&](const auto& in) { return scale(mlp(in), half); }, x);
}
#else
auto halved(const Mlp<Mesh<tp>>& mlp, const X& x) {
  const float half = 0.5f;
  return recompute([](const auto& layer, const auto& in, float factor) { return scale(layer(in), factor); },
                   mlp, x, half);
}
#endif
