// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// The gradient of a maximum goes to the largest element alone. A rank that knows only its own
/// block cannot decide whether it holds this element. Without a tape the operation is legal.
// expect: LayoutError<Reason::gradient_of_a_pending_maximum_or_minimum_is_not_defined, Got<Tensor<float, 1, Mesh<tp>, Partial<Max>>>, Cure<Hint::redistribute_before_the_reduction>>

#include <shardwise/mesh/mesh.hpp>
#include <shardwise/ops/reduction.hpp>

using namespace shardwise;
template <class P>
using Matrix = Tensor<float, 2, Mesh<tp>, P>;

#ifdef SHOULD_FAIL
auto largest(const Var<Matrix<Shard<1>>>& x) {
  return max<1>(x);
}
#else
auto largest(const Var<Matrix<Shard<1>>>& x) {
  return max<1>(redistribute<tp, Shard<0>>(x));
}
#endif
