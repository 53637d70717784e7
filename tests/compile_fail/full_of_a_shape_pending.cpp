// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

// expect: LayoutError<Reason::finished_tensor_cannot_be_made_pending, Got<Partial<>>, Cure<Hint::make_it_Replicate_then_redistribute>>

#include <shardwise/mesh/mesh.hpp>
#include <shardwise/tensor/factories.hpp>

using namespace shardwise;

#ifdef SHOULD_FAIL
auto ones_like(const Tensor<float, 2, Mesh<tp>, Replicate>& x) {
  return full<float, Partial<>>(x.mesh(), x.shape(), 1.0F);
}
#else
auto ones_like(const Tensor<float, 2, Mesh<tp>, Replicate>& x) {
  return full<float, Replicate>(x.mesh(), x.shape(), 1.0F);
}
#endif
