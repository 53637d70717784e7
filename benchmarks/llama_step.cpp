// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// The training step of a Llama over all ranks, tensor parallel or data parallel: what llama_step.py compares with
/// PyTorch. Prints a line of JSON with medians over the steps, of the slowest rank. Several ways to compute the loss
/// are run in turn, A B B A …, and get a line each, with the median of the ratios to the first one's neighbouring steps.

#include <sys/resource.h>

#include <shardwise/nn/linear_cross_entropy_loss.hpp>

#include "support.hpp"

namespace sw = shardwise;

namespace {

using Mesh = sw::Mesh<sw::dp, sw::tp>;
using Ids = sw::Tensor<std::int32_t, 2, Mesh, sw::Shard<0>, sw::Replicate>;

struct Options {
  sw::llm::LlamaConfig model{
      .vocabulary = 32000, .features = 256, .layers = 2, .heads = 16, .kv_heads = 16, .hidden = 768};
  sw::Index batch = 8, sequence = 256;
  std::string mode = "tp", dtype = "float";
  std::vector<std::string> losses{"pieces"}, communicate_as;
  sw::ReduceOptions reduction;
  int steps = 8;
};

/// The most memory that this process has had so far, in MB.
double peak_megabytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / 1024;
}

template <class Plan, class T = float>
void run(const Options& options) {
  const bool splits_model = options.mode == "tp";
  const Mesh mesh(sw::world(), {splits_model ? 1 : sw::any, splits_model ? sw::any : 1});
  const sw::Communicator ranks = sw::world();
  const double at_start = peak_megabytes();
  sw::llm::Llama<Mesh, Plan, T> model(mesh, options.model);
  sw::initialize(model, 3);
  if (const auto& types = options.communicate_as; !types.empty()) {
    const auto type = [](const std::string& name) {
      return name == "float" ? sw::DataType::f32 : sw::DataType::bf16;
    };
    sw::set_communication(model, type(types.front()), type(types.back()));
  }
  sw::AdamW adamw({}, options.reduction);
  const sw::CrossEntropyLoss of_logits;
  const sw::LinearCrossEntropyLoss in_pieces, reduced_once({}, {.one_all_reduce = true});
  const auto ids = [&](std::uint64_t seed) {
    return benchmarks::random_ids<Ids>(mesh, {options.batch, options.sequence}, options.model.vocabulary,
                                       seed);
  };
  const Ids inputs = ids(7), targets = ids(8);
  const auto loss_of = [&](sw::Tape& tape, const std::string& way) {
    if (way == "logits") return of_logits(model(tape.constant(inputs)), targets);
    return model(tape.constant(inputs), targets, way == "pieces" ? in_pieces : reduced_once);
  };

  const int uncounted = 2;
  struct Way {
    std::string loss;
    std::array<std::vector<double>, 4> times{};  // step, forward, backward, optimizer
  };
  std::vector<Way> ways;
  for (const std::string& loss : options.losses) ways.push_back({loss});
  double loss_of_first = 0;
  for (int round = 0; round < uncounted + options.steps; ++round) {
    for (std::size_t i = 0; i < ways.size(); ++i) {
      Way& way = ways[round % 2 == 0 ? i : ways.size() - 1 - i];
      ranks.barrier();
      const double begin = MPI_Wtime();
      sw::Tape tape;
      auto loss = loss_of(tape, way.loss);
      const double forward = MPI_Wtime();
      sw::backward_and_reduce(loss, model, options.reduction);
      const double backward = MPI_Wtime();
      adamw.step(model);
      const double end = MPI_Wtime();
      if (round == 0 && i == 0) loss_of_first = static_cast<double>(sw::item(loss.value()));
      if (round < uncounted) continue;
      way.times[0].push_back(end - begin);
      way.times[1].push_back(forward - begin);
      way.times[2].push_back(backward - forward);
      way.times[3].push_back(end - backward);
    }
  }
  for (const Way& way : ways) {
    std::vector<double> results;
    for (const auto& list : way.times) results.push_back(benchmarks::median(list));
    results.push_back(peak_megabytes());
    results.push_back(peak_megabytes() - at_start);
    std::vector<double> ratios;
    for (std::size_t i = 0; i < way.times[0].size(); ++i)
      ratios.push_back(way.times[0][i] / ways[0].times[0][i]);
    results.push_back(benchmarks::median(ratios));
    ranks.all_reduce(results.data(), results.data(), static_cast<sw::Index>(results.size()),
                     sw::DataType::f64, sw::ReduceOp::max);
    if (ranks.rank() != 0) continue;
    std::printf(
        "{\"step\": %.5f, \"forward\": %.5f, \"backward\": %.5f, \"optimizer\": %.5f, \"peak_mb\": %.1f, "
        "\"own_mb\": %.1f, \"of_first\": %.3f, \"by\": \"%s\", \"loss\": %.4f, "
        "\"gemm\": \"%s\"}\n",
        results[0], results[1], results[2], results[3], results[4], results[5], results[6], way.loss.c_str(),
        loss_of_first, sw::kernel::gemm_name());
  }
}

}  // namespace

