// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// `mul` multiplies two tensors element by element. For a product with a number use `scale`.
// expect: LayoutError<Reason::argument_is_not_a_tensor, Got<Tensor<float, 2, Mesh<tp>, Shard<0>>, double>, Cure<Hint::pass_a_tensor_a_Var_or_a_parameter>>

#include <shardwise/mesh/mesh.hpp>
#include <shardwise/ops/arithmetic.hpp>

using namespace shardwise;
using Rows = Tensor<float, 2, Mesh<tp>, Shard<0>>;

#ifdef SHOULD_FAIL
auto doubled(const Rows& x) {
  return mul(x, 2.0);
}
#else
auto doubled(const Rows& x) {
  return scale(x, 2.0);
}
#endif
