// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

// expect: LayoutError<Reason::operands_have_different_element_types, Got<int, float>, Cure<Hint::give_both_the_same_element_type>>

#include <shardwise/mesh/mesh.hpp>
#include <shardwise/ops/linear.hpp>

using namespace shardwise;
template <class T>
using Rows = Tensor<T, 2, Mesh<tp>, Replicate>;

#ifdef SHOULD_FAIL
auto product(const Rows<int>& x, const Rows<float>& weight) {
  return linear(x, weight);
}
#else
auto product(const Rows<float>& x, const Rows<float>& weight) {
  return linear(x, weight);
}
#endif
