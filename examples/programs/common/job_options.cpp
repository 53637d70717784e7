// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

#include "job_options.hpp"

#include <algorithm>
#include <charconv>
#include <limits>
#include <numeric>
#include <stdexcept>

#include <shardwise/llm/models/llama/config_file.hpp>

#include "llama_presets.hpp"
#include "options.hpp"

namespace tools {

void add_job_options(CLI::App& app, JobOptions& options) {
  StepJob& job = options.job;
  const auto group = [&](const char* name) { app.option_defaults()->group(name); };
  std::vector<std::string> presets;
  for (const LlamaPreset& preset : llama_presets) presets.emplace_back(preset.name);
  group("Model");
  auto* model = app.add_option("--model", options.model, "sizes of this name")->check(CLI::IsMember(presets));
  app.add_option("--model-config", options.config, "sizes from a config.json in Hugging Face's format")
      ->excludes(model);
  app.add_option("--layers", options.layers,
                 "layers; this and the following sizes override those of the model")
      ->check(CLI::Range(1, 1 << 16));
  add_count(app, "--features", options.features, "model dimension, a multiple of --heads");
  add_count(app, "--heads", options.heads, "attention heads, at least --tp");
  add_count(app, "--kv-heads", options.kv_heads,
            "key/value heads, a divisor of --heads; default: the model's, reduced to a divisor");
  add_count(app, "--hidden", options.hidden, "hidden features of the MLPs, and of each expert");
  app.add_option("--experts", options.experts,
                 "experts of each layer, instead of an MLP, each with --hidden features")
      ->check(CLI::Range(1, 1 << 16));
  app.add_option("--experts-per-token", options.experts_per_token, "experts that each token uses; default: 2")
      ->check(CLI::Range(1, 1 << 16));
  app.add_option("--balance", options.balance,
                 "factor of the loss that balances the experts (router_aux_loss_coef); default: the model's")
      ->check(CLI::Range(0.0, 1e6));
  app.add_option("--bias-rate", job.bias_rate,
                 "step of the expert biases that balance load (DeepSeek V3: 0.001)")
      ->check(CLI::Range(0.0, 1e6));
  add_count(app, "--context", options.context, "tokens per sequence");
  app.add_flag("--tied", options.tied, "use the embedding's table as the head");

  group("Mesh");
  app.add_option("--pp", options.pp, "pipeline-parallel ranks, each with its own layers")
      ->check(CLI::Range(1, 512));
  group("Pipeline");
  app.add_option("--schedule", job.schedule,
                 "pipeline schedule: gpipe, 1f1b, interleaved, zb-h1, interleaved-zb-h1, zb-v, dualpipe-v or "
                 "by-costs");
  app.add_option("--chunks", job.chunks, "pipeline stages per rank; 0: the default of the schedule")
      ->check(CLI::Range(0, 1 << 16));
  app.add_option("--in-flight", job.in_flight,
                 "by-costs: most micro-batches whose activations a rank keeps; 0: three times --pp")
      ->check(CLI::Range(0, 1 << 16));
  group("Mesh");
  add_count(app, "--replicas", options.replicas,
            "groups with a full copy of the model, each on its own data");
  group("Replicas that train alone");
  auto* local_steps =
      app.add_option("--local-steps", job.local_steps,
                     "replicas train alone for so many steps, and then exchange how far they have moved "
                     "(DiLoCo); 0: they reduce gradients in every step")
          ->check(CLI::Range(0, 1 << 24));
  app.add_option("--outer-rate", job.outer_rate, "learning rate of the exchange after --local-steps")
      ->check(CLI::NonNegativeNumber)
      ->needs(local_steps);
  app.add_option("--outer-momentum", job.outer_momentum,
                 "Nesterov momentum of the exchange after --local-steps")
      ->check(CLI::Range(0.0, 1.0))
      ->needs(local_steps);
  group("Mesh");
  add_count(app, "--dp", options.dp, "data-parallel ranks per group; --zero shards over these");
  add_count(app, "--cp", options.cp,
            "context-parallel ranks per sequence, each with a part of its positions");
  add_count(app, "--tp", options.tp, "tensor-parallel ranks");
  app.add_option(
         "--zero", job.zero_level,
         "shard over --dp and --cp: 0 nothing, 1 optimizer state, 2 also gradients, 3 also parameters")
      ->check(CLI::Range(0, 3));
  app.add_flag("--sp,--sequence-parallel", job.sequence_parallel,
               "shard the sequence over --tp between the layers");
  app.add_option("--embedding", options.embedding,
                 "split the embedding over --tp by rows, by columns, or not at all (both without --tied and "
                 "--lora-rank; replicated needs --zero 0 or 1; features needs --zero 0, without --sp)")
      ->check(CLI::IsMember(std::vector<std::string>(embedding_names.begin(), embedding_names.end())));
  app.add_option_function<std::string>(
         "--token-dispatcher", [&job](const std::string& name) { job.by_counts = name == "alltoall"; },
         "how tokens reach the ranks of their experts: all gather all (allgather), or each goes to the ranks "
         "that have some of its experts (alltoall, with --zero 1): less to send with more ranks than experts "
         "of a token")
      ->check(CLI::IsMember({"allgather", "alltoall"}))
      ->default_str("allgather");
  group("Training");
  app.add_option("--lora-rank", job.lora_rank,
                 "train adapters of this rank, with alpha twice the rank, instead of the model (needs --zero "
                 "0 or 1); 0: "
                 "train the model")
      ->check(CLI::Range(0, 1 << 16));
  app.add_option("--lora-layers", job.lora_layers,
                 "with --lora-rank: adapters in the last so many layers; 0: in all of them")
      ->check(CLI::Range(0, 1 << 16));
  app.add_option(
         "--freeze-layers", job.freeze_layers,
         "train neither the first so many layers nor the table of tokens (nor the head, if it is that "
         "table); 0: train the model")
      ->check(CLI::Range(0, 1 << 16));
  app.add_option(
         "--optimizer", options.optimizer,
         "adamw; or muon for the matrices of the layers, except experts, scaled so that --rate fits both")
      ->check(CLI::IsMember({"adamw", "muon"}));
  app.add_option("--optimizer-state", options.optimizer_state,
                 "type of the optimizer's moments; bf16 has half the bytes, and is rounded stochastically")
      ->check(CLI::IsMember({"float", "bf16"}));
  group("Memory and speed");
  auto* recompute =
      app.add_option_function<std::string>(
             "--recompute",
             [&job](const std::string& layers) {
               job.recompute = {layers == "all" ? all_layers : std::stoi(layers)};
             },
             "keep only the inputs of all layers, or of the first so many of each stage, and recompute their "
             "activations")
          ->expected(0, 1)
          ->default_str("all")
          ->check([](const std::string& layers) -> std::string {
            int number = 0;
            const char* const last = layers.data() + layers.size();
            const auto [end, error] = std::from_chars(layers.data(), last, number);
            if (layers == "all" || (error == std::errc() && end == last && number >= 0)) return "";
            return layers + " is neither \"all\" nor a number of layers";
          });
  app.add_option("--memory", options.memory,
                 "recompute only as many layers as needed, so that a step takes at most so much memory on a "
                 "rank, as 60GiB; with shardwise-plan --search, the limit of a plan")
      ->transform(CLI::AsSizeValue(false))
      ->transform(CLI::Validator(
          [](const std::string& text) -> std::string {
            const std::size_t unit = text.find_first_not_of("0123456789");
            const bool whole = unit != 0 && (unit == text.npos || (text[unit] != '.' && text[unit] != ','));
            return whole ? ""
                         : text + ": expected a whole number of bytes, or of a unit: 1536MiB, not 1.5GiB";
          },
          ""))
      ->check(CLI::Range(std::uint64_t{1}, std::uint64_t{1} << 60))
      ->excludes(recompute);
  app.add_flag("--bf16", job.bf16, "parameters and activations in bfloat16, with master weights in float");
  app.add_flag("--packed", job.packed, "pack several documents per row, without attention between them");
  add_count(app, "--micro-batches", job.micro_batches, "parts of a batch, processed one after another");
  app.add_option("--bucket-kib", options.bucket_kib,
                 "size of a bucket of gradients that are reduced together, in KiB")
      ->check(CLI::Range(0, 1 << 30));
  app.add_option(
         "--communicate-as", options.communicate_as,
         "element type of messages for gradients, and for parameters that --zero 3 gathers; if two are "
         "given, the first is for parameters, the second for gradients")
      ->expected(1, 2)
      ->check(CLI::IsMember({"float", "bfloat16"}));
  app.add_option("--in-background", job.in_background, "buckets in flight at a time")
      ->check(CLI::NonNegativeNumber);
}

namespace {

/// Throws if the sizes do not make a model, in terms of the options.
void check_sizes(const sw::llm::LlamaConfig& model) {
  const auto check = [](bool multiple, const std::string& option, sw::Index value, const std::string& other,
                        sw::Index divisor) {
    if (multiple) return;
    throw std::invalid_argument(option + std::to_string(value) + " is not a multiple of " + other +
                                std::to_string(divisor));
  };
  if (model.head_dim == 0) {
    check(model.features % model.heads == 0, "--features ", model.features, "--heads ", model.heads);
    check(model.features % (2 * model.heads) == 0, "--features ", model.features, "two times --heads ",
          model.heads);
  }
  check(model.heads % model.kv_heads == 0, "--heads ", model.heads, "--kv-heads ", model.kv_heads);
  try {
    model.checked();
  } catch (const std::invalid_argument& error) {
    const std::string text = error.what(), prefix = "LlamaConfig: ";
    throw std::invalid_argument("sizes of the model: " +
                                text.substr(text.starts_with(prefix) ? prefix.size() : 0));
  }
}

}  // namespace

StepJob job_of(const JobOptions& options, int any_dp) {
  StepJob job = options.job;
  sw::llm::LlamaConfig& model = job.model;
  if (options.config.empty()) {
    for (const LlamaPreset& preset : llama_presets) {
      if (preset.name == options.model) model = preset.config;
    }
  } else {
    model = sw::llm::read_llama_config(options.config);
  }
  if ((options.features || options.heads) && !model.latent) model.head_dim = 0, model.query_scalar = 0;
  model.layers = options.layers.value_or(model.layers);
  model.features = options.features.value_or(model.features);
  model.heads = options.heads.value_or(model.heads);
  model.kv_heads = options.kv_heads.value_or(std::gcd(model.kv_heads, model.heads));
  model.hidden = options.hidden.value_or(model.hidden);
  model.vocabulary = options.vocabulary.value_or(model.vocabulary);
  model.context = options.context.value_or(model.context);
  model.tied = model.tied || options.tied;
  if (options.experts) {
    if (!model.experts) {
      model.experts = sw::MixtureOptions{.experts = 1, .hidden = model.hidden};
      model.balance = 0.001;
    }
    model.experts->experts = *options.experts;
    static_cast<void>(sw::llm::hugging_face_family(model));  // throws if no family has them
  }
  if (options.hidden && model.experts) {
    sw::MixtureOptions& experts = *model.experts;
    experts.shared_hidden = experts.shared_hidden / experts.hidden * model.hidden;
    experts.hidden = model.hidden;
  }
  if ((options.experts_per_token || options.balance) && !model.experts)
    throw std::invalid_argument("--experts-per-token and --balance are for a model with experts: --experts");
  if (options.experts_per_token) model.experts->routing.k = *options.experts_per_token;
  if (model.experts && model.experts->routing.k > model.experts->experts) {
    throw std::invalid_argument("a layer has --experts " + std::to_string(model.experts->experts) +
                                ", expected at least as many as each token uses: --experts-per-token " +
                                std::to_string(model.experts->routing.k));
  }
  if (options.experts_per_token == 1 && model.experts->routing.normalized) {
    throw std::invalid_argument(
        "--experts-per-token 1: this model divides the weights of a token's experts by their sum, so the "
        "weight of one "
        "is always 1 and the router learns nothing; expected 2 or more");
  }
  model.balance = options.balance.value_or(model.balance);
  if (job.bias_rate > 0 && !(model.experts && model.experts->bias)) {
    throw std::invalid_argument(
        "--bias-rate is for experts with biases, as DeepSeek V3 has: this model has " +
        std::string(model.experts ? "experts without" : "no experts"));
  }
  check_sizes(model);
  const int replicas = options.are_jobs ? 1 : options.replicas;  // on the mesh
  if (options.are_jobs) job.replica_jobs = options.replicas;
  const double ranks =
      static_cast<double>(options.pp) * replicas * options.dp.value_or(1) * options.cp * options.tp;
  if (ranks > std::numeric_limits<int>::max()) {
    throw std::invalid_argument("the mesh has more than 2147483647 ranks");
  }
  job.sizes =
      job_sizes(options.pp, replicas, options.dp.value_or(any_dp), options.cp, options.tp, model.kv_heads);
  for (int& layers : job.recompute) layers = std::min(layers, static_cast<int>(model.layers));
  job.muon = options.optimizer == "muon";
  job.state = options.optimizer_state == "bf16" ? sw::StateType::bf16 : sw::StateType::compute;
  job.embedding = static_cast<EmbeddingStyle>(
      std::find(embedding_names.begin(), embedding_names.end(), options.embedding) - embedding_names.begin());
  job.batch = options.batch.value_or(options.replicas * options.dp.value_or(1) * job.micro_batches);
  if (job.batch % job.micro_batches != 0) {
    throw std::invalid_argument("--batch " + std::to_string(job.batch) +
                                " is not a multiple of --micro-batches " + std::to_string(job.micro_batches));
  }
  check_combination(job);
  schedule_of(job);  // throws for an impossible schedule
  job.bucket_bytes = options.bucket_kib << 10;
  if (const auto& types = options.communicate_as; !types.empty()) {
    auto type = [](const std::string& name) {
      return name == "float" ? sw::DataType::f32 : sw::DataType::bf16;
    };
    job.communicate_as = {type(types.front()), type(types.back())};
  }
  return job;
}

}  // namespace tools
