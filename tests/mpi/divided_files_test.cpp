// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// Checkpoints and weights of a model whose layers are divided over the ranks: what one division writes any other reads, bit
/// by bit.

#include <doctest/doctest.h>
#include <shardwise/checkpoint/load.hpp>
#include <shardwise/checkpoint/save.hpp>
#include <shardwise/llm/models/llama/files.hpp>
#include <shardwise/nn/linear_cross_entropy_loss.hpp>
#include <shardwise/ops/arithmetic.hpp>
#include <shardwise/pipeline/pipeline.hpp>
#include <shardwise/schedule/named.hpp>
#include <shardwise/train/adamw.hpp>

#include "module_check.hpp"
#include "scratch_folder.hpp"

namespace shardwise::testing {
namespace {

using Job = Mesh<pp, dp, tp>;
using Stage = Mesh<dp, tp>;
constexpr Index sequences = 4, length = 6;

llm::LlamaConfig config_of(bool tied) {
  return {
      .vocabulary = 23, .features = 8, .layers = 5, .heads = 4, .kv_heads = 4, .hidden = 10, .tied = tied};
}

/// How a model is divided.
struct Division {
  std::array<int, 3> sizes;
  const char* schedule;
};

template <class Plan>
struct Run {
  using Part = llm::Llama<Stage, Plan>;

  Run(const Job& mesh, const Division& division, bool tied, std::uint64_t seed)
      : job(mesh),
        pipeline(job, pipeline_schedule(division.schedule, division.sizes[0], 0, 4)),
        contents(job) {
    const llm::LlamaConfig config = config_of(tied);
    stages = pipeline.stages([&](int stage, const Stage& of_stage) {
      return Part(of_stage, config, llm::LlamaPart::of(config, pipeline.schedule().rank_of_stage, stage));
    });
    initialize(stages, seed);
    contents.add("model", stages);
    contents.add("optimizer", adamw, stages);
    contents.add("steps", steps);
  }

  void make_step() {
    const Stage& mesh = pipeline.mesh();
    auto ids = [&](int number) {
      std::vector<std::int32_t> all;
      for (Index i = 0; i < sequences * length; ++i)
        all.push_back(static_cast<std::int32_t>((i * i + 5 * number + steps) % 23));
      return distribute<Shard<0>, Replicate>(mesh, Shape<2>{sequences, length},
                                             std::span<const std::int32_t>(all));
    };
    pipeline.run(
        stages, Shape<3>{sequences, length, 8},
        [&](Tape& tape, Part& part, int i) { return part.begin(tape.constant(ids(i))); },
        [](Part& part, const auto& x) { return part.middle(x); },
        [&](Part& part, const auto& x, int i) {
          return scale(part.end(x, ids(i + 1), LinearCrossEntropyLoss()), 0.25);
        });
    adamw.step(stages);
    ++steps;
  }

  /// Of this rank's stages, whole.
  Outcome values() { return values_of(stages); }

