// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Trains a Llama on text: AdamW, warm-up and cosine decay, clipped gradients.

#include "llama_text.hpp"
#include "progress.hpp"

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

/// Writes the model and its tokenizer; a tokenizer.json of an older model does not stay.
template <class Model>
void save(const LlamaMesh<sw::Mesh>& mesh, Model& model, const sw::Tokenizer& tokenizer,
          const TrainOptions& options) {
  sw::LlamaTokens special;
  if (tokenizer.begin_token()) special.begin = tokenizer.begin_token();
  if (tokenizer.end_token()) special.ends.push_back(*tokenizer.end_token());
  const sw::Index bytes = sw::save_llama(model, options.save, {}, special);
  if (mesh.rank() != 0) return;
  namespace fs = std::filesystem;
  const fs::path copy = options.save / "tokenizer.json";
  if (options.tokenizer.empty()) {
    fs::remove(copy);
  } else if (!fs::exists(copy) || !fs::equivalent(options.tokenizer, copy)) {
    fs::copy_file(options.tokenizer, copy, fs::copy_options::overwrite_existing);
  }
  std::printf("saved to %s; this rank wrote %.2f MB\n", options.save.c_str(),
              static_cast<double>(bytes) * 1e-6);
}

/// Returns whether the recorded communication was the planned one.
template <class PlanType>
bool train(const LlamaMesh<sw::Mesh>& mesh, TrainOptions options) {
  using MeshType = LlamaMesh<sw::Mesh>;
  const bool prints = mesh.rank() == 0;
  const sw::Tokenizer tokenizer =
      options.tokenizer.empty() ? sw::Tokenizer::bytes() : sw::Tokenizer::from_file(options.tokenizer);
  const std::vector<std::int32_t> text = tokenizer.encode(sw::TextCorpus(options.text).text());
  sw::LlamaConfig& config = options.model;
  config.vocabulary = tokenizer.vocabulary();

  sw::Recording recording(mesh);
  sw::Llama<MeshType, PlanType> model(mesh, config);
  sw::initialize(model, options.seed);
  sw::AdamW optimizer({.weight_decay = 0.1});
  const sw::WarmupCosine schedule({.peak = options.rate,
                                   .floor = options.rate / 10,
                                   .warmup = options.warmup.value_or(options.steps / 10),
                                   .steps = options.steps});
  if (prints) {
    std::printf("%zu tokens of text; a Llama of %td layers with %.2f million parameters\n", text.size(),
                config.layers, static_cast<double>(sw::parameter_count(model)) * 1e-6);
    std::printf(
        "dp %d x tp %d x kvr %d, %s parallel; %td sequences of %td tokens a step; matrix products by %s\n",
        mesh.size<sw::dp>(), mesh.size<sw::tp>(), mesh.size<sw::kvr>(),
        options.sequence_parallel ? "sequence" : "tensor", options.batch, config.context,
        sw::kernel::gemm_name());
  }
  auto ids_of = [&](const std::vector<std::int32_t>& ids) {
    return sw::distribute<sw::Shard<0>, sw::Replicate, sw::Replicate>(
        mesh, sw::Shape<2>{options.batch, config.context}, std::span(ids));
  };

  Progress progress(prints, options.progress, options.steps, options.batch * config.context);
  for (int step = 1; step <= options.steps; ++step) {
    const auto batch = sw::sample_batch(text, options.seed, step, options.batch, config.context);
    optimizer.settings().rate = schedule(step - 1);
    recording.restart();
    const auto [loss, norm] =
        train_step(model, optimizer, options.max_norm, ids_of(batch.inputs), ids_of(batch.targets));
    const double value = static_cast<double>(sw::item(loss));
    if (!std::isfinite(value)) {
      throw std::runtime_error("the loss is " + std::to_string(value) + " at step " + std::to_string(step) +
                               "; try a smaller --rate");
    }
    progress.show(step, value);
  }
  const auto recorded = recording.plan();

  if (!options.save.empty()) save(mesh, model, tokenizer, options);
  const auto planned = planned_step<PlanType>(
      {mesh.size<sw::dp>(), mesh.size<sw::tp>(), mesh.size<sw::kvr>()}, config, options.batch, config.context,
      {mesh.rank<sw::dp>(), mesh.rank<sw::tp>(), mesh.rank<sw::kvr>()});
  if (prints) std::printf("one training step:\n");
  return report(prints, "planned by a dry run", planned, recorded);
}

}  // namespace examples
