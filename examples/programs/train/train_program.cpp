// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// Trains a Llama on text, on a mesh of several axes: data parallel, with ZeRO or fully sharded, tensor parallel
/// and sequence parallel; then shows the planned and the actual communication of a step.

#include <cmath>
#include <csignal>

#include <shardwise/llm/models/llama/config_file.hpp>
#include <shardwise/llm/text/tokenizer.hpp>
#include <shardwise/mesh/mesh.hpp>

#include "../common/expect_weights.hpp"
#include "../common/job_options.hpp"
#include "../common/model_in.hpp"
#include "../common/options.hpp"
#include "../common/programs.hpp"
#include "../common/speeds_file.hpp"
#include "best_plan.hpp"
#include "train_command.hpp"

namespace tools {

namespace {

/// The options besides those that `plan` has too.
void add_run_options(CLI::App& app, TrainOptions& options, JobOptions& job, std::string& decay) {
  const auto group = [&](const char* name) { app.option_defaults()->group(name); };
  group("Data");
  auto* text = app.add_option("--text", options.text, "text files or folders to train on")->take_all();
  auto* data = app.add_option("--data", options.data,
                              "JSON lines to train on: texts, prompts and completions, or dialogues")
                   ->take_all()
                   ->excludes(text);
  app.add_option(
         "--mix", options.mix,
         "weights of the paths of --text or --data, in their order: how often sequences are taken from "
         "each; a small file is repeated")
      ->take_all();
  app.add_option("--tokenizer", options.tokenizer, "a tokenizer.json; default: bytes as tokens");
  app.add_option("--cache", options.cache, "keep the tokens in this file for later runs");
  auto* stream = app.add_flag("--stream", options.stream,
                              "make the tokens of --text while the model trains, on all ranks: for text that "
                              "is too large to tokenise before training; pieces of text are shuffled");
  add_count(app, "--batch", job.batch, "sequences per step, over all ranks and micro-batches; default: 32");
  app.add_flag("--in-order", options.in_order, "do not shuffle");
  app.add_flag("--pad", options.pad, "pad the last batch of an epoch instead of dropping it");
  app.add_option(
         "--long-documents", options.long_documents,
         "refuse documents of --data with more tokens than --context, cut off their ends, or split them "
         "into several documents")
      ->check(CLI::IsMember({"refuse", "cut", "split"}));
  app.add_flag("--match-special-tokens", options.match_special_tokens,
               "read \"<s>\" in a text, prompt or completion of --data as that token, not as text");
  app.add_option("--chat-template", options.chat_template,
                 "a template file for dialogues, instead of the model's");

  group("Evaluation");
  auto* held_out = app.add_option("--held-out", options.held_out,
                                  "fraction of the text for evaluation instead of training")
                       ->check(CLI::Range(0.0, 0.9));
  app.add_option("--validation", options.validation,
                 "files for evaluation, of the same kind as --text or --data, instead of --held-out")
      ->take_all()
      ->excludes(held_out);
  auto* every = add_count(app, "--evaluate-every", options.evaluate_every,
                          "steps between evaluations; also after the last step");
  app.parse_complete_callback([every, text, data, &app, &options] {
    if (every->count() > 0 && !options.evaluates())
      throw CLI::RequiresError("--evaluate-every", "--held-out or --validation");
    if (text->count() + data->count() + app.count("--print-config") > 0) return;
    throw CLI::ValidationError(
        "nothing to learn from: give --text FILE, or --data FILE for JSON lines. To try it out:\n"
        "  shardwise-train --help > help.txt && mpirun -n 2 shardwise-train --text help.txt --batch 8 "
        "--steps "
        "20");
  });

  group("Training");
  auto* steps = add_count(app, "--steps", options.steps, "training steps");
  app.add_option("--epochs", options.epochs, "passes over the data, instead of --steps; 0: use --steps")
      ->check(CLI::Range(0, 1 << 24))
      ->excludes(steps);
  for (const char* name : {"--data", "--mix", "--cache", "--pad", "--held-out", "--epochs"})
    stream->excludes(app.get_option(name));
  app.add_option("--rate", options.rate, "highest learning rate")->check(CLI::PositiveNumber);
  app.add_option("--rate-schedule", decay, "decay of the learning rate after warm-up")
      ->check(CLI::IsMember({"constant", "linear", "cosine"}));
  add_whole<std::int64_t>(app, "--warmup", options.warmup,
                          "warm-up steps of the learning rate; default: a tenth of all");
  app.add_option("--warmup-from", options.first, "rate of the first step, as a fraction of the highest")
      ->check(CLI::Range(0.0, 1.0));
  app.add_option("--floor", options.floor, "final rate, as a fraction of the highest")
      ->check(CLI::Range(0.0, 1.0));
  app.add_option("--weight-decay", options.weight_decay, "weight decay of matrices")
      ->check(CLI::NonNegativeNumber);
  app.add_option("--betas", options.betas, "AdamW: decay of the means of gradients and of their squares")
      ->check(CLI::Range(0.0, 1.0));
  app.add_option("--epsilon", options.epsilon, "epsilon of AdamW")->check(CLI::NonNegativeNumber);
  app.add_option("--clip", options.max_norm, "norm to which gradients are clipped")
      ->check(CLI::PositiveNumber);
  add_whole<std::uint64_t>(app, "--seed", options.seed, "seed of the weights and of the order of batches");
  app.add_option(
         "--repeat-every", options.repeat_every,
         "make every such step twice, and compare all bits, also those of copies on several ranks: finds a "
         "flipped bit, and names its rank; 0: never")
      ->check(CLI::Range(0, 1 << 24));
  auto* fingerprints = app.add_option(
      "--fingerprints", options.fingerprints,
      "append the fingerprints of steps to this file, one line for each rank: of its messages, "
      "gradients, parameters and optimizer's state; shardwise-replay compares them");
  add_count(app, "--fingerprint-every", options.fingerprint_every, "steps between such steps")
      ->needs(fingerprints);

  group("Checkpoints");
  auto* save = app.add_option("--save", options.save, "save checkpoints in this folder");
  add_count(app, "--save-every", options.save_every,
            "steps between checkpoints; also after the last step, and when stopped by a signal")
      ->needs(save);
  app.add_option("--keep", options.keep, "number of checkpoints to keep; default: as many as before, or 3")
      ->check(CLI::Range(2, 1 << 24))
      ->needs(save);
  app.add_flag("--resume", options.resume,
               "resume from the last checkpoint, if there is one, and continue --export-best")
      ->needs(save);
  app.add_flag("--save-in-foreground", options.save_in_foreground, "wait while a checkpoint is written")
      ->needs(save);
  auto* host_memory =
      app.add_option("--host-memory", options.host_memory,
                     "also save in this folder of each host's memory, such as /dev/shm/run, and in that "
                     "of another host; --resume takes the newest")
          ->needs(save);
  add_count(app, "--host-memory-every", options.host_memory_every, "steps between checkpoints in memory")
      ->needs(host_memory);

  group("Export");
  app.add_option("--export", options.export_to,
                 "export the trained model to this folder, in Hugging Face's format");
  app.add_option("--export-best", options.export_best,
                 "export the model with the best held-out loss to this folder");
  app.add_option("--format", options.format, "format of the exported weights")
      ->check(CLI::IsMember({"safetensors", "pytorch"}));
  app.add_flag("--merge", options.merge,
               "export the model merged with its adapters, instead of the adapters in PEFT's format");

  group("Run");
  app.add_option("--log", options.log,
                 "log each step to this file, the first as step 0, as a JSON line; as CSV if its name ends "
                 "in .csv; for TensorBoard if it "
                 "is a folder or ends in /");
  app.add_option(
      "--trace", options.trace,
      "write the last step to this file: as a page if its name ends in .html, otherwise as a trace for "
      "ui.perfetto.dev or chrome://tracing");
  app.add_option("--progress", options.progress,
                 "line: one line, overwritten; plain: a new line at intervals")
      ->check(CLI::IsMember({"line", "plain"}));
}

/// The option for an initial model, which determines all sizes except the length of sequences.
void add_from(CLI::App& app, TrainOptions& options) {
  app.option_defaults()->group("Model");
  auto* from =
      app.add_option("--from", options.from, "start from the model in this folder, in Hugging Face's format");
  for (const char* name : {"--model", "--model-config", "--layers", "--features", "--heads", "--kv-heads",
                           "--hidden", "--experts", "--experts-per-token", "--tied"}) {
    from->excludes(app.get_option(name));
  }
}

/// The option that finds the mesh and the division of work among ranks.
void add_plan(CLI::App& app, std::string& plan, std::filesystem::path& speeds) {
  app.option_defaults()->group("Mesh");
  auto* file =
      app.add_option(
             "--speeds", speeds,
             "a file that shardwise-measure wrote, or epyc-10g, epyc-100g, xeon or laptop, for --plan best")
          ->check(check_speeds);
  auto* best =
      app.add_option("--plan", plan,
                     "best: the mesh, --zero, --sp, --recompute and --micro-batches with the fastest "
                     "step, as shardwise-plan --search finds them")
          ->check(CLI::IsMember({"best"}))
          ->needs(file);
  file->needs(best);
  for (const char* name : {"--pp", "--replicas", "--dp", "--cp", "--tp", "--zero", "--sp", "--recompute",
                           "--memory", "--schedule", "--micro-batches"}) {
    best->excludes(app.get_option(name));
  }
}

/// The options of replicas that are jobs of their own.
void add_replica_jobs(CLI::App& app, TrainOptions& options) {
  app.option_defaults()->group("Replicas that train alone");
  auto* quorum = app.add_option("--quorum", options.group.quorum,
                                "replicas are jobs of their own, each started by its mpirun: HOST:PORT where "
                                "shardwise-quorum listens; the batch is that of all");
  app.add_option("--replica", options.group.replica, "the number of this replica, from 0")
      ->check(CLI::NonNegativeNumber)
      ->needs(quorum);
  auto* token =
      app.add_option("--token", options.group.token, "the file that shardwise-quorum --token names");
  auto* interface =
      app.add_option("--interface", options.group.interface,
                     "network interface, such as eth0, where ranks listen for those of other replicas")
          ->needs(quorum);
  quorum->needs(app.get_option("--local-steps"))
      ->needs(token)
      ->needs(interface)
      ->needs(app.get_option("--replica"));
}

/// Throws if an option's value is empty, such as that of an unset shell variable.
void check_values(const CLI::App& app) {
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& value : option->results()) {
      if (value.empty()) throw std::invalid_argument(option->get_name() + ": its value is empty");
    }
  }
}

