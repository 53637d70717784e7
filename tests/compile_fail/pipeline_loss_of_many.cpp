// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

// expect: LayoutError<Reason::loss_is_not_a_scalar, Got<Tensor<float, 2, Mesh<dp, tp>, Shard<0>, Replicate>>, Cure<Hint::pass_it_with_the_targets_to_a_loss_such_as_mse_loss_or_CrossEntropyLoss>>

#include <shardwise/pipeline/pipeline.hpp>
#include <shardwise/schedule/one_forward_one_backward.hpp>
#include <shardwise/shardwise.hpp>

using namespace shardwise;
using Part = Mlp<Mesh<dp, tp>>;
using X = Tensor<float, 2, Mesh<dp, tp>, Shard<0>, Replicate>;

#ifdef SHOULD_FAIL
double step(const Pipeline<Mesh<pp, dp, tp>>& pipeline, Stages<Part>& stages, const X& data) {
  auto begin = [&](Tape& tape, Part&, int) { return tape.input(data); };
  auto middle = [](Part& part, const auto& x) { return part(x); };
  auto end = [](Part&, const auto& x, int) { return mul(x, x); };
  return pipeline.run(stages, {16, 8}, begin, middle, end);
}
#else
double step(const Pipeline<Mesh<pp, dp, tp>>& pipeline, Stages<Part>& stages, const X& data) {
  auto begin = [&](Tape& tape, Part&, int) { return tape.input(data); };
  auto middle = [](Part& part, const auto& x) { return part(x); };
  auto end = [](Part&, const auto& x, int) { return redistribute<Replicate, Replicate>(mean(mul(x, x))); };
  return pipeline.run(stages, {16, 8}, begin, middle, end);
}
#endif
