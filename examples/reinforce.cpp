// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// A small Llama learns from what it generates: its reward is the share of e among its letters. It is trained in
/// double on one mesh, and generates in float on another.

#include <cstdio>

#include <shardwise/llm/decoding/continuous_batch.hpp>
#include <shardwise/llm/models/llama/model.hpp>
#include <shardwise/llm/models/policy_losses.hpp>
#include <shardwise/module/copy_parameters.hpp>
#include <shardwise/shardwise.hpp>

namespace sw = shardwise;
using Mesh = sw::Mesh<sw::dp, sw::tp>;
using Policy = sw::llm::Llama<Mesh, sw::llm::LlamaTensorParallel<>, double>;

int main(int argc, char** argv) {
  return sw::run(argc, argv, [&] {
    if (argc > 1) throw std::invalid_argument(std::string(argv[1]) + ": reinforce takes no arguments");
    constexpr std::size_t texts = 16, letters = 8, length = 1 + letters;  // the first letter is the prompt
    const Mesh mesh(sw::world(), {sw::any, sw::world().size() % 2 == 0 ? 2 : 1});
    const sw::Mesh<sw::tp> line(sw::world(), {sw::any});
    sw::llm::LlamaConfig config{.vocabulary = 26, .features = 32, .layers = 1, .head_dim = 4, .hidden = 64};
    Policy policy(mesh, config), reference(mesh, config);
    sw::llm::Llama<sw::Mesh<sw::tp>, sw::llm::LlamaColwiseParallel<>> writer(line, config);
    sw::initialize(policy, 1), sw::initialize(reference, 1);
    sw::llm::ContinuousBatch batch(line, writer, 8, length);  // 8 texts at once
    sw::AdamW adamw({.rate = 1e-2});
    for (std::size_t step = 1; step <= 20; ++step) {
      sw::copy_parameters(policy, writer);  // in memory, to float
      std::vector<std::int32_t> written(texts * length), targets(written.size(), -100);  // no target
      std::vector<double> old(written.size()), rewards(texts);
      for (std::size_t i = 0; i < texts; ++i)
        batch.add({.prompt = {0}, .seed = step * texts + i, .new_tokens = letters});
      while (batch.busy())
        for (const auto& token : batch.step()) {
          if (token.id < 0) throw std::runtime_error(token.problem);
          const std::size_t i = token.request % texts, at = i * length + token.position;
          written[at + 1] = targets[at] = token.id, old[at] = token.log_probability;
          rewards[i] += token.id == 'e' - 'a' ? 1. / letters : 0;
        }
      const auto rows = [&](const auto& all) {  // each rank along dp has some texts
        return sw::distribute<sw::Shard<0>, sw::Replicate>(mesh, {texts, length}, all);
      };
      const auto ids = rows(written), next = rows(targets);
      const sw::CrossEntropyLossPerRow each;
      sw::Tape tape;
      const auto loss = sw::llm::GrpoLoss({.beta = 0.04})(-each(policy(tape.constant(ids)), next), rows(old),
                                                          -each(reference(ids), next), next,
                                                          sw::llm::group_advantages(rewards, texts));
      sw::backward_and_reduce(loss, policy);
      adamw.step(policy);
      const double reward = Eigen::Map<Eigen::VectorXd>(rewards.data(), texts).mean();
      if (mesh.rank() == 0 && step % 5 == 0) std::printf("step %2zu: reward %.3f\n", step, reward);
    }
  });
}
