// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

// expect: LayoutError<Reason::tensor_has_no_such_dimension, On<tp>, Expected<Shard<1>>, Got<Shard<2>>, Cure<Hint::name_an_existing_dimension>>

#include <shardwise/mesh/mesh.hpp>
#include <shardwise/tensor/factories.hpp>

using namespace shardwise;

#ifdef SHOULD_FAIL
auto start(const Mesh<dp, tp>& mesh) {
  return randn<float, Shard<0>, Shard<2>>(mesh, {64, 32}, 1);
}
#else
auto start(const Mesh<dp, tp>& mesh) {
  return randn<float, Shard<0>, Shard<1>>(mesh, {64, 32}, 1);
}
#endif
