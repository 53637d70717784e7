// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// How much memory the training step of a Llama takes with one long sequence over all ranks: by its plan, by the recorder,
/// and of the process. Prints a line of JSON, each number of the rank with most; `--longest` searches for the longest sequence
/// whose plan stays below so many megabytes, and runs that one. "seconds" are of making the model and all steps.

#include <shardwise/mesh/trace.hpp>
#include <shardwise/nn/linear_cross_entropy_loss.hpp>
#include <shardwise/nn/ring_attention.hpp>
#include <shardwise/parallel/context_parallel.hpp>

#include "support.hpp"

namespace sw = shardwise;

namespace {

struct Options {
  sw::llm::LlamaConfig model{
      .vocabulary = 8192, .features = 512, .layers = 8, .heads = 8, .kv_heads = 4, .hidden = 1408};
  sw::Index tokens = 2048;
  double longest = 0;
  int steps = 2;
  bool recompute = false;
  std::string style = "ring";
};

/// The steps on this mesh, of real ranks or of one that is simulated.
template <class Style, class MeshType>
constexpr void train(const MeshType& mesh, const Options& options, sw::Index tokens) {
  using Plan = sw::PlanWith<
      sw::PlanAnd<sw::llm::LlamaTensorParallel<sw::tp>, sw::Use<"layers.*.attention.inner_attention", Style>>,
      sw::FullyShard<sw::cp>>;
  sw::llm::Llama<MeshType, Plan> model(mesh, options.model);
  model.recompute_layers = options.recompute;
  sw::initialize(model, 3);
  sw::AdamW adamw;
  const auto ids = sw::zeros<std::int32_t, sw::Shard<1>, sw::Replicate>(mesh, {1, tokens});
  for (int i = 0; i < options.steps; ++i) {
    sw::Tape tape;
    const auto loss = model(tape.constant(ids), ids, sw::LinearCrossEntropyLoss());
    tape.backward(loss);
    adamw.step(model);
  }
}

template <class Style>
double planned_megabytes(const Options& options, sw::Index tokens, int rank) {
  using Grid = sw::Mesh<sw::cp, sw::tp>;
  const auto plan = sw::trace<Grid>(
      {sw::world().size(), 1}, [&](const Grid& mesh) { train<Style>(mesh, options, tokens); }, {rank, 0});
  return static_cast<double>(plan.peak_bytes()) / (1 << 20);
}

template <class Style>
void run(const Options& options) {
  const sw::Communicator ranks = sw::world();
  const auto planned = [&](sw::Index tokens) {
    double most = planned_megabytes<Style>(options, tokens, ranks.rank());
    ranks.all_reduce(&most, &most, 1, sw::DataType::f64, sw::ReduceOp::max);
    return most;
  };
  sw::Index tokens = options.tokens;
  if (options.longest > 0) {
    sw::Index enough = 0, step = 1 << 20;
    for (; step >= 16; step /= 2) {
      if (planned(enough + step) <= options.longest) enough += step;
    }
    if (enough == 0) throw std::invalid_argument("context_length: no sequence fits into so few megabytes");
    tokens = enough;
  }
  const double plan = planned(tokens), before = benchmarks::status_megabytes("VmRSS:");
  const sw::Mesh<sw::cp, sw::tp> mesh(ranks, {sw::any, 1});
  sw::Recording recording(mesh);
  const double begin = MPI_Wtime();
  train<Style>(mesh, options, tokens);
  std::array<double, 4> most{MPI_Wtime() - begin,
                             static_cast<double>(recording.plan().peak_bytes()) / (1 << 20),
                             benchmarks::status_megabytes("VmHWM:"), before};
  ranks.all_reduce(most.data(), most.data(), 4, sw::DataType::f64, sw::ReduceOp::max);
  if (ranks.rank() != 0) return;
  std::printf(
      "{\"style\": \"%s\", \"cp\": %d, \"tokens\": %td, \"seconds\": %.2f, \"planned_mb\": %.1f, "
      "\"recorded_mb\": %.1f, \"process_mb\": %.1f, \"at_start_mb\": %.1f}\n",
      options.style.c_str(), ranks.size(), tokens, most[0], plan, most[1], most[2], most[3]);
}

}  // namespace

int main(int argc, char** argv) {
  return sw::run(argc, argv, [&] {
    Options options;
    CLI::App app("Measures the memory that a long sequence takes over all ranks.", "context_length");
    app.option_defaults()->always_capture_default();
    benchmarks::add_sizes(app, options.model);
    app.add_option("--tokens", options.tokens, "in the sequence")->check(CLI::Range(1, 1 << 24));
    app.add_option("--longest", options.longest, "instead: as many as a plan has in so many megabytes a rank")
        ->check(CLI::PositiveNumber);
    app.add_option("--steps", options.steps, "of training")->check(CLI::Range(1, 1000));
    app.add_flag("--recompute", options.recompute, "layers in the backward pass");
    app.add_option("--style", options.style, "of the attention")
        ->check(CLI::IsMember({"ring", "ulysses", "gather"}));
    if (auto code = benchmarks::parse(app, argc, argv)) return *code;
    if (options.style == "ring") {
      run<sw::Ring<sw::cp>>(options);
    } else if (options.style == "ulysses") {
      run<sw::Ulysses<sw::cp>>(options);
    } else {
      run<sw::GatherKeys<sw::cp>>(options);
    }
    return 0;
  });
}
