// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// Every rank would read its own term and take it for the
/// value. `item` does not communicate; `redistribute` does.
// expect: LayoutError<Reason::value_is_pending_on_every_rank, Got<Tensor<float, 0, Mesh<tp>, Partial<>>>, Cure<Hint::redistribute_to_Replicate_to_finish_the_reduction>>

#include <shardwise/mesh/mesh.hpp>
#include <shardwise/tensor/distribute.hpp>

using namespace shardwise;
template <class P>
using Scalar = Tensor<float, 0, Mesh<tp>, P>;

#ifdef SHOULD_FAIL
float value(const Scalar<Partial<>>& loss) {
  return item(loss);
}
#else
float value(const Scalar<Partial<>>& loss) {
  return item(redistribute<tp, Replicate>(loss));
}
#endif
