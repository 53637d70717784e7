// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// A Llama in a pipeline whose stages have sequences sharded from end to end: loss, norm and all gradients of one rank that
/// has the whole model and whole sequences.

#include <doctest/doctest.h>
#include <shardwise/llm/models/llama/model.hpp>
#include <shardwise/nn/linear_cross_entropy_loss.hpp>
#include <shardwise/nn/ring_attention.hpp>
#include <shardwise/pipeline/pipeline.hpp>
#include <shardwise/schedule/one_forward_one_backward.hpp>
#include <shardwise/schedule/v_shapes.hpp>
#include <shardwise/shardwise.hpp>

#include <map>
#include <string>
#include <vector>

#include "module_check.hpp"

namespace shardwise::testing {
namespace {

using namespace shardwise::llm;

using Job = Mesh<pp, dp, cp>;
constexpr Index batch = 4, length = 11;
constexpr int micro_batches = 4;
constexpr LlamaConfig config{
    .vocabulary = 23, .features = 16, .layers = 5, .heads = 4, .kv_heads = 4, .hidden = 10, .tied = true};

template <class Positions>
auto integers(const auto& mesh, auto number) {
  std::vector<std::int32_t> all;
  for (Index row = 0; row < batch; ++row) {
    for (Index i = 0; i < length; ++i) all.push_back(static_cast<std::int32_t>(number(row, i)));
  }
  return distribute<Shard<0>, Positions>(mesh, Shape<2>{batch, length}, std::span<const std::int32_t>(all));
}
template <class Positions = Shard<1>>
auto ids_on(const auto& mesh, int number) {
  return integers<Positions>(mesh, [=](Index row, Index i) { return (row * 11 + i * i + 5 * number) % 23; });
}
template <class Positions = Shard<1>>
auto targets_on(const auto& mesh, int number) {
  return integers<Positions>(mesh,
                             [=](Index row, Index i) { return i == 9 ? -100 : (row + i * number) % 23; });
}
auto documents_on(const auto& mesh, int number) {
  return integers<Replicate>(mesh, [=](Index row, Index i) { return i > 9 ? -1 : (i + row + number) / 6; });
}

struct Found {
  double loss = 0, norm = 0;
  Outcome gradients;
};

using Alone = LlamaPlan<NoParallel, NoParallel, NoParallel, NoParallel>;
template <class Inner>
using With = PlanAnd<Alone, Use<"layers.*.attention.inner_attention", Inner>>;

/// On a dry job it only counts.
template <class Plan, class JobType>
Found in_pipeline(const JobType& job, const PipelineSchedule& schedule, bool recomputes, bool gather = true) {
  const Pipeline pipeline(job, schedule);
  using Stage = typename Pipeline<JobType>::StageMesh;
  using Part = Llama<Stage, Plan, double>;
  auto stages = pipeline.stages([&](int stage, const Stage& mesh) {
    Part part(mesh, config, LlamaPart::of(config, pipeline.schedule().rank_of_stage, stage));
    part.recompute_layers = recomputes;
    return part;
  });
  initialize(stages, 3);
  const Stage& mesh = pipeline.mesh();
  Found found;
  found.loss = pipeline.run(
      stages, Shape<3>{batch, length, config.features},
      [&](Tape& tape, Part& part, int i) { return part.begin(tape.constant(ids_on(mesh, i))); },
      [&](Part& part, const auto& x, int i) { return part.middle(x, documents_on(mesh, i)); },
      [&](Part& part, const auto& x, int i) {
        return scale(part.end(x, targets_on(mesh, i), LinearCrossEntropyLoss()), 1. / micro_batches);
      });
  found.norm = pipeline.clip_gradients(stages, 0.5);
  if (!job.dry() && gather) found.gradients = gradients_of(stages);
  return found;
}

Found expected() {
  const Mesh<dp, tp> mesh(self(), {1, 1});
  Llama<Mesh<dp, tp>, Alone, double> model(mesh, config);
  initialize(model, 3);
  Found found;
  for (int i = 0; i < micro_batches; ++i) {
    Tape tape;
    auto logits = model(tape.constant(ids_on<Replicate>(mesh, i)), documents_on(mesh, i));
    const auto loss =
        scale(CrossEntropyLoss()(std::move(logits), targets_on<Replicate>(mesh, i)), 1. / micro_batches);
    found.loss += item(loss.value());
    tape.backward(loss);
  }
  found.norm = clip_gradients(model, 0.5);
  found.gradients = gradients_of(model);
  return found;
}

void check(const Found& found, const Found& right) {
  CHECK(std::abs(found.loss - right.loss) < 1e-13);
  CHECK(std::abs(found.norm - right.norm) < 1e-13);
  CHECK(!found.gradients.empty());
  for (const auto& parameter : found.gradients) {
    INFO(parameter.first);
    REQUIRE(right.gradients.count(parameter.first) == 1);
    CHECK(error(parameter.second, right.gradients.at(parameter.first)) < 1e-12);
  }
}

}  // namespace

TEST_CASE("stages whose sequences are sharded give what one rank does") {
  const int ranks = world().size();
  const Found right = expected();
  for (const int stages : {1, 2, 4}) {
    for (const int context : {1, 2, 4}) {
      if (ranks % (stages * context) != 0) continue;
      const int data = ranks / stages / context;
      if (data > batch) continue;
      const Job job(world(), {stages, data, context});
      std::map<std::string, PipelineSchedule> schedules{
          {"1f1b", one_forward_one_backward(stages, micro_batches)}};
      if (stages == 2) {
        schedules.emplace("interleaved", interleaved(stages, 2, micro_batches));
        schedules.emplace("zb-v", zb_v(stages, micro_batches));
      }
      for (const auto& entry : schedules) {
        INFO("pp ", stages, " dp ", data, " cp ", context, ", ", entry.first);
        check(in_pipeline<With<Ring<cp>>>(job, entry.second, false), right);
        if (entry.first != "1f1b") continue;
        check(in_pipeline<PlanWith<With<Ring<cp>>, FullyShard<AxisList<dp, cp>>>>(job, entry.second, true),
              right);
        check(in_pipeline<PlanWith<With<Ulysses<cp>>, Zero<1, AxisList<dp, cp>>>>(job, entry.second, false),
              right);
        check(in_pipeline<With<GatherKeys<cp>>>(job, entry.second, true), right);
      }
    }
  }
}

TEST_CASE("a rank records what was planned for it") {
  using Plan = PlanWith<With<Ring<cp>>, FullyShard<AxisList<dp, cp>>>;
  const int ranks = world().size(), stages = ranks % 2 == 0 ? 2 : 1;
  const Job job(world(), {stages, 1, any});
  const PipelineSchedule schedule = one_forward_one_backward(stages, micro_batches);
  const auto plan =
      agreed_plan(job, [&](const auto& mesh) { in_pipeline<Plan>(mesh, schedule, true, false); });
  if (ranks > 1) CHECK(plan.count(Collective::send) > 0);
}

}  // namespace shardwise::testing
