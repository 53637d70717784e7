// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

// expect: LayoutError<Reason::operation_is_not_linear_so_it_needs_the_finished_sum, On<tp>, Expected<Replicate, Replicate, Replicate>, Got<Partial<>, Replicate, Replicate>, Cure<Hint::redistribute_to_Replicate_to_finish_the_reduction>>

#include <shardwise/mesh/mesh.hpp>
#include <shardwise/ops/attention.hpp>

using namespace shardwise;
template <class P>
using Heads = Tensor<float, 4, Mesh<tp>, P>;

#ifdef SHOULD_FAIL
auto attend(const Heads<Partial<>>& q, const Heads<Replicate>& k, const Heads<Replicate>& v) {
  return attention(q, k, v);
}
#else
auto attend(const Heads<Partial<>>& q, const Heads<Replicate>& k, const Heads<Replicate>& v) {
  return attention(redistribute<tp, Replicate>(q), k, v);
}
#endif
