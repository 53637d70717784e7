// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// Trains a Llama on text, on a mesh of several axes: data parallel, with ZeRO or fully sharded, tensor parallel and
/// sequence parallel; then shows what was planned of a step beside what was communicated.

#include <cmath>
#include <csignal>

#include <shardwise/comm/environment.hpp>
#include <shardwise/mesh/mesh.hpp>
#include <shardwise/models/llama/config_file.hpp>

#include "expect_weights.hpp"
#include "job_options.hpp"
#include "options.hpp"
#include "train_options.hpp"

namespace {

using namespace tools;

/// The options that describe no step: `job` has those.
void add_run_options(CLI::App& app, TrainOptions& options) {
  auto* text = app.add_option("--text", options.text, "files or folders to learn from")->take_all();
  app.add_option("--data", options.data, "files of JSON lines: texts, prompts and completions, or dialogues")
      ->take_all()
      ->excludes(text);
  app.add_flag("--match-special-tokens", options.match_special_tokens,
               "\"<s>\" in a text, prompt or completion of --data is that token, and no text");
  app.add_option("--chat-template", options.chat_template, "a file, instead of the model's, for dialogues");
  app.add_flag("--in-order", options.in_order, "do not shuffle");
  auto* held_out = app.add_option("--held-out", options.held_out,
                                  "the part of the text that is not learned, but evaluated")
                       ->check(CLI::Range(0.0, 0.9));
  add_count(app, "--evaluate-every", options.evaluate_every, "steps; also after the last one")
      ->needs(held_out);
  app.add_option("--tokenizer", options.tokenizer, "a tokenizer.json; without it tokens are bytes");
  app.add_option("--cache", options.cache, "a file to keep the tokens in, which later runs map");
  app.add_flag("--pad", options.pad, "fill the last batch of an epoch up instead of dropping it");

  auto* steps = add_count(app, "--steps", options.steps, "training steps");
  app.add_option("--epochs", options.epochs, "instead: how often all is learned; 0: as --steps says")
      ->check(CLI::Range(0, 1 << 24))
      ->excludes(steps);
  app.add_option("--rate", options.rate, "highest learning rate")->check(CLI::PositiveNumber);
  add_whole<std::int64_t>(app, "--warmup", options.warmup,
                          "steps in which the rate rises; a tenth if not given");
  app.add_option("--warmup-from", options.first, "the first step's rate, as a part of the highest")
      ->check(CLI::Range(0.0, 1.0));
  app.add_option("--floor", options.floor, "where the rate ends, as a part of the highest")
      ->check(CLI::Range(0.0, 1.0));
  app.add_option("--weight-decay", options.weight_decay, "of matrices")->check(CLI::NonNegativeNumber);
  app.add_option("--betas", options.betas, "of AdamW: how much of the means of gradients and squares stays")
      ->check(CLI::Range(0.0, 1.0));
  app.add_option("--epsilon", options.epsilon, "of AdamW")->check(CLI::NonNegativeNumber);
  app.add_option("--clip", options.max_norm, "norm that gradients are clipped to")
      ->check(CLI::PositiveNumber);
  add_whole<std::uint64_t>(app, "--seed", options.seed, "of the weights and of the order of the batches");

  app.add_option("--log", options.log, "a file of JSON lines, one per step, for plot_log.py");
  app.add_option("--trace", options.trace,
                 "a file for a trace of the last step, for ui.perfetto.dev or chrome://tracing");
  auto* save = app.add_option("--save", options.save, "a folder for checkpoints");
  add_count(app, "--save-every", options.save_every,
            "steps; also after the last one, and when stopped by a signal")
      ->needs(save);
  app.add_option("--keep", options.keep,
                 "so many of the last checkpoints stay; if not given, as many as before, or 3")
      ->check(CLI::Range(2, 1 << 24))
      ->needs(save);
  app.add_flag("--resume", options.resume,
               "go on from the last checkpoint, if there is one, and with the model of --export-best")
      ->needs(save);
  app.add_flag("--save-in-foreground", options.save_in_foreground, "wait until a checkpoint is written")
      ->needs(save);
  app.add_option("--export", options.export_to, "a folder for the trained model, in Hugging Face's form");
  app.add_option("--export-best", options.export_best, "one for the model that was best on what is held out");
  app.add_option("--format", options.format, "of the exported weights")
      ->check(CLI::IsMember({"safetensors", "pytorch"}));
  app.add_flag("--merge", options.merge,
               "export the model merged with its adapters, instead of the adapters in PEFT's form");
  app.add_option("--progress", options.progress, "a line that is written over, or a plain line now and then")
      ->check(CLI::IsMember({"line", "plain"}));
}

/// A model to begin from: its sizes are its own, but for the length of sequences.
void add_from(CLI::App& app, TrainOptions& options) {
  auto* from =
      app.add_option("--from", options.from, "a folder with a model to begin from, in Hugging Face's form");
  for (const char* name :
       {"--model", "--config", "--layers", "--features", "--heads", "--kv-heads", "--hidden", "--tied"}) {
    from->excludes(app.get_option(name));
  }
}

/// Throws for an option whose value is empty, as that of a shell variable is that nobody set.
void check_values(const CLI::App& app) {
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& value : option->results()) {
      if (value.empty()) throw std::invalid_argument(option->get_name() + ": its value is empty");
    }
  }
}

