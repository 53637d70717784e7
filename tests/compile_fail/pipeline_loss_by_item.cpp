// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

// expect: Reason::loss_depends_on_nothing_that_has_a_gradient, Got<float>, Cure<Hint::return_the_loss_itself_not_the_number_of_item>>

#include <shardwise/pipeline/pipeline.hpp>
#include <shardwise/shardwise.hpp>

using namespace shardwise;
using Job = Mesh<pp, tp>;
using Part = Mlp<Mesh<tp>>;
using X = Tensor<float, 2, Mesh<tp>, Replicate>;

#ifdef SHOULD_FAIL
double step(const Pipeline<Job>& pipeline, Stages<Part>& stages, const X& data) {
  auto begin = [&](Tape& tape, Part&, int) { return tape.input(data); };
  auto middle = [](Part& part, const auto& x) { return part(x); };
  auto end = [](Part&, const auto& x, int) { return item(mean(x)); };
  return pipeline.run(stages, {16, 8}, begin, middle, end);
}
#else
double step(const Pipeline<Job>& pipeline, Stages<Part>& stages, const X& data) {
  auto begin = [&](Tape& tape, Part&, int) { return tape.input(data); };
  auto middle = [](Part& part, const auto& x) { return part(x); };
  auto end = [](Part&, const auto& x, int) { return mean(x); };
  return pipeline.run(stages, {16, 8}, begin, middle, end);
}
#endif
