// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

// expect: LayoutError<Reason::mesh_has_no_such_axis, Expected<AxisList<dp>>, Got<tp>, Cure<Hint::name_an_axis_of_the_mesh>>

#include <shardwise/shardwise.hpp>

using namespace shardwise;

#ifdef SHOULD_FAIL
auto model(const Mesh<dp>& mesh) {
  return LanguageModel<Mesh<dp>>(mesh, {});
}
#else
auto model(const Mesh<dp, tp>& mesh) {
  return LanguageModel<Mesh<dp, tp>>(mesh, {});
}
#endif
