// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// The first argument of a layer's type is its mesh.
// expect: LayoutError<Reason::name_or_form_of_another_library, Cure<Hint::pass_the_mesh_first>>

#include <shardwise/shardwise.hpp>

using namespace shardwise;

#ifdef SHOULD_FAIL
auto layer(const Mesh<tp>& mesh) {
  return Linear<ColwiseParallel<tp>>(mesh, 4, 4);
}
#else
auto layer(const Mesh<tp>& mesh) {
  return Linear<Mesh<tp>, ColwiseParallel<tp>>(mesh, 4, 4);
}
#endif
