// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// `end` takes the result of `middle`, which has the type of the result of `begin`.
// expect: LayoutError<Reason::stage_does_not_accept_previous_output, Got<Var<Tensor<float, 2, Mesh<dp, tp>, Shard<0>, Replicate>, true>>, Cure<Hint::stages_must_preserve_the_tensor_type>>

#include <shardwise/pipeline/pipeline.hpp>
#include <shardwise/schedule/one_forward_one_backward.hpp>
#include <shardwise/shardwise.hpp>

using namespace shardwise;
using Part = Mlp<Mesh<dp, tp>>;
template <class... P>
using Features = Tensor<float, 2, Mesh<dp, tp>, P...>;

#ifdef SHOULD_FAIL
double step(const Pipeline<Mesh<pp, dp, tp>>& pipeline, Stages<Part>& stages,
            const Features<Shard<0>, Replicate>& data) {
  auto begin = [&](Tape& tape, Part&, int) { return tape.input(data); };
  auto middle = [](Part& part, const auto& x) { return part(x); };
  auto end = [](Part&, const Var<Features<Replicate, Replicate>>& x, int) { return mean(x); };
  return pipeline.run(stages, {16, 8}, begin, middle, end);
}
#else
double step(const Pipeline<Mesh<pp, dp, tp>>& pipeline, Stages<Part>& stages,
            const Features<Shard<0>, Replicate>& data) {
  auto begin = [&](Tape& tape, Part&, int) { return tape.input(data); };
  auto middle = [](Part& part, const auto& x) { return part(x); };
  auto end = [](Part&, const Var<Features<Shard<0>, Replicate>>& x, int) {
    return redistribute<Replicate, Replicate>(mean(x));
  };
  return pipeline.run(stages, {16, 8}, begin, middle, end);
}
#endif