  Job job;
  Pipeline<Job> pipeline;
  Stages<Part> stages;
  AdamW adamw;
  std::int64_t steps = 0;
  CheckpointContents contents;
};

std::vector<Division> divisions() {
  const int ranks = world().size();
  std::vector<Division> all{{{ranks, 1, 1}, "1f1b"}, {{ranks, 1, 1}, "zb-v"}, {{1, ranks, 1}, "1f1b"}};
  if (ranks == 4) {
    all.push_back({{2, 2, 1}, "zb-h1"});
    all.push_back({{2, 1, 2}, "interleaved"});
  }
  return all;
}

using Whole = llm::LlamaTensorParallel<>;
using Zero1 = PlanWith<llm::LlamaTensorParallel<>, Zero<1, dp>>;

/// Calls f with a mesh of the job for each division.
template <class F>
void for_each_division(F f) {
  for (const Division& division : divisions()) {
    INFO(division.schedule, " on pp ", division.sizes[0], ", dp ", division.sizes[1], ", tp ",
         division.sizes[2]);
    f(Job(world(), division.sizes), division);
  }
}

TEST_CASE("what one division saves any other loads, model and optimizer, bit by bit") {
  for (const bool tied : {false, true}) {
    INFO("tied ", tied);
    for_each_division([&](const Job& mesh, const Division& division) {
      Run<Zero1> run(mesh, division, tied, 3);
      run.make_step();
      run.make_step();
      const ScratchFolder folder;
      save_checkpoint(folder / "run", run.contents);
      const auto expected = run.values();
      run.make_step();
      const auto later = run.values();

      // By one rank that has all of it.
      const Job alone(self(), {1, 1, 1});
      Run<Whole> one(alone, {{1, 1, 1}, "1f1b"}, tied, 4);
      const LoadedCheckpoint loaded = load_checkpoint(folder / "run", one.contents);
      CHECK(loaded.missing.empty());
      CHECK(one.steps == 2);
      auto whole_model = one.values();
      for (const auto& [name, numbers] : expected) CHECK(whole_model.at(name) == numbers);

      for_each_division([&](const Job& other_mesh, const Division& other) {
        Run<Zero1> again(other_mesh, other, tied, 4);
        load_checkpoint(folder / "run", again.contents);
        for (const auto& [name, numbers] : again.values()) CHECK(whole_model.at(name) == numbers);
      });

      Run<Zero1> same(mesh, division, tied, 4);
      load_checkpoint(folder / "run", same.contents);
      same.make_step();  // with the optimizer's state
      CHECK(same.values() == later);
      world().barrier();
    });
  }
}

TEST_CASE("the stages of a Llama are exported as the whole, byte by byte, and imported") {
  for (const bool tied : {false, true}) {
    const ScratchFolder folder;
    const Job mesh(world(), {1, world().size(), 1});
    llm::Llama<Stage> model(mesh.submesh<dp, tp>(), config_of(tied));
    initialize(model, 3);
    llm::save_llama(model, folder / "whole");
    auto text = [&](const char* name, const char* file) { return bytes_of_file(folder / name / file); };
    for_each_division([&](const Job& job, const Division& division) {
      Run<Whole> run(job, division, tied, 3);
      const Index written[]{llm::save_llama(job, run.stages, folder / "parts")};
      CHECK(detail::sum_of(world().all_gather(written)) ==
            static_cast<Index>(sizeof(float)) * config_of(tied).parameters());
      CHECK(text("parts", "model.safetensors") == text("whole", "model.safetensors"));
      CHECK(text("parts", "config.json") == text("whole", "config.json"));

      Run<Whole> again(job, division, tied, 4);
      const Index read = llm::load_llama(job, again.stages, folder / "whole");
      CHECK(again.values() == run.values());
      Index own = 0;  // of this rank's blocks, and nothing of other stages
      for_each_parameter(again.stages, [&](auto& parameter) { own += parameter.value().box().elements(); });
      CHECK(read == static_cast<Index>(sizeof(float)) * own);
      world().barrier();
    });
  }
}

TEST_CASE("what is missing in any part, or differs between two, is an error of all ranks") {
  const int ranks = world().size();
  if (ranks == 1) return;  // has all parts
  const Division division{{ranks, 1, 1}, "1f1b"};
  const Job mesh(world(), division.sizes);
  const ScratchFolder folder;
  const auto path = folder / "run";
  {
    Run<Whole> tied(mesh, division, true, 3);
    save_checkpoint(path, tied.contents);
  }
  Run<Whole> run(mesh, division, false, 3);
  CHECK(has(error_of([&] { load_checkpoint(path, run.contents); }), "not there: \"model.head.weight\""));

  // A part of another model.
  llm::LlamaConfig other = config_of(true);
  if (mesh.rank<pp>() == ranks - 1) other.vocabulary = 24;
  auto stages = run.pipeline.stages([&](int stage, const Stage& of_stage) {
    return llm::Llama<Stage>(of_stage, other,
                             llm::LlamaPart::of(other, run.pipeline.schedule().rank_of_stage, stage));
  });
  initialize(stages, 3);
  CheckpointContents contents(mesh);
  contents.add("model", stages);
  const std::string differs = error_of([&] { save_checkpoint(path, contents); });
  INFO(differs);
  CHECK(has(differs, "tensor \"model.tokens.weight\" is F32 [23 x 8] on rank 0, but F32 [24 x 8] on rank "));
  CHECK(has(error_of([&] { llm::save_llama(mesh, stages, folder / "llama"); }),
            "\"model.embed_tokens.weight\""));

  std::int64_t number = world().rank();
  CheckpointContents numbers(mesh);
  numbers.add("model", run.stages);
  numbers.add("steps", number);
  CHECK(has(error_of([&] { save_checkpoint(path, numbers); }),
            "the number \"steps\" is 0 on a rank and 1 on another"));
}

TEST_CASE("weights that are missing or surplus for the stages together are an error of all ranks") {
  const int ranks = world().size();
  const Division division{{ranks, 1, 1}, "1f1b"};
  const Job mesh(world(), division.sizes);
  const ScratchFolder folder;
  Run<Whole> tied(mesh, division, true, 3), untied(mesh, division, false, 3);
  llm::save_llama(mesh, tied.stages, folder / "tied");
  const auto before = untied.values();
  CHECK(has(error_of([&] { llm::load_llama(mesh, untied.stages, folder / "tied"); }),
            "tensor \"lm_head.weight\": there is no such tensor (parameter head.weight) (rank " +
                std::to_string(ranks - 1)));
  CHECK(untied.values() == before);

  llm::LlamaConfig shorter = config_of(true);
  shorter.layers = 4;
  auto stages = tied.pipeline.stages([&](int stage, const Stage& of_stage) {
    return llm::Llama<Stage>(of_stage, shorter,
                             llm::LlamaPart::of(shorter, tied.pipeline.schedule().rank_of_stage, stage));
  });
  const std::string surplus = error_of([&] { llm::load_llama(mesh, stages, folder / "tied"); });
  INFO(surplus);
  CHECK(has(surplus, "load_weights: 9 problems: "));
  CHECK(has(surplus, "tensor \"model.layers.4.mlp.up_proj.weight\" is not a parameter of the module ("));
}

}  // namespace
}  // namespace shardwise::testing
