// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

// expect: LayoutError<Reason::operation_needs_this_dimension_whole_on_every_rank, On<tp>, Expected<Shard<0>>, Got<Shard<1>>, Cure<Hint::redistribute_to_what_is_Expected>>

#include <shardwise/linalg/qr.hpp>
#include <shardwise/mesh/mesh.hpp>

using namespace shardwise;
template <class P>
using Matrix = Tensor<float, 2, Mesh<tp>, P>;

#ifdef SHOULD_FAIL
auto basis(const Matrix<Shard<1>>& x) {
  return qr(x).q;
}
#else
auto basis(const Matrix<Shard<1>>& x) {
  return qr(redistribute<tp, Shard<0>>(x)).q;
}
#endif