/// Rejects options that would be ignored, or would lose results.
void check_files(const TrainOptions& options) {
  const auto& best = options.export_best;
  if (std::isnan(options.held_out)) throw std::invalid_argument("--held-out is not a number");
  if (!best.empty() && !options.evaluates())
    throw std::invalid_argument(
        "--export-best needs --held-out or --validation: the best model is the one with the best loss there");
  if (const auto& paths = options.data.empty() ? options.text : options.data;
      !options.mix.empty() && options.mix.size() != paths.size()) {
    throw std::invalid_argument("--mix has " + std::to_string(options.mix.size()) + " weights, but " +
                                (options.data.empty() ? "--text" : "--data") + " has " +
                                std::to_string(paths.size()) + " paths: expected one for each");
  }
  if (!options.cache.empty() && !options.cache.has_filename())
    throw std::invalid_argument("--cache " + options.cache.string() +
                                ": a folder, expected the name of a file");
  if (options.long_documents != "refuse" && options.data.empty())
    throw std::invalid_argument("--long-documents is for JSON lines: give --data");
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
}

/// Checks the number of ranks in terms of the options; the mesh would do so in terms of tp and kvr.
void check_ranks(const JobOptions& job) {
  const int replicas = job.are_jobs ? 1 : job.replicas,
            asked = job.pp * replicas * job.dp.value_or(1) * job.cp * job.tp, ranks = sw::world().size();
  if (job.dp ? asked == ranks : ranks % asked == 0) return;
  auto option = [](const char* name, int value) { return std::string(name) + std::to_string(value); };
  throw std::invalid_argument(option("--pp ", job.pp) + option(" --replicas ", replicas) +
                              (job.dp ? option(" --dp ", *job.dp) : "") +
                              (job.cp > 1 ? option(" --cp ", job.cp) : "") + option(" --tp ", job.tp) +
                              (job.dp ? option(" are ", asked) : option(" need a multiple of ", asked)) +
                              option(" ranks, but the job has ", ranks));
}

}  // namespace

