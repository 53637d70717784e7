// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

// expect: LayoutError<Reason::tensor_has_no_such_dimension, On<tp>, Expected<Shard<2>>, Got<Shard<3>>, Cure<Hint::name_an_existing_dimension>, InA<Prepared>>

#include <shardwise/mesh/mesh.hpp>
#include <shardwise/nn/linear.hpp>
#include <shardwise/parallel/plan.hpp>

using namespace shardwise;
using X = Tensor<float, 3, Mesh<dp, tp>, Shard<0>, Shard<2>>;
struct Identity {
  auto operator()(const auto& x) const {
    return x;
  }
};

#ifdef SHOULD_FAIL
auto call(const Prepared<Identity, PrepareModuleInput<tp, Shard<3>>>& module, const X& x) {
  return module(x);
}
#else
auto call(const Prepared<Identity, PrepareModuleInput<tp, Shard<1>>>& module, const X& x) {
  return module(x);
}
#endif
