// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

#include "run.hpp"

#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <utility>

#include <shardwise/data/open_token_corpus.hpp>
#include <shardwise/inspect/names.hpp>
#include <shardwise/inspect/plan_table.hpp>
#include <shardwise/inspect/same_plan.hpp>
#include <shardwise/inspect/trace_file.hpp>
#include <shardwise/kernel/gemm.hpp>

#include "step_names.hpp"

namespace tools {

namespace {

sw::Tokenizer tokenizer_of(const TrainOptions& options) {
  return options.tokenizer.empty() ? sw::Tokenizer::bytes() : sw::Tokenizer::from_file(options.tokenizer);
}

sw::BatchOptions batches_of(const TrainOptions& options) {
  return {.length = options.job.model.context,
          .batch = options.job.batch,
          .micro_batches = options.job.micro_batches,
          .seed = options.seed,
          .last = options.pad ? sw::LastBatch::pad : sw::LastBatch::drop};
}

sw::ScheduleSettings rates_of(const TrainOptions& options) {
  return {.decay = options.decay,
          .peak = options.rate,
          .floor = options.floor * options.rate,
          .warmup = options.warmup_steps(),
          .steps = options.steps};
}

/// Of the log.
nlohmann::ordered_json description(const TrainOptions& options, const Job& mesh) {
  const StepJob& job = options.job;
  const sw::LlamaConfig& model = job.model;
  return {{"mesh",
           {{"pp", mesh.size<sw::pp>()},
            {"replica", mesh.size<replica>()},
            {"dp", mesh.size<sw::dp>()},
            {"tp", mesh.size<sw::tp>()},
            {"kvr", mesh.size<sw::kvr>()}}},
          {"zero", job.zero_level},
          {"sequence_parallel", job.sequence_parallel},
          {"recompute", job.recompute},
          {"type", job.bf16 ? "bfloat16" : "float32"},
          {"communicate_as", communicated_as(job)},
          {"parameters", model.parameters()},
          {"model",
           {{"vocabulary", model.vocabulary},
            {"features", model.features},
            {"layers", model.layers},
            {"heads", model.heads},
            {"kv_heads", model.kv_heads},
            {"hidden", model.hidden},
            {"tied", model.tied}}},
          {"context", model.context},
          {"batch", job.batch},
          {"micro_batches", job.micro_batches},
          {"schedule", job.schedule},
          {"rate", options.rate},
          {"rate_schedule", sw::name_of(options.decay)},
          {"weight_decay", options.weight_decay},
          {"clip", options.max_norm},
          {"seed", options.seed}};
}

}  // namespace

Run::Run(TrainOptions options)
    : options_(std::move(options)),
      mesh_(sw::world(), options_.job.sizes),
      tokenizer_(tokenizer_of(options_)),
      corpus_(sw::open_token_corpus(mesh_, options_.text, tokenizer_, options_.cache)),
      sampler_(corpus_.size(), batches_of(options_)),
      schedule_(rates_of(options_)) {
  options_.job.sizes = on_job_mesh(mesh_.sizes());
  options_.job.model.vocabulary = tokenizer_.vocabulary();
  sw::require_same(sw::world(), plan_step(job(), {}));  // sizes may be read from files, and those may differ
}

sw::LlamaTokens Run::special_tokens() const {
  sw::LlamaTokens special;
  if (tokenizer_.begin_token()) special.begin = tokenizer_.begin_token();
  if (tokenizer_.end_token()) special.ends.push_back(*tokenizer_.end_token());
  return special;
}

sw::LoadedBatch<Mesh> Run::load(const Mesh& stage, std::int64_t step, sw::Index micro_batch) const {
  return sw::load_batch(stage, corpus_, sampler_, step, micro_batch);
}

void Run::print_job() const {
  if (!prints()) return;
  std::printf("%td tokens of text, %td sequences; a Llama of %td layers with %.2f million parameters in %s\n",
              sampler_.tokens(), sampler_.sequence_count(), job().model.layers,
              static_cast<double>(job().model.parameters()) * 1e-6, job().bf16 ? "bfloat16" : "float32");
  std::printf(
      "pp %d x replica %d x dp %d x tp %d x kvr %d, ZeRO level %d, %s parallel%s; matrix products by %s\n",
      mesh_.size<sw::pp>(), mesh_.size<replica>(), mesh_.size<sw::dp>(), mesh_.size<sw::tp>(),
      mesh_.size<sw::kvr>(), job().zero_level, job().sequence_parallel ? "sequence" : "tensor",
      job().recompute ? ", recomputing" : "", sw::kernel::gemm_name());
  std::printf("%td sequences of %td tokens a step, in %td micro-batch%s; %td steps are an epoch\n",
              job().batch, job().model.context, job().micro_batches, job().micro_batches == 1 ? "" : "es",
              sampler_.steps_per_epoch());
}

void Run::begin(std::int64_t step) {
  if (!options_.log.empty()) log_.emplace(options_.log, description(options_, mesh_), step);
  progress_.emplace(prints(), options_.progress, options_.steps, job().batch * job().model.context, step);
}

void Run::tell(std::int64_t step, const Progress::Values& values, double seconds) {
  progress_->show(step + 1, values);
  if (!log_) return;
  try {
    log_->add({.step = step,
               .loss = values.loss,
               .rate = values.rate,
               .gradient_norm = values.norm,
               .tokens = sampler_.counted(step),
               .seconds = seconds});
  } catch (const std::runtime_error& error) {  // steps are worth more than their log
    std::fprintf(stderr, "the log ends before step %lld: %s\n", static_cast<long long>(step), error.what());
    log_.reset();
  }
}

void Run::check() const {
  const auto memory =
      static_cast<double>(::sysconf(_SC_PHYS_PAGES)) * static_cast<double>(::sysconf(_SC_PAGESIZE));
  const sw::Communicator world = sw::world();
  const sw::Index own[]{plan_step(job(), on_job_mesh(mesh_.coordinates())).peak_bytes()};
  const std::vector<sw::Index> all = sw::detail::gather(world, own);
  sw::detail::together(world, "this run", [&] {
    double needed = 0;
    for (int rank = 0; rank < world.size(); ++rank) {
      if (world.hosts().of(rank) == world.hosts().of(world.rank()))
        needed += static_cast<double>(all[static_cast<std::size_t>(rank)]);
    }
    if (needed > memory) {
      throw std::runtime_error(
          "a step takes " + sw::bytes_text(static_cast<sw::Index>(needed)) +
          " on the ranks of this host, which has " + sw::bytes_text(static_cast<sw::Index>(memory)) +
          ": see --recompute, --zero, --tp, --pp, --micro-batches and --bf16, or take more hosts");
    }
    if (!prints()) return;
    if (!options_.trace.empty()) sw::detail::TemporaryFile(options_.trace, sw::detail::temporary_token());
    if (options_.export_to.empty()) return;
    std::filesystem::create_directories(options_.export_to);
    sw::detail::TemporaryFile(options_.export_to / "config.json", sw::detail::temporary_token());
  });
}

bool Run::compare(const StepPlan& recorded) const {
  const StepPlan planned = plan_step(job(), on_job_mesh(mesh_.coordinates()));
  const bool same = same_communication(planned, recorded);
  if (prints()) {
    std::printf("the last training step:\n%s",
                sw::plan_table("planned by a dry run", planned, "recorded", recorded).c_str());
    if (!same) std::printf("the recorded communication DIFFERS from the plan\n");
  }
  return same;
}

void Run::write_trace(const sw::EventLog& log) const {
  const sw::Speeds speeds = sw::fitted(log.events());
  const sw::StepNames names = step_names(job());
  sw::EventLog planned;
  plan_step(job(), on_job_mesh(mesh_.coordinates()), &planned);
  const std::string trace =
      sw::trace_of_all_ranks(sw::world(), log.events(), names, sw::with_times(planned.events(), speeds),
                             "plan (" + sw::speeds_text(speeds, names) + ")");
  if (!prints()) return;
  std::ofstream file(options_.trace, std::ios::binary);
  file << trace;
  if (!file.flush()) throw std::runtime_error(options_.trace.string() + ": cannot be written");
}

void Run::complete_export(sw::Index bytes_written) const {
  if (!prints()) return;
  namespace fs = std::filesystem;
  const fs::path copy = options_.export_to / "tokenizer.json";
  if (options_.tokenizer.empty()) {
    fs::remove(copy);
  } else if (!fs::exists(copy) || !fs::equivalent(options_.tokenizer, copy)) {
    fs::copy_file(options_.tokenizer, copy, fs::copy_options::overwrite_existing);
  }
  std::printf("saved to %s; this rank wrote %.2f MB\n", options_.export_to.c_str(),
              static_cast<double>(bytes_written) * 1e-6);
}

}  // namespace tools
