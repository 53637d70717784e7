// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// Dimensions count from 0: a matrix has dimension 0 (its rows) and
/// dimension 1. `Expected` names the last dimension that exists.
// expect: LayoutError<Reason::tensor_has_no_such_dimension, On<tp>, Expected<Shard<1>>, Got<Shard<2>>, Cure<Hint::name_an_existing_dimension>>

#include <shardwise/shardwise.hpp>

using namespace shardwise;
template <class P>
using Matrix = Tensor<float, 2, Mesh<tp>, P>;

#ifdef SHOULD_FAIL
auto columns(const Matrix<Shard<0>>& x) {
  return redistribute<tp, Shard<2>>(x);
}
#else
auto columns(const Matrix<Shard<0>>& x) {
  return redistribute<tp, Shard<1>>(x);
}
#endif
