// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// Trains a Llama on text, on a mesh of several axes: data parallel, with ZeRO or fully sharded, tensor parallel and
/// sequence parallel; then shows what was planned of a step beside what was communicated.

#include <csignal>

#include <shardwise/mesh/environment.hpp>

#include "options.hpp"
#include "train/train_run.hpp"

namespace sw = shardwise;

int main(int argc, char** argv) {
  std::signal(SIGXFSZ, SIG_IGN);  // so that a limit on the size of files fails a save, and not the run
  return sw::run(argc, argv, [&] {
    examples::TrainOptions options;
    std::string decay = sw::name_of(options.decay);
    CLI::App app("Trains a Llama on text over all ranks.", "train");
    app.option_defaults()->always_capture_default();
    auto add_count = [&](const char* name, auto& value, const char* text) {
      app.add_option(name, value, text)->check(CLI::Range(1, 1 << 24));
    };

    app.add_option("--text", options.text, "files or folders to learn from")->take_all();
    app.add_option("--tokenizer", options.tokenizer, "a tokenizer.json; without it tokens are bytes");
    app.add_option("--cache", options.cache, "a file to keep the tokens in, which later runs map");
    app.add_flag("--pad", options.pad, "fill the last batch of an epoch up instead of dropping it");

    add_count("--replicas", options.replicas, "groups with a copy of everything, on data of their own");
    add_count("--dp", options.dp, "data-parallel groups in each; if not given, what the ranks leave");
    add_count("--tp", options.tp, "ranks that split the model");
    app.add_option("--zero", options.zero,
                   "what --dp shards: 0 nothing, 1 optimizer state, 2 gradients too, 3 parameters too")
        ->check(CLI::Range(0, 3));
    app.add_flag("--sp", options.sequence_parallel, "shard the sequence over --tp between the layers");
    add_count("--micro-batches", options.micro_batches, "parts of a batch that are run one after another");
    app.add_flag("--recompute", options.recompute, "keep a layer's input only, and compute the rest again");
    app.add_flag("--bf16", options.bf16,
                 "parameters and activations in bfloat16, with master weights in float");
    app.add_option("--bucket-kib", options.bucket_kib, "of gradients that are reduced together")
        ->check(CLI::NonNegativeNumber);
    app.add_option("--in-background", options.in_background, "buckets that are under way at a time")
        ->check(CLI::NonNegativeNumber);

    add_count("--layers", options.model.layers, "of the model");
    add_count("--features", options.model.features, "a multiple of --heads");
    add_count("--heads", options.model.heads, "attention heads, at least one for each of --tp");
    add_count("--kv-heads", options.model.kv_heads, "key/value heads; divides --heads");
    add_count("--hidden", options.model.hidden, "features within the MLPs");
    add_count("--context", options.model.context, "tokens in a sequence");
    app.add_flag("--tied", options.model.tied, "the head is the embedding's table");

    add_count("--steps", options.steps, "training steps");
    add_count("--batch", options.batch, "sequences in a step, of all groups and micro-batches together");
    app.add_option("--rate", options.rate, "highest learning rate")->check(CLI::PositiveNumber);
    app.add_option("--schedule", decay, "of the learning rate, after warm-up")
        ->check(CLI::IsMember({"constant", "linear", "cosine"}));
    app.add_option("--warmup", options.warmup, "steps in which the rate rises; a tenth if not given")
        ->check(CLI::NonNegativeNumber);
    app.add_option("--floor", options.floor, "where the rate ends, as a part of the highest")
        ->check(CLI::Range(0.0, 1.0));
    app.add_option("--weight-decay", options.weight_decay, "of matrices")->check(CLI::NonNegativeNumber);
    app.add_option("--clip", options.max_norm, "norm that gradients are clipped to")
        ->check(CLI::PositiveNumber);
    app.add_option("--seed", options.seed, "of the weights and of the order of the batches");

    app.add_option("--log", options.log, "a file of JSON lines, one per step, for plot_log.py");
    auto* save = app.add_option("--save", options.save, "a folder for checkpoints");
    app.add_option("--save-every", options.save_every,
                   "steps; also after the last one, and when stopped by a signal")
        ->check(CLI::Range(1, 1 << 24))
        ->needs(save);
    app.add_option("--keep", options.keep, "so many of the last checkpoints stay")
        ->check(CLI::Range(1, 1 << 20))
        ->needs(save);
    app.add_flag("--resume", options.resume, "go on from the last checkpoint, if there is one")->needs(save);
    app.add_flag("--save-in-foreground", options.save_in_foreground, "wait until a checkpoint is written")
        ->needs(save);
    app.add_option("--export", options.export_to, "a folder for the trained model, in Hugging Face's form");
    app.add_option("--progress", options.progress,
                   "a line that is written over, or a plain line now and then")
        ->check(CLI::IsMember({"line", "plain"}));
    if (auto code = examples::parse(app, argc, argv)) return *code;
    options.decay = sw::parse_decay(decay);

    const bool good =
        options.bf16 ? examples::train<Eigen::bfloat16>(options) : examples::train<float>(options);
    return good ? 0 : 1;
  });
}
