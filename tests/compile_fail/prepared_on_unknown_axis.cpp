// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

// expect: LayoutError<Reason::mesh_has_no_such_axis, Expected<AxisList<dp, tp>>, Got<kvr>, Cure<Hint::give_the_mesh_this_axis_where_its_size_may_be_1>, InA<Prepared>>

#include <shardwise/mesh/mesh.hpp>
#include <shardwise/parallel/prepare_module.hpp>

using namespace shardwise;
using X = Tensor<float, 3, Mesh<dp, tp>, Shard<0>, Shard<2>>;
struct Identity {
  auto operator()(const auto& x) const {
    return x;
  }
};

#ifdef SHOULD_FAIL
auto call(const Prepared<Identity, PrepareModuleInput<AxisList<tp, kvr>, Reduced>>& module, const X& x) {
  return module(x);
}
#else
auto call(const Prepared<Identity, PrepareModuleInput<AxisList<tp>, Reduced>>& module, const X& x) {
  return module(x);
}
#endif