int main(int argc, char** argv) {
  return sw::run(argc, argv, [&] {
    Options options;
    CLI::App app("Times the training step of a Llama over all ranks.", "llama_step");
    app.option_defaults()->always_capture_default();
    auto add = [&](const char* name, sw::Index& value, const char* text) {
      app.add_option(name, value, text)->check(CLI::Range(1, 1 << 24));
    };
    benchmarks::add_sizes(app, options.model);
    add("--batch", options.batch, "sequences in a step");
    add("--sequence", options.sequence, "tokens in a sequence");
    app.add_option("--steps", options.steps, "that are timed, after two that are not")
        ->check(CLI::Range(1, 100000));
    app.add_option("--mode", options.mode, "what the ranks share: the model, or the batch")
        ->check(CLI::IsMember({"tp", "ddp", "zero1", "zero2", "fsdp"}));
    app.add_option(
           "--loss", options.losses,
           "of all logits; or in pieces, with an all-reduce for each or one for all: one way, or several")
        ->check(CLI::IsMember({"logits", "pieces", "one-all-reduce"}));
    app.add_option("--dtype", options.dtype, "of parameters and activations")
        ->check(CLI::IsMember({"float", "bfloat16"}));
    app.add_option("--communicate-as", options.communicate_as,
                   "what messages of gathered parameters, and of gradients, carry: one type, or two")
        ->expected(1, 2)
        ->check(CLI::IsMember({"float", "bfloat16"}));
    app.add_option("--bucket-bytes", options.reduction.bucket_bytes, "of gradients")
        ->check(CLI::NonNegativeNumber);
    app.add_option("--in-background", options.reduction.in_background, "buckets at a time")
        ->check(CLI::NonNegativeNumber);
    if (auto code = benchmarks::parse(app, argc, argv)) return *code;
    using Plan = sw::llm::LlamaTensorParallel<>;
    if (options.dtype == "bfloat16") {
      if (options.mode != "tp" && options.mode != "ddp") {
        throw std::invalid_argument("llama_step: --dtype bfloat16 is for --mode tp and ddp");
      }
      run<Plan, Eigen::bfloat16>(options);
      return 0;
    }
    if (options.mode == "tp" || options.mode == "ddp") run<Plan>(options);
    if (options.mode == "zero1") run<sw::PlanWith<Plan, sw::Zero<1, sw::dp>>>(options);
    if (options.mode == "zero2") run<sw::PlanWith<Plan, sw::Zero<2, sw::dp>>>(options);
    if (options.mode == "fsdp") run<sw::PlanWith<Plan, sw::FullyShard<sw::dp>>>(options);
    return 0;
  });
}
