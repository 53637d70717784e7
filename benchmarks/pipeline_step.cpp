// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// The training step of a Llama in a pipeline; or data or tensor parallel, on the same micro-batches. Prints a line of JSON:
/// the median over the steps of the slowest rank.

#include <shardwise/nn/linear_cross_entropy_loss.hpp>
#include <shardwise/pipeline/pipeline.hpp>
#include <shardwise/schedule/named.hpp>

#include "support.hpp"

namespace sw = shardwise;

namespace {

using Job = sw::Mesh<sw::pp, sw::dp, sw::tp>;
using Stage = sw::Mesh<sw::dp, sw::tp>;
using Part = sw::llm::Llama<Stage, sw::llm::LlamaTensorParallel<>>;
using Ids = sw::Tensor<std::int32_t, 2, Stage, sw::Shard<0>, sw::Replicate>;

struct Options {
  sw::llm::LlamaConfig model{
      .vocabulary = 8192, .features = 768, .layers = 4, .heads = 12, .kv_heads = 4, .hidden = 2048};
  sw::Index batch = 8, sequence = 256;
  int micro_batches = 8, steps = 5, pp = 1, dp = 1, tp = 1;
  std::string schedule = "1f1b";
};

void run(const Options& options) {
  const Job job(sw::world(), {options.pp, options.dp, options.tp});
  const sw::Pipeline pipeline(
      job, sw::pipeline_schedule(options.schedule, options.pp, 0, options.micro_batches,
                                 [&](const std::vector<int>& rank_of_stage) {
                                   return sw::llm::LlamaPart::costs(options.model, rank_of_stage);
                                 }));
  auto stages = pipeline.stages([&](int stage, const Stage& mesh) {
    return Part(mesh, options.model,
                sw::llm::LlamaPart::of(options.model, pipeline.schedule().rank_of_stage, stage));
  });
  sw::initialize(stages, 3);
  sw::AdamW adamw;
  const sw::LinearCrossEntropyLoss criterion;
  const Stage& mesh = pipeline.mesh();
  const sw::Shape<3> shape{options.batch / options.micro_batches, options.sequence, options.model.features};
  const auto ids = [&](int number) {
    return benchmarks::random_ids<Ids>(mesh, {shape[0], shape[1]}, options.model.vocabulary,
                                       static_cast<std::uint64_t>(number));
  };

  const int uncounted = 1;
  std::vector<double> seconds;
  double loss = 0;
  for (int round = 0; round < uncounted + options.steps; ++round) {
    sw::world().barrier();
    const double begin = MPI_Wtime();
    loss = pipeline.run(
        stages, shape,
        [&](sw::Tape& tape, Part& part, int i) { return part.begin(tape.constant(ids(2 * i))); },
        [](Part& part, const auto& x) { return part.middle(x); },
        [&](Part& part, const auto& x, int i) {
          const auto targets = ids(2 * i + 1);
          return sw::scale(part.end(x, targets, criterion), 1. / options.micro_batches);
        });
    adamw.step(stages);
    if (round >= uncounted) seconds.push_back(MPI_Wtime() - begin);
  }
  double median = benchmarks::median(seconds);
  sw::world().all_reduce(&median, &median, 1, sw::DataType::f64, sw::ReduceOp::max);
  if (sw::world().rank() == 0) {
    std::printf(
        "{\"step\": %.5f, \"loss\": %.5f, \"schedule\": \"%s\", \"pp\": %d, \"dp\": %d, \"tp\": %d}\n",
        median, loss, options.schedule.c_str(), options.pp, options.dp, options.tp);
  }
}

}  // namespace

int main(int argc, char** argv) {
  return sw::run(argc, argv, [&] {
    Options options;
    CLI::App app("Times the training step of a Llama in a pipeline.", "pipeline_step");
    app.option_defaults()->always_capture_default();
    auto add = [&](const char* name, auto& value, const char* text) {
      app.add_option(name, value, text)->check(CLI::Range(1, 1 << 24));
    };
    benchmarks::add_sizes(app, options.model);
    add("--batch", options.batch, "sequences in a step: a multiple of the micro-batches");
    add("--sequence", options.sequence, "tokens in a sequence");
    add("--micro-batches", options.micro_batches, "parts of a batch that are run one after another");
    add("--steps", options.steps, "that are timed, after one that is not");
    add("--pp", options.pp, "ranks with different layers");
    add("--dp", options.dp, "data-parallel ranks");
    add("--tp", options.tp, "tensor-parallel ranks");
    app.add_option("--schedule", options.schedule, "of the pipeline");
    if (auto code = benchmarks::parse(app, argc, argv)) return *code;
    if (options.batch % options.micro_batches != 0) {
      throw std::invalid_argument("pipeline_step: --batch must be a multiple of --micro-batches");
    }
    options.model.context = options.sequence;
    run(options);
    return 0;
  });
}
