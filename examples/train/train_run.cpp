// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// The training run, for one element type: `TRAIN_TYPE`.

#include "train_run.hpp"

#include <chrono>
#include <nlohmann/json.hpp>

#include <shardwise/checkpoint/checkpointer.hpp>
#include <shardwise/data/load_batch.hpp>
#include <shardwise/data/open_token_corpus.hpp>
#include <shardwise/models/llama/model.hpp>
#include <shardwise/module/parameters.hpp>
#include <shardwise/text/tokenizer.hpp>
#include <shardwise/train/adamw.hpp>
#include <shardwise/train/check_finite.hpp>

#include "../plan/plan_step.hpp"
#include "../progress.hpp"
#include "../report.hpp"
#include "../save_model.hpp"
#include "../train_step.hpp"
#include "../training_log.hpp"
#include "checkpoints.hpp"
#include "stop_signal.hpp"

namespace examples {

namespace {

using MeshType = TrainMesh<sw::Mesh>;

MeshType mesh_for(const TrainOptions& options) {
  auto sizes = mesh_sizes(options.replicas, options.dp.value_or(1), options.tp, options.model.kv_heads);
  if (!options.dp) sizes[1] = sw::any;
  return {sw::world(), sizes};
}

nlohmann::ordered_json description(const TrainOptions& options, const MeshType& mesh, sw::Index parameters) {
  const sw::LlamaConfig& model = options.model;
  return {{"mesh",
           {{"replica", mesh.size<replica>()},
            {"dp", mesh.size<sw::dp>()},
            {"tp", mesh.size<sw::tp>()},
            {"kvr", mesh.size<sw::kvr>()}}},
          {"zero", options.zero},
          {"sequence_parallel", options.sequence_parallel},
          {"recompute", options.recompute},
          {"type", options.bf16 ? "bfloat16" : "float32"},
          {"parameters", parameters},
          {"model",
           {{"vocabulary", model.vocabulary},
            {"features", model.features},
            {"layers", model.layers},
            {"heads", model.heads},
            {"kv_heads", model.kv_heads},
            {"hidden", model.hidden},
            {"tied", model.tied}}},
          {"context", model.context},
          {"batch", options.batch},
          {"micro_batches", options.micro_batches},
          {"rate", options.rate},
          {"schedule", sw::name_of(options.decay)},
          {"weight_decay", options.weight_decay},
          {"clip", options.max_norm},
          {"seed", options.seed}};
}

void print_job(const TrainOptions& options, const MeshType& mesh, const sw::BatchSampler& sampler,
               sw::Index parameters) {
  std::printf("%td tokens of text, %td sequences; a Llama of %td layers with %.2f million parameters in %s\n",
              sampler.tokens(), sampler.sequence_count(), options.model.layers,
              static_cast<double>(parameters) * 1e-6, options.bf16 ? "bfloat16" : "float32");
  std::printf("replica %d x dp %d x tp %d x kvr %d, ZeRO level %d, %s parallel%s; matrix products by %s\n",
              mesh.size<replica>(), mesh.size<sw::dp>(), mesh.size<sw::tp>(), mesh.size<sw::kvr>(),
              options.zero, options.sequence_parallel ? "sequence" : "tensor",
              options.recompute ? ", recomputing" : "", sw::kernel::gemm_name());
  std::printf("%td sequences of %td tokens a step, in %td micro-batch%s; %td steps are an epoch\n",
              options.batch, options.model.context, options.micro_batches,
              options.micro_batches == 1 ? "" : "es", sampler.steps_per_epoch());
}

PlanJob plan_job(const TrainOptions& options, const MeshType& mesh) {
  return {.model = options.model,
          .sizes = mesh.sizes(),
          .zero_level = options.zero,
          .sequence_parallel = options.sequence_parallel,
          .recompute = options.recompute,
          .bf16 = options.bf16,
          .batch = options.batch,
          .micro_batches = options.micro_batches,
          .bucket_bytes = options.bucket_kib << 10};
}

template <class T, class PlanType>
bool run(TrainOptions options) {
  const MeshType mesh = mesh_for(options);
  const bool prints = mesh.rank() == 0;
  const sw::Tokenizer tokenizer =
      options.tokenizer.empty() ? sw::Tokenizer::bytes() : sw::Tokenizer::from_file(options.tokenizer);
  const sw::TokenCorpus corpus = sw::open_token_corpus(mesh, options.text, tokenizer, options.cache);
  sw::LlamaConfig& config = options.model;
  config.vocabulary = tokenizer.vocabulary();
  const sw::BatchSampler sampler(corpus.size(),
                                 {.length = config.context,
                                  .batch = options.batch,
                                  .micro_batches = options.micro_batches,
                                  .seed = options.seed,
                                  .last = options.pad ? sw::LastBatch::pad : sw::LastBatch::drop});

  sw::Recording recording(mesh);
  sw::Llama<MeshType, PlanType, T> model(mesh, config);
  model.recompute_layers = options.recompute;
  sw::initialize(model, options.seed);
  const sw::Index parameters = sw::parameter_count(model);

  const sw::Index bucket_bytes = options.bucket_kib << 10;
  sw::AdamW adamw({.rate = options.rate, .weight_decay = options.weight_decay},
                  {.bucket_bytes = bucket_bytes, .in_background = options.in_background});
  adamw.add_group([](const sw::ParameterInfo& p) { return p.rank == 1; },  // gains of norms do not decay
                  [](sw::AdamWUpdate& update) { update.weight_decay = 0; });
  const sw::Schedule schedule({.decay = options.decay,
                               .peak = options.rate,
                               .floor = options.floor * options.rate,
                               .warmup = options.warmup.value_or(options.steps / 10),
                               .steps = options.steps});
  const StepOptions step_options{.micro_batches = options.micro_batches,
                                 .max_norm = options.max_norm,
                                 .bucket_bytes = bucket_bytes,
                                 .in_background = options.in_background};

  if (prints) print_job(options, mesh, sampler, parameters);
  std::int64_t step = 0;  // steps that were made
  Checkpoints checkpoints(mesh, model, adamw, step, options, corpus, tokenizer);
  if (options.resume) checkpoints.resume();
  const std::int64_t begun = step;
  const StopSignal stop;
  std::optional<TrainingLog> log;
  if (!options.log.empty()) log.emplace(options.log, description(options, mesh, parameters), step);
  Progress progress(prints, options.progress, options.steps, options.batch * config.context, step);
  bool stopped = false, saved = true;
  while (step < options.steps && !stopped) {
    using Clock = std::chrono::steady_clock;
    const auto start = Clock::now();
    const double rate = schedule(step);
    adamw.set_rate(rate);
    recording.restart();
    const StepResult result = train_step(
        model, adamw, step_options,
        [&](sw::Index micro) { return sw::load_batch(mesh, corpus, sampler, step, micro); },
        [&](const StepResult& found) {
          sw::check_finite(model, step, found.loss, found.norm);
          return true;
        });
    const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
    progress.show(step + 1, {.loss = result.loss, .rate = rate, .norm = result.norm});
    if (log) {
      log->add({.step = step,
                .loss = result.loss,
                .rate = rate,
                .gradient_norm = result.norm,
                .tokens = sampler.counted(step),
                .seconds = seconds});
    }
    ++step;
    stopped = !sw::world().agree(!stop.asked());
    saved = checkpoints.after_step(stopped || step == options.steps);
  }
  if (stopped && prints) std::printf("stopped by a signal after step %lld\n", static_cast<long long>(step));
  if (stopped) return saved;
  const auto recorded = recording.plan();

  if (!options.export_to.empty()) save_model(mesh, model, tokenizer, options.export_to, options.tokenizer);
  if (step == begun) {
    if (prints) std::printf("no step is left to make: %lld were made\n", static_cast<long long>(step));
    return true;
  }
  const auto planned = plan_step<T>(plan_job(options, mesh), {mesh.coordinates()}).plan;
  if (prints) std::printf("the last training step:\n");
  return report(prints, "planned by a dry run", planned, recorded) && saved;
}

template <class T, int ZeroLevel>
bool run(const TrainOptions& options) {
  return options.sequence_parallel ? run<T, TrainPlan<ZeroLevel, true>>(options)
                                   : run<T, TrainPlan<ZeroLevel, false>>(options);
}

}  // namespace

template <class T>
bool train(const TrainOptions& options) {
  bool (*const levels[])(const TrainOptions&) = {run<T, 0>, run<T, 1>, run<T, 2>, run<T, 3>};
  return levels[options.zero](options);
}
template bool train<TRAIN_TYPE>(const TrainOptions&);

}  // namespace examples
