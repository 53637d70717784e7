// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

// expect: LayoutError<Reason::pending_maximum_or_minimum_must_be_reduced_first, On<tp>, Expected<Replicate>, Got<Partial<>>, Cure<Hint::redistribute_to_Replicate_to_finish_the_reduction>>

#include <shardwise/mesh/mesh.hpp>
#include <shardwise/tensor/redistribute.hpp>

using namespace shardwise;
template <class P>
using Matrix = Tensor<float, 2, Mesh<tp>, P>;

#ifdef SHOULD_FAIL
auto sum(const Matrix<Partial<Max>>& x) {
  return redistribute<tp, Partial<Sum>>(x);
}
#else
auto sum(const Matrix<Partial<Max>>& x) {
  return redistribute<tp, Partial<Sum>>(redistribute<tp, Replicate>(x));
}
#endif
