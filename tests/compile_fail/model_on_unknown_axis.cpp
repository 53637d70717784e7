// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

// expect: LayoutError<Reason::mesh_has_no_such_axis, Expected<AxisList<dp>>, Got<tp>, Cure<Hint::give_the_mesh_this_axis_where_its_size_may_be_1>>

#include <shardwise/shardwise.hpp>

using namespace shardwise;
using Line = Mesh<dp>;

template <class Style>
struct Model : Module<Model<Style>> {
  explicit Model(const Line& mesh) : layer(mesh, 16, 16) {
  }
  auto forward(const auto& x) const {
    return layer(x);
  }

  Linear<Line, Style> layer;
};

#ifdef SHOULD_FAIL
auto model(const Line& mesh) {
  return Model<ColwiseParallel<tp>>(mesh);
}
#else
auto model(const Line& mesh) {
  return Model<NoParallel>(mesh);
}
#endif
