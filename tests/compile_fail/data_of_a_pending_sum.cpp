// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

// expect: LayoutError<Reason::value_is_pending_on_every_rank, Got<Tensor<float, 2, Mesh<tp>, Partial<>>>, Cure<Hint::redistribute_to_Replicate_to_finish_the_reduction>>

#include <shardwise/mesh/mesh.hpp>
#include <shardwise/tensor/tensor.hpp>

using namespace shardwise;
using Terms = Tensor<float, 2, Mesh<tp>, Partial<>>;

#ifdef SHOULD_FAIL
auto block(const Terms& x) {
  return x.data();
}
#else
auto block(const Terms& x) {
  return x.view().data;
}
#endif
