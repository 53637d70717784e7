// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

// expect: LayoutError<Reason::tensor_has_no_such_dimension, On<tp>, Expected<Shard<1>>, Got<Shard<2>>, Cure<Hint::name_an_existing_dimension>, In<.*Linear.*>>

#include <shardwise/mesh/mesh.hpp>
#include <shardwise/nn/linear.hpp>

using namespace shardwise;
template <class P>
using Matrix = Tensor<float, 2, Mesh<tp>, P>;
template <class P>
using Down = Linear<Mesh<tp>, RowwiseParallel<tp, output<P>>>;

#ifdef SHOULD_FAIL
auto call(const Down<Shard<2>>& down, const Matrix<Shard<1>>& x) {
  return down(x);
}
#else
auto call(const Down<Shard<0>>& down, const Matrix<Shard<1>>& x) {
  return down(x);
}
#endif
