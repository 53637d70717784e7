// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// A step of a pipeline, counted by the compiler: what its stages send each other, and what happens within one as ever.

#include <shardwise/llm/models/llama/model.hpp>
#include <shardwise/mesh/trace.hpp>
#include <shardwise/nn/linear_cross_entropy_loss.hpp>
#include <shardwise/pipeline/pipeline.hpp>
#include <shardwise/schedule/one_forward_one_backward.hpp>
#include <shardwise/schedule/v_shapes.hpp>
#include <shardwise/train/adamw.hpp>

namespace shardwise {
namespace {

using namespace shardwise::llm;

using Job = Mesh<pp, dp, tp>;
using Stage = Mesh<dp, tp>;
constexpr LlamaConfig config{
    .vocabulary = 16, .features = 8, .layers = 4, .heads = 2, .kv_heads = 2, .hidden = 8, .tied = true};
constexpr Index batch = 4, length = 6;

/// What the rank at `coordinates` of 2 x 2 x 2 does in a step.
constexpr auto step(PipelineSchedule (*make)(int ranks, int micro_batches), int micro_batches,
                    const Job::SizesOf& coordinates) {
  return trace<Job>(
      {2, 2, 2},
      [&](const Job& job) {
        using Part = Llama<Stage>;
        const Pipeline pipeline(job, make(2, micro_batches));
        auto stages = pipeline.stages([&](int stage, const Stage& mesh) {
          return Part(mesh, config, LlamaPart::of(config, pipeline.schedule().rank_of_stage, stage));
        });
        AdamW adamw;
        const Tensor<std::int32_t, 2, Stage, Shard<0>, Replicate> ids(pipeline.mesh(), {batch, length});
        pipeline.run(
            stages, {batch, length, config.features},
            [&](Tape& tape, Part& part, int) { return part.begin(tape.constant(ids)); },
            [](Part& part, const auto& x) { return part.middle(x); },
            [&](Part& part, const auto& x, int) { return part.end(x, ids, LinearCrossEntropyLoss()); });
        pipeline.clip_gradients(stages, 1);
        adamw.step(stages);
      },
      coordinates);
}

using enum Collective;
constexpr Index block =
    batch / 2 * length * config.features * Index{sizeof(float)};  // of features, on 2 x 2 ranks
constexpr Index table = config.vocabulary / 2 * config.features * Index{sizeof(float)};

// A micro-batch is sent forward by the first rank, its gradient back by the last; so is the gradient of the tied table.
// The loss and the norm are one number each.
constexpr auto first = step(one_forward_one_backward, 3, {0, 1, 0});
static_assert(first.count<pp>(send) == 3 + 1 && first.count<pp>(send, Phase::forward) == 3);
static_assert(first.count<pp>(all_reduce) == 2);
static_assert(first.bytes<pp>() == 3 * block + table + 2 * Index{sizeof(double)});
// In a V, the first rank has the last stage too, and both copies of the table.
constexpr auto both_ends = step(zb_v, 2, {0, 1, 0});
static_assert(both_ends.count<pp>(send) == 2 + 2 && both_ends.count<pp>(send, Phase::forward) == 2);
static_assert(both_ends.bytes<pp>() == 4 * block + 2 * Index{sizeof(double)});

/// Of the parameters that the rank at `coordinates` keeps, of a model with 3 layers and a head of its own: a stage ends within one.
constexpr std::int64_t parameters_of(const Job::SizesOf& sizes, const Job::SizesOf& coordinates) {
  LlamaConfig odd = config;
  odd.layers = 3;
  odd.tied = false;
  Recorder recorder;
  const Job job(recorder, sizes, coordinates);
  const Pipeline pipeline(job, gpipe(sizes[0], 1));
  const auto stages = pipeline.stages([&](int stage, const Stage& mesh) {
    return Llama<Stage>(mesh, odd, LlamaPart::of(odd, pipeline.schedule().rank_of_stage, stage));
  });
  recorder.restart();
  return CommunicationPlan<pp, dp, tp>(recorder.record(), job.sizes()).parameter_bytes();
}
static_assert(parameters_of({2, 1, 1}, {0, 0, 0}) + parameters_of({2, 1, 1}, {1, 0, 0}) ==
              parameters_of({1, 1, 1}, {0, 0, 0}));

/// Halves of layers, of each stage.
template <int Stages>
constexpr std::array<Index, Stages> division(const LlamaConfig& model,
                                             const std::vector<int>& rank_of_stage) {
  std::array<Index, Stages> halves{};
  Index before = 0;
  for (int stage = 0; stage < Stages; ++stage) {
    const LlamaPart part = LlamaPart::of(model, rank_of_stage, stage);
    Index& here = halves[static_cast<std::size_t>(stage)];
    here = 2 * part.layers - int{part.begins_with_mlp} - int{part.ends_with_attention};
    const bool follows = 2 * part.first_layer + int{part.begins_with_mlp} == before;
    if ((here > 0 && !follows) || part.begins != (stage == 0) || part.ends != (stage + 1 == Stages))
      return {};
    before += here;
  }
  return before == 2 * model.layers ? halves : std::array<Index, Stages>{};
}
template <int Stages>
constexpr std::array<Index, Stages> division(const LlamaConfig& model) {
  std::vector<int> one_each;
  for (int stage = 0; stage < Stages; ++stage) one_each.push_back(stage);
  return division<Stages>(model, one_each);
}
constexpr LlamaConfig of_8_billion{.vocabulary = 128256,
                                   .features = 4096,
                                   .layers = 32,
                                   .heads = 32,
                                   .kv_heads = 8,
                                   .hidden = 14336,
                                   .context = 8192};
static_assert(of_8_billion.parameters() == 8'030'261'248);
// The head is like two layers, and the attention like a third of one.
static_assert(division<4>(of_8_billion) == std::array<Index, 4>{17, 17, 17, 13});
static_assert(division<2>(of_8_billion) == std::array<Index, 2>{34, 30});
// In turn on four ranks, which have 8.5 of 34 layers each: 8.3, 8.7, 8.7 and 8.4.
static_assert(division<8>(of_8_billion, {0, 1, 2, 3, 0, 1, 2, 3}) ==
              std::array<Index, 8>{9, 9, 8, 9, 8, 8, 9, 4});
constexpr LlamaConfig of_7_layers{
    .vocabulary = 1, .features = 64, .layers = 7, .heads = 4, .kv_heads = 4, .hidden = 256, .context = 64};
static_assert(division<4>(of_7_layers) == std::array<Index, 4>{4, 3, 4, 3});
static_assert(division<3>(of_7_layers) == std::array<Index, 3>{5, 5, 4});
static_assert(division<1>(of_7_layers) == std::array<Index, 1>{14});
constexpr LlamaConfig mostly_head{.vocabulary = 32000, .features = 256, .layers = 2, .hidden = 768};
static_assert(division<2>(mostly_head) == std::array<Index, 2>{4, 0});
static_assert(division<6>(mostly_head) == std::array<Index, 6>{2, 1, 1, 0, 0, 0});
// Four layers and a head like one, on two ranks: the second has 2.7 of 5, not 3.
constexpr LlamaConfig of_4_layers{.vocabulary = 8192,
                                  .features = 768,
                                  .layers = 4,
                                  .heads = 12,
                                  .kv_heads = 4,
                                  .hidden = 2048,
                                  .context = 256};
static_assert(division<2>(of_4_layers) == std::array<Index, 2>{5, 3});

}  // namespace
}  // namespace shardwise
