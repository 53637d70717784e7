// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

// expect: LayoutError<Reason::nothing_can_become_a_pending_maximum_or_minimum, Got<Partial<Max>>, Cure<Hint::use_max_over_a_sharded_dimension>>

#include <vector>

#include <shardwise/mesh/mesh.hpp>
#include <shardwise/tensor/distribute.hpp>

using namespace shardwise;

#ifdef SHOULD_FAIL
auto largest(const Mesh<tp>& mesh, const std::vector<float>& values) {
  return distribute<Partial<Max>>(mesh, {2, 3}, values);
}
#else
auto largest(const Mesh<tp>& mesh, const std::vector<float>& values) {
  return distribute<Partial<Sum>>(mesh, {2, 3}, values);
}
#endif