TrainCommand::TrainCommand(CommandLine& app) : app_(app) {
  add_run_options(app, options_, job_, decay_);
  add_job_options(app, job_);
  add_replica_jobs(app, options_);
  add_from(app, options_);
  add_plan(app, plan_, speeds_);
  app.option_defaults()->group("Run");
  add_timeout(app, options_.timeout);
}

int TrainCommand::ranks() const {
  return job_.pp * (options_.group.quorum.empty() ? job_.replicas : 1) * job_.dp.value_or(1) * job_.cp *
         job_.tp;
}

TrainOptions TrainCommand::options() const {
  TrainOptions options = options_;
  JobOptions job = job_;
  check_values(app_);
  check_files(options);
  options.decay = sw::parse_decay(decay_);
  if (job.job.lora_rank > 0 && options.from.empty())
    throw std::invalid_argument("--lora-rank adapts a model that is given: --from");
  if (job.job.freeze_layers > 0 && options.from.empty())
    throw std::invalid_argument("--freeze-layers are those of a model that is given: --from");
  if (options.merge && job.job.lora_rank == 0)
    throw std::invalid_argument("--merge is for adapters: --lora-rank");
  if (options.merge && options.export_to.empty() && options.export_best.empty())
    throw std::invalid_argument("--merge is for what is exported: --export or --export-best");
  if (app_.count("--format") > 0 && options.export_to.empty() && options.export_best.empty())
    throw std::invalid_argument("--format is for what is exported: --export or --export-best");
  if (job.job.lora_rank > 0 && !options.merge && options.format != "safetensors")
    throw std::invalid_argument("--format " + options.format + " is for whole models: --merge");
  if (!options.from.empty() && (sw::llm::is_gguf(options.from) || !gguf_files(options.from).empty()))
    throw std::invalid_argument("--from is " + options.from.string() +
                                ", expected a folder with model.safetensors: GGUF is not trained");
  if (!options.from.empty()) job.config = options.from / "config.json";
  if (!options.group.quorum.empty()) {
    if (options.repeat_every > 0)
      throw std::invalid_argument("--repeat-every does not go with --quorum: an exchange is not made twice");
    if (!options.fingerprints.empty())
      throw std::invalid_argument("--fingerprints does not go with --quorum: no exchange is made again");
    if (options.stream)
      throw std::invalid_argument(
          "--stream does not go with --quorum: a replica that takes the others' step does not have their "
          "place in "
          "the text");
    if (options.timeout > 0 && options.timeout <= options.group.patience)
      throw std::invalid_argument("--timeout " + std::to_string(std::lround(options.timeout)) +
                                  ": with --quorum more than " +
                                  std::to_string(std::lround(options.group.patience)) +
                                  " s, as ranks wait so long for a state that is sent");
    if (options.group.replica >= job.replicas)
      throw std::invalid_argument("--replica " + std::to_string(options.group.replica) + " of --replicas " +
                                  std::to_string(job.replicas) + ": expected a number below it");
    job.are_jobs = true;
  }
  if (!plan_.empty()) {
    if (options.from.empty())
      job.vocabulary = sw::llm::Tokenizer::from_folder({}, options.tokenizer).vocabulary();
    CLI::App chosen;
    add_job_options(chosen, job);
    chosen.parse(best_plan(job, speeds_));
  }
  options.memory = static_cast<sw::Index>(job.memory);
  options.job = job_of(job, sw::any);  // all remaining ranks are data-parallel
  options.job.own_replica_job = options.group.replica;
  if (!options.from.empty()) {
    options.job.own_context = sw::llm::read_llama_config(job.config).context;
    expect_weights(options.from, options.job.model);
  }
  check_ranks(job);
  return options;
}

int train_program(int argc, char** argv, const Start& start) {
  std::signal(SIGXFSZ, SIG_IGN);  // so that a file-size limit only fails a save, and not the run
  CommandLine app("Trains a Llama on text over all ranks.", "shardwise-train");
  const TrainCommand command(app);
  if (const auto code = app.answer_without_mpi(argc, argv)) return *code;
  return start(argc, argv, [&] {
    if (auto code = parse(app, argc, argv)) return *code;
    TrainOptions options = command.options();
    options.command = command_of(argc, argv);
    return train(options);
  });
}

}  // namespace tools
