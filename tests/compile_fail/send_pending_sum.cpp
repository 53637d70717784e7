// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

// expect: LayoutError<Reason::value_is_pending_on_every_rank, Got<Tensor<float, 2, Mesh<tp>, Partial<>>>, Cure<Hint::redistribute_to_Replicate_to_finish_the_reduction>>

#include <shardwise/tensor/from_mesh_to_mesh.hpp>

using namespace shardwise;
template <class P>
using Matrix = Tensor<float, 2, Mesh<tp>, P>;

#ifdef SHOULD_FAIL
void pass_on(const Matrix<Partial<>>& x, const MeshRanks<tp>& next) {
  send<Replicate>(x, next).wait();
}
#else
void pass_on(const Matrix<Partial<>>& x, const MeshRanks<tp>& next) {
  send<Replicate>(redistribute<tp, Replicate>(x), next).wait();
}
#endif
