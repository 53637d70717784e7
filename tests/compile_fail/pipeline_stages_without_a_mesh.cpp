// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

// expect: LayoutError<Reason::name_or_form_of_another_library, Cure<Hint::let_it_take_the_stage_and_its_mesh_and_return_the_part>>

#include <shardwise/pipeline/pipeline.hpp>
#include <shardwise/shardwise.hpp>

using namespace shardwise;
using Job = Mesh<pp, tp>;
using Part = Mlp<Mesh<tp>>;
using X = Tensor<float, 2, Mesh<tp>, Replicate>;

#ifdef SHOULD_FAIL
auto parts(const Pipeline<Job>& pipeline) {
  return pipeline.stages([&](int) { return Part(pipeline.mesh(), 8, 8); });
}
#else
auto parts(const Pipeline<Job>& pipeline) {
  return pipeline.stages([](int, const Mesh<tp>& mesh) { return Part(mesh, 8, 8); });
}
#endif
