// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Trains a Llama on text: AdamW, warm-up and cosine decay, clipped gradients.

#include <shardwise/data/load_batch.hpp>
#include <shardwise/data/open_token_corpus.hpp>

#include "llama_text.hpp"
#include "progress.hpp"
#include "report.hpp"
#include "save_model.hpp"

namespace examples {

struct TrainOptions {
  std::vector<std::filesystem::path> text;
  std::filesystem::path save, tokenizer;
  sw::LlamaConfig model{.vocabulary = 256,
                        .features = 128,
                        .layers = 4,
                        .heads = 8,
                        .kv_heads = 2,
                        .hidden = 384,
                        .context = 128};
  sw::Index batch = 32;  ///< sequences, of all groups together
  int steps = 400;
  std::optional<int> warmup;  ///< steps; a tenth of all if not given
  double rate = 3e-3, max_norm = 1;
  bool sequence_parallel = false;
  std::uint64_t seed = 1;
  std::string progress = "plain";
};

/// Returns whether the recorded communication was the planned one.
template <class PlanType>
bool train(const LlamaMesh<sw::Mesh>& mesh, TrainOptions options) {
  using MeshType = LlamaMesh<sw::Mesh>;
  const bool prints = mesh.rank() == 0;
  const sw::Tokenizer tokenizer =
      options.tokenizer.empty() ? sw::Tokenizer::bytes() : sw::Tokenizer::from_file(options.tokenizer);
  const sw::TokenCorpus text = sw::open_token_corpus(mesh, options.text, tokenizer);
  sw::LlamaConfig& config = options.model;
  config.vocabulary = tokenizer.vocabulary();
  const sw::BatchSampler sampler(text.size(),
                                 {.length = config.context, .batch = options.batch, .seed = options.seed});

  sw::Recording recording(mesh);
  sw::Llama<MeshType, PlanType> model(mesh, config);
  sw::initialize(model, options.seed);
  sw::AdamW optimizer({.weight_decay = 0.1});
  const sw::Schedule schedule({.decay = sw::Decay::cosine,
                               .peak = options.rate,
                               .floor = options.rate / 10,
                               .warmup = options.warmup.value_or(options.steps / 10),
                               .steps = options.steps});
  if (prints) {
    std::printf("%td tokens of text; a Llama of %td layers with %.2f million parameters\n", text.size(),
                config.layers, static_cast<double>(sw::parameter_count(model)) * 1e-6);
    std::printf(
        "dp %d x tp %d x kvr %d, %s parallel; %td sequences of %td tokens a step; matrix products by %s\n",
        mesh.size<sw::dp>(), mesh.size<sw::tp>(), mesh.size<sw::kvr>(),
        options.sequence_parallel ? "sequence" : "tensor", options.batch, config.context,
        sw::kernel::gemm_name());
  }

  Progress progress(prints, options.progress, options.steps, options.batch * config.context);
  for (int step = 1; step <= options.steps; ++step) {
    const auto batch = sw::load_batch(mesh, text, sampler, step - 1);
    const double rate = schedule(step - 1);
    optimizer.set_rate(rate);
    recording.restart();
    const auto [loss, norm] = train_step(model, optimizer, options.max_norm, batch.inputs, batch.targets);
    const double value = static_cast<double>(sw::item(loss));
    if (!std::isfinite(value)) {
      throw std::runtime_error("the loss is " + std::to_string(value) + " at step " + std::to_string(step) +
                               "; try a smaller --rate");
    }
    progress.show(step, {.loss = value, .rate = rate, .norm = norm});
  }
  const auto recorded = recording.plan();

  if (!options.save.empty()) save_model(mesh, model, tokenizer, options.save, options.tokenizer);
  const auto planned = planned_step<PlanType>(
      {mesh.size<sw::dp>(), mesh.size<sw::tp>(), mesh.size<sw::kvr>()}, config, options.batch, config.context,
      {mesh.rank<sw::dp>(), mesh.rank<sw::tp>(), mesh.rank<sw::kvr>()});
  if (prints) std::printf("one training step:\n");
  return report(prints, "planned by a dry run", planned, recorded);
}

}  // namespace examples
