// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// Tensors of integers hold ids, for `embedding` or as targets of `CrossEntropyLoss`. Programs
/// can move them (`redistribute`, `transpose`, `reshape`), but not compute with them.
// expect: LayoutError<Reason::operation_needs_floating_point_numbers, Got<int>, Cure<Hint::use_a_tensor_of_float_or_double>>

#include <shardwise/mesh/mesh.hpp>
#include <shardwise/ops/activation.hpp>

using namespace shardwise;
template <class T>
using Rows = Tensor<T, 2, Mesh<tp>, Shard<0>>;

#ifdef SHOULD_FAIL
auto activated(const Rows<int>& x) {
  return relu(x);
}
#else
auto activated(const Rows<float>& x) {
  return relu(x);
}
#endif
