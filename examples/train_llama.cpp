// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// `train_llama [TEXT [FOLDER [STEPS]]]` trains a small Llama on a text, and saves it in Hugging Face's format.

#include <cstdio>
#include <cstdlib>

#include <shardwise/llm/data/load_batch.hpp>
#include <shardwise/llm/data/open_token_corpus.hpp>
#include <shardwise/llm/models/llama/files.hpp>
#include <shardwise/llm/text/byte_tokenizer.hpp>
#include <shardwise/nn/linear_cross_entropy_loss.hpp>
#include <shardwise/shardwise.hpp>

namespace sw = shardwise;

using Mesh = sw::Mesh<sw::dp, sw::tp>;
using Plan = sw::PlanWith<sw::llm::LlamaSequenceParallel<>, sw::FullyShard<sw::dp>>;

int main(int argc, char** argv) {
  return sw::run(argc, argv, [&] {
    const int steps = argc > 3 ? std::atoi(argv[3]) : 200;
    if (argc > 4 || steps < 1 || (argc > 1 && argv[1][0] == '-'))
      throw std::invalid_argument("usage: train_llama [TEXT [FOLDER [STEPS]]]");
    const char* const text = argc > 1 ? argv[1] : "docs";
    const char* const folder = argc > 2 ? argv[2] : "llama-model";
    const Mesh mesh(sw::world(), {sw::any, sw::world().size() % 2 == 0 ? 2 : 1});
    const bool prints = mesh.rank() == 0;

    const auto corpus = sw::llm::open_token_corpus(mesh, {text}, sw::llm::ByteTokenizer());
    const sw::llm::BatchSampler sampler(corpus.size(), {.length = 128, .batch = 16, .seed = 1});
    sw::llm::Llama<Mesh, Plan> model(mesh, {.vocabulary = 256,
                                            .features = 128,
                                            .layers = 2,
                                            .heads = 8,
                                            .kv_heads = 8,
                                            .hidden = 384,
                                            .context = 128});
    sw::initialize(model, 1);
    if (prints)
      std::printf("%td bytes of text, %td parameters, dp %d x tp %d\n", corpus.size(),
                  sw::parameter_count(model), mesh.size<sw::dp>(), mesh.size<sw::tp>());
    const sw::RateSchedule rate({.decay = sw::Decay::cosine, .peak = 4e-3, .warmup = 20, .steps = steps});
    sw::AdamW adamw;
    for (int step = 0; step < steps; ++step) {
      const auto batch = sw::llm::load_batch(mesh, corpus, sampler, step);  // each rank its own rows
      adamw.set_rate(rate(step));
      sw::Tape tape;
      const auto loss = model(tape.constant(batch.inputs), batch.targets, sw::LinearCrossEntropyLoss());
      sw::backward_and_reduce(loss, model);  // reductions start during the pass
      sw::clip_gradients(model, 1.0);
      adamw.step(model);
      const double value = sw::item(loss.value());
      if (prints && (step + 1) % 20 == 0) std::printf("step %3d: loss %.3f\n", step + 1, value);
    }
    sw::llm::save_llama(model, folder);  // any number of ranks can load it
    if (prints) std::printf("saved to %s\n", folder);
  });
}
