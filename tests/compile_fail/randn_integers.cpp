// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

// expect: LayoutError<Reason::operation_needs_floating_point_numbers, Got<long.*>, Cure<Hint::use_a_tensor_of_float_or_double>>

#include <shardwise/mesh/mesh.hpp>
#include <shardwise/tensor/factories.hpp>

using namespace shardwise;

#ifdef SHOULD_FAIL
auto ids(const Mesh<tp>& mesh) {
  return randn<std::int64_t, Replicate>(mesh, Shape<2>{4, 16}, 1);
}
#else
auto ids(const Mesh<tp>& mesh) {
  return randn<double, Replicate>(mesh, Shape<2>{4, 16}, 1);
}
#endif
