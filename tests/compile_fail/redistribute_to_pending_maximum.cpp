// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// A pending maximum comes only from `max` over a dimension that is cut. A value can be written
/// as a sum with zeros (as in a redistribution to `Partial<Sum>`), but not as a maximum.
// expect: LayoutError<Reason::nothing_can_become_a_pending_maximum_or_minimum, On<tp>, Expected<Replicate>, Got<Partial<Max>>, Cure<Hint::use_max_over_a_sharded_dimension>>

#include <shardwise/mesh/mesh.hpp>
#include <shardwise/tensor/redistribute.hpp>

using namespace shardwise;
template <class P>
using Matrix = Tensor<float, 2, Mesh<tp>, P>;

#ifdef SHOULD_FAIL
auto terms(const Matrix<Shard<0>>& x) {
  return redistribute<tp, Partial<Max>>(x);
}
#else
auto terms(const Matrix<Shard<0>>& x) {
  return redistribute<tp, Replicate>(x);
}
#endif
