// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// The operands are on meshes with different axes. No operation moves one
/// operand to the other's mesh: make both on one mesh, or redistribute first.
// expect: LayoutError<Reason::operands_are_on_different_meshes, Got<Mesh<tp>, Mesh<dp>>, Cure<Hint::use_the_same_mesh_for_both>>

#include <shardwise/mesh/mesh.hpp>
#include <shardwise/ops/add.hpp>

using namespace shardwise;
template <class MeshType>
using Rows = Tensor<float, 2, MeshType, Shard<0>>;

#ifdef SHOULD_FAIL
auto both(const Rows<Mesh<tp>>& x, const Rows<Mesh<dp>>& y) {
  return add(x, y);
}
#else
auto both(const Rows<Mesh<tp>>& x, const Rows<Mesh<tp>>& y) {
  return add(x, y);
}
#endif
