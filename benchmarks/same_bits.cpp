// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// The cost of the style `SameBits`: a training step, a prompt and decoded tokens of a random Llama with it and without
/// it, in turn.

#include "support.hpp"

namespace {

namespace sw = shardwise;
using Mesh = sw::Mesh<sw::tp>;
using Colwise = sw::llm::LlamaColwiseParallel<>;

struct Options {
  sw::llm::LlamaConfig model{
      .vocabulary = 16000, .features = 768, .layers = 4, .heads = 12, .kv_heads = 12, .hidden = 2048};
  sw::Index batch = 4, sequence = 256, tokens = 16;
  int repetitions = 8;
};

auto ids(const Mesh& mesh, const sw::Shape<2>& shape, sw::Index vocabulary) {
  return benchmarks::random_ids<sw::Tensor<std::int32_t, 2, Mesh, sw::Replicate>>(mesh, shape, vocabulary, 7);
}

template <class Plan, class T>
struct Ways {
  const Mesh& mesh;
  const Options& options;
  sw::llm::Llama<Mesh, Plan, T> model{mesh, options.model};
  sw::AdamW adamw = sw::AdamW();

  void step() {
    const auto tokens = ids(mesh, {options.batch, options.sequence}, options.model.vocabulary);
    sw::Tape tape;
    sw::backward_and_reduce(sw::CrossEntropyLoss()(model(tape.constant(tokens)), tokens), model);
    adamw.step(model);
  }
  /// `sequences` prompts of `prompt` tokens, then so many tokens of each.
  void generate(sw::Index sequences, sw::Index prompt, sw::Index tokens) {
    const auto first = ids(mesh, {sequences, prompt}, options.model.vocabulary),
               one = ids(mesh, {sequences, 1}, options.model.vocabulary);
    auto cache = model.make_cache(first, prompt + tokens);
    model.next(first, cache);
    for (sw::Index i = 0; i < tokens; ++i) model.next(one, cache);
  }
};

template <class T>
void compare(const Mesh& mesh, const Options& options, const char* type) {
  Ways<sw::PlanWith<Colwise, sw::SameBits>, T> same{mesh, options};
  Ways<Colwise, T> any{mesh, options};
  sw::initialize(same.model, 3);
  sw::initialize(any.model, 3);
  const auto print = [&](const char* what, auto way) {
    const auto [ours, bare, ratio, lower, upper] = benchmarks::interleave(
        options.repetitions, 1, [&] { way(same); }, [&] { way(any); });
    if (sw::world().rank() == 0)
      std::printf("%-9s %-30s %9.2f ms %9.2f ms   %.3f (%.3f to %.3f)\n", type, what, 1e3 * ours, 1e3 * bare,
                  ratio, lower, upper);
  };
  if (sw::world().rank() == 0)
    std::printf("%-40s %12s %12s   ratio and quartiles\n", "", "SameBits", "without");
  print("training step", [](auto& way) { way.step(); });
  print("prompt", [&](auto& way) { way.generate(1, options.sequence, 0); });
  print("prompt of 1, then tokens", [&](auto& way) { way.generate(1, 1, options.tokens); });
  print("the same of 8 sequences", [&](auto& way) { way.generate(8, 1, options.tokens); });
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  CLI::App app("The cost of the same bits in training and generation.");
  benchmarks::add_sizes(app, options.model);
  app.add_option("--batch", options.batch, "sequences of a step")->check(CLI::Range(1, 1 << 20));
  app.add_option("--sequence", options.sequence, "tokens of one")->check(CLI::Range(1, 1 << 20));
  app.add_option("--tokens", options.tokens, "that are decoded")->check(CLI::Range(1, 1 << 20));
  app.add_option("--repetitions", options.repetitions, "whose median counts")->check(CLI::Range(1, 1 << 20));
  return sw::run(argc, argv, [&] {
    if (const auto code = benchmarks::parse(app, argc, argv)) return *code;
    const Mesh mesh(sw::world(), {sw::world().size()});
    compare<float>(mesh, options, "float");
    compare<Eigen::bfloat16>(mesh, options, "bfloat16");
    return 0;
  });
}
