// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

// expect: LayoutError<Reason::operation_needs_floating_point_numbers, Got<int>, Cure<Hint::use_a_tensor_of_float_or_double>>

#include <shardwise/mesh/mesh.hpp>
#include <shardwise/tensor/factories.hpp>

using namespace shardwise;

#ifdef SHOULD_FAIL
auto ids(const Mesh<tp>& mesh) {
  return uniform<int, Replicate>(mesh, {4, 16}, 1, 0, 100);
}
#else
auto ids(const Mesh<tp>& mesh) {
  return uniform<float, Replicate>(mesh, {4, 16}, 1, 0, 100);
}
#endif
