// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

// expect: LayoutError<Reason::gradient_of_a_pending_maximum_or_minimum_is_not_defined, Got<Tensor<float, 2, Mesh<tp>, Partial<Max>>>, Cure<Hint::redistribute_before_the_reduction>>

#include <shardwise/mesh/mesh.hpp>
#include <shardwise/ops/reshape.hpp>

using namespace shardwise;
template <class P>
using Matrix = Tensor<float, 2, Mesh<tp>, P>;

#ifdef SHOULD_FAIL
auto largest(const Var<Matrix<Partial<Max>>>& x) {
  return reshape(x, {64 * 32});
}
#else
auto largest(const Var<Matrix<Partial<Max>>>& x) {
  return reshape(x.value(), {64 * 32});
}
#endif
