// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// `redistribute_async` returns an `InFlight` while the data
/// are under way. `pending.wait()` returns the tensor.
// page: clang++ too
// expect: LayoutError<Reason::operand_is_still_in_flight, Got<InFlight<Tensor<float, 2, Mesh<tp>, Replicate>>>, Cure<Hint::keep_it_without_const_and_call_wait_first>>

#include <shardwise/shardwise.hpp>

using namespace shardwise;
template <class P>
using Matrix = Tensor<float, 2, Mesh<tp>, P>;

#ifdef SHOULD_FAIL
auto early(const Matrix<Shard<0>>& x) {
  auto whole = redistribute_async<tp, Replicate>(x);
  return relu(whole);
}
#else
auto in_time(const Matrix<Shard<0>>& x) {
  auto whole = redistribute_async<tp, Replicate>(x);
  return relu(whole.wait());
}
#endif
