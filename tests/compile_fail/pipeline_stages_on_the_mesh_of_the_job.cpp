// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

// expect: LayoutError<Reason::operands_are_on_different_meshes, Expected<Mesh<dp, tp>>, Cure<Hint::use_the_same_mesh_for_both>>

#include <shardwise/pipeline/pipeline.hpp>
#include <shardwise/shardwise.hpp>

using namespace shardwise;
using Job = Mesh<pp, dp, tp>;

#ifdef SHOULD_FAIL
auto stages(const Pipeline<Job>& pipeline, const Job& job) {
  return pipeline.stages([&](int, const auto&) { return Mlp<Job>(job, 64, 256); });
}
#else
auto stages(const Pipeline<Job>& pipeline) {
  return pipeline.stages([](int, const auto& mesh) { return Mlp<Mesh<dp, tp> >(mesh, 64, 256); });
}
#endif
