// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// Tokens a second of a Llama that continues one prompt. Prints one line of JSON; benchmarks/decoding.py compares them.

#include <algorithm>
#include <array>
#include <cstdio>
#include <span>
#include <vector>

#include <shardwise/llm/decoding/quantized.hpp>
#include <shardwise/llm/models/llama/files.hpp>

#include "support.hpp"

namespace {

namespace sw = shardwise;
using sw::Index;
using Mesh = sw::Mesh<sw::tp, sw::kvr>;
using Split = sw::AxisList<sw::tp, sw::kvr>;

struct Options {
  std::string weights, plan = "colwise";
  int weight_bits = 32;
  Index prompt = 64, tokens = 64;
  int repetitions = 3;
};

template <class Plan>
void run(const Options& options) {
  const auto config = sw::llm::read_llama_config(options.weights + "/config.json");
  const int ranks = sw::world().size(), own = sw::llm::key_value_ranks(ranks, config.kv_heads);
  const Mesh mesh(sw::world(), {own, ranks / own});
  sw::llm::Llama<Mesh, Plan> model(mesh, config);
  sw::llm::load_llama(model, options.weights);
  std::vector<std::int32_t> ids(static_cast<std::size_t>(options.prompt));
  for (std::size_t i = 0; i < ids.size(); ++i)
    ids[i] = static_cast<std::int32_t>(static_cast<Index>(i) % config.vocabulary);
  std::array one{std::int32_t{1}};
  const auto tensor = [&](std::span<const std::int32_t> of) {
    return sw::distribute<sw::Replicate, sw::Replicate>(mesh, sw::Shape<2>{1, std::ssize(of)}, of);
  };
  auto cache = model.make_cache(tensor(one), options.prompt + options.tokens);
  const auto next = [&](std::span<const std::int32_t> of) {
    const auto logits = sw::redistribute<sw::Replicate, sw::Replicate>(model.next(tensor(of), cache));
    one[0] = static_cast<std::int32_t>(std::max_element(logits.data(), logits.data() + config.vocabulary) -
                                       logits.data());
  };
  std::vector<double> prompts, tokens;
  for (int i = -1; i < options.repetitions; ++i) {  // the first is not counted
    cache.clear();
    sw::world().barrier();
    const double start = MPI_Wtime();
    next(ids);
    const double begun = MPI_Wtime();
    for (Index token = 0; token < options.tokens; ++token) next(one);
    if (i < 0) continue;
    prompts.push_back(static_cast<double>(options.prompt) / (begun - start));
    tokens.push_back(static_cast<double>(options.tokens) / (MPI_Wtime() - begun));
  }
  if (sw::world().rank() == 0)
    std::printf("{\"prompt\": %.1f, \"decode\": %.1f}\n", benchmarks::median(prompts),
                benchmarks::median(tokens));
}

template <class Floats>
void run_with_bits(const Options& options) {
  switch (options.weight_bits) {
    case 32:
      return run<Floats>(options);
    case 16:
      return run<sw::llm::LlamaQuantized<Floats, sw::llm::Block16>>(options);
    case 8:
      return run<sw::llm::LlamaQuantized<Floats, sw::llm::Block8>>(options);
    default:
      return run<sw::llm::LlamaQuantized<Floats, sw::llm::Block4>>(options);
  }
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  CLI::App app("Tokens a second of a Llama that continues one prompt.");
  app.add_option("--weights", options.weights, "a folder in Hugging Face's format")->required();
  app.add_option("--weight-bits", options.weight_bits, "of each weight")
      ->check(CLI::IsMember({32, 16, 8, 4}));
  app.add_option("--plan", options.plan, "how layers are split")->check(CLI::IsMember({"tensor", "colwise"}));
  app.add_option("--prompt", options.prompt, "number of its tokens")->check(CLI::Range(1, 1 << 20));
  app.add_option("--tokens", options.tokens, "that follow it")->check(CLI::Range(1, 1 << 20));
  app.add_option("--repetitions", options.repetitions, "whose median counts")->check(CLI::Range(1, 1 << 20));
  return sw::run(argc, argv, [&] {
    if (const auto code = benchmarks::parse(app, argc, argv)) return *code;
    if (options.plan == "tensor") run_with_bits<sw::llm::LlamaTensorParallel<Split>>(options);
    if (options.plan == "colwise") run_with_bits<sw::llm::LlamaColwiseParallel<Split>>(options);
    return 0;
  });
}
