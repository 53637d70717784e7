// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

// expect: LayoutError<Reason::tensor_has_no_such_dimension, On<tp>, Expected<Shard<1>>, Got<Shard<2>>, Cure<Hint::name_an_existing_dimension>>

#include <shardwise/mesh/mesh.hpp>
#include <shardwise/tensor/redistribute.hpp>

using namespace shardwise;
template <class P>
using Matrix = Tensor<float, 2, Mesh<tp>, P>;

#ifdef SHOULD_FAIL
auto columns(const Matrix<Shard<0>>& x) {
  return redistribute_async<tp, Shard<2>>(x).wait();
}
#else
auto columns(const Matrix<Shard<0>>& x) {
  return redistribute_async<tp, Shard<1>>(x).wait();
}
#endif
