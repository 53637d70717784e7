// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

// expect: LayoutError<Reason::operand_is_still_in_flight, Got<InFlight<Tensor<float, 2, Mesh<tp>, Replicate>>>, Cure<Hint::keep_it_without_const_and_call_wait_first>>

#include <shardwise/autograd/redistribute.hpp>
#include <shardwise/mesh/mesh.hpp>

using namespace shardwise;
template <class P>
using Matrix = Tensor<float, 2, Mesh<tp>, P>;

#ifdef SHOULD_FAIL
auto early(const Matrix<Shard<0>>& x) {
  return redistribute<tp, Shard<1>>(redistribute_async<tp, Replicate>(x));
}
#else
auto in_time(const Matrix<Shard<0>>& x) {
  return redistribute<tp, Shard<1>>(redistribute_async<tp, Replicate>(x).wait());
}
#endif