/// The text that is learned if nobody gives any, that of Shardwise itself, is there only where its sources are.
void check_default_text(const TrainOptions& options) {
  for (const std::filesystem::path& folder : options.text) {
    if (std::filesystem::exists(folder)) continue;
    throw std::invalid_argument("nothing to learn from: give --text or --data; without them " +
                                folder.string() + " is learned, which is not in " +
                                std::filesystem::current_path().string());
  }
}

/// What would be ignored, or lost.
void check_files(const TrainOptions& options) {
  const auto& best = options.export_best;
  if (std::isnan(options.held_out)) throw std::invalid_argument("--held-out is no number");
  if (!best.empty() && options.held_out == 0)
    throw std::invalid_argument("--export-best needs --held-out: the best is so on what is held out");
  const auto place = [](const std::filesystem::path& folder) {
    return std::filesystem::weakly_canonical(std::filesystem::absolute(folder) / "");
  };
  if (!best.empty() && !options.export_to.empty() && place(best) == place(options.export_to))
    throw std::invalid_argument("--export-best and --export are one folder, " + best.string() +
                                ": the last model would replace the best");
  if (options.match_special_tokens && options.data.empty())
    throw std::invalid_argument("--match-special-tokens is for JSON lines: give --data");
  if (!options.chat_template.empty() && options.data.empty())
    throw std::invalid_argument("--chat-template is for dialogues: give --data");
  if (!options.cache.empty() && !options.data.empty())
    throw std::invalid_argument("--cache is for --text: documents are read anew");
}

/// The mesh says the same, but in other numbers: tp is what --tp leaves over for kvr.
void check_ranks(const JobOptions& job) {
  const int asked = job.pp * job.replicas * job.dp.value_or(1) * job.tp, ranks = sw::world().size();
  if (job.dp ? asked == ranks : ranks % asked == 0) return;
  auto option = [](const char* name, int value) { return std::string(name) + std::to_string(value); };
  throw std::invalid_argument(option("--pp ", job.pp) + option(" --replicas ", job.replicas) +
                              (job.dp ? option(" --dp ", *job.dp) : "") + option(" --tp ", job.tp) +
                              (job.dp ? option(" are ", asked) : option(" need a multiple of ", asked)) +
                              option(" ranks, but the job has ", ranks));
}

}  // namespace

int main(int argc, char** argv) {
  std::signal(SIGXFSZ, SIG_IGN);  // so that a limit on the size of files fails a save, and not the run
  return sw::run(argc, argv, [&] {
    TrainOptions options;
    JobOptions job{.batch = 32};
    std::string decay = sw::name_of(options.decay);
    CLI::App app("Trains a Llama on text over all ranks.", "shardwise-train");
    app.option_defaults()->always_capture_default();
    add_job_options(app, job);
    add_count(app, "--batch", job.batch, "sequences in a step, of all ranks and micro-batches together");
    add_run_options(app, options);
    add_from(app, options);
    add_timeout(app, options.timeout);
    app.add_option("--rate-schedule", decay, "of the learning rate, after warm-up")
        ->check(CLI::IsMember({"constant", "linear", "cosine"}));
    if (auto code = parse(app, argc, argv)) return *code;
    check_values(app);
    if (app.count("--text") + app.count("--data") == 0) check_default_text(options);
    check_files(options);
    options.decay = sw::parse_decay(decay);
    if (job.job.lora_rank > 0 && options.from.empty())
      throw std::invalid_argument("--lora-rank adapts a model that is given: --from");
    if (options.merge && job.job.lora_rank == 0)
      throw std::invalid_argument("--merge is for adapters: --lora-rank");
    if (job.job.lora_rank > 0 && !options.merge && options.format != "safetensors")
      throw std::invalid_argument("--format " + options.format + " is for whole models: --merge");
    if (!options.from.empty()) job.config = options.from / "config.json";
    options.job = job_of(job, sw::any);  // data-parallel are all ranks that are left
    if (!options.from.empty()) {
      options.job.own_context = sw::read_llama_config(job.config).context;
      expect_weights(options.from, options.job.model);
    }
    check_ranks(job);
    return train(options);
  });
}
