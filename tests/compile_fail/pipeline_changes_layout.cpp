// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// Each stage of a pipeline takes the output of the stage before it.
/// Both have the same layout, element type and rank, and a gradient.
// expect: LayoutError<Reason::stage_output_does_not_match_next_input, Expected<Var<Tensor<float, 2, Mesh<dp, tp>, Shard<0>, Replicate>, true>>, Got<Var<Tensor<float, 2, Mesh<dp, tp>, Shard<0>, Shard<1>>, true>>, Cure<Hint::stages_must_preserve_the_tensor_type>>

#include <shardwise/pipeline/pipeline.hpp>
#include <shardwise/schedule/one_forward_one_backward.hpp>
#include <shardwise/shardwise.hpp>

using namespace shardwise;
using Part = Mlp<Mesh<dp, tp>>;
using X = Tensor<float, 2, Mesh<dp, tp>, Shard<0>, Replicate>;

#ifdef SHOULD_FAIL
double step(const Pipeline<Mesh<pp, dp, tp>>& pipeline, Stages<Part>& stages, const X& data) {
  auto begin = [&](Tape& tape, Part&, int) { return tape.input(data); };
  auto middle = [](Part& part, const auto& x) { return redistribute<tp, Shard<1>>(part(x)); };
  auto end = [](Part&, const auto& x, int) { return redistribute<Replicate, Replicate>(mean(x)); };
  return pipeline.run(stages, {16, 8}, begin, middle, end);
}
#else
double step(const Pipeline<Mesh<pp, dp, tp>>& pipeline, Stages<Part>& stages, const X& data) {
  auto begin = [&](Tape& tape, Part&, int) { return tape.input(data); };
  auto middle = [](Part& part, const auto& x) { return part(x); };
  auto end = [](Part&, const auto& x, int) { return redistribute<Replicate, Replicate>(mean(x)); };
  return pipeline.run(stages, {16, 8}, begin, middle, end);
}
#endif
