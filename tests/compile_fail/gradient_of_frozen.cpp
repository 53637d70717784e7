// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// The type of a parameter says whether it is trained. A frozen parameter has no gradient.
// expect: LayoutError<Reason::frozen_parameter_has_no_gradient, Got<Parameter<Tensor<float, 2, Mesh<tp>, Shard<0>>.*>>, Cure<Hint::remove_Frozen_or_Lora_from_its_style>>

#include <shardwise/mesh/mesh.hpp>
#include <shardwise/nn/linear.hpp>

using namespace shardwise;

#ifdef SHOULD_FAIL
auto gradient(const Linear<Mesh<tp>, Styles<ColwiseParallel<tp>, Frozen>>& up) {
  return up.weight.gradient();
}
#else
auto gradient(const Linear<Mesh<tp>, ColwiseParallel<tp>>& up) {
  return up.weight.gradient();
}
#endif
