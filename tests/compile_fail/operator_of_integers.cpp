// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

// expect: LayoutError<Reason::operation_needs_floating_point_numbers, Got<int>, Cure<Hint::use_a_tensor_of_float_or_double>>

#include <shardwise/shardwise.hpp>

using namespace shardwise;
template <class T>
using Rows = Tensor<T, 2, Mesh<tp>, Shard<0>>;

#ifdef SHOULD_FAIL
auto doubled(const Rows<int>& x) {
  return 2 * x;
}
#else
auto doubled(const Rows<float>& x) {
  return 2 * x;
}
#endif
