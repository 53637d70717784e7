// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

#include "run.hpp"

#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <numeric>
#include <utility>

#include <shardwise/inspect/names.hpp>
#include <shardwise/inspect/plan_table.hpp>
#include <shardwise/inspect/same_plan.hpp>
#include <shardwise/kernel/gemm.hpp>
#include <shardwise/llm/data/json_lines.hpp>
#include <shardwise/llm/data/open_token_corpus.hpp>

#include "../common/host_memory.hpp"
#include "../common/job_hosts.hpp"
#include "../common/llama_presets.hpp"
#include "../common/pytorch_file.hpp"
#include "../common/step_trace.hpp"
#include "../common/text_files.hpp"

namespace tools {

namespace {

/// Uses the tokenizer of the initial model, unless another one is given.
TrainOptions completed(TrainOptions options) {
  const auto own = options.from / "tokenizer.json";
  if (!options.from.empty() && options.tokenizer.empty() && std::filesystem::exists(own))
    options.tokenizer = own;
  return options;
}

sw::llm::Tokenizer tokenizer_of(const TrainOptions& options) {
  const sw::llm::Tokenizer tokenizer = sw::llm::Tokenizer::from_folder(options.from, options.tokenizer);
  const sw::Index known = options.job.model.vocabulary;
  if (options.from.empty() || (options.tokenizer.empty() ? known == 256 : tokenizer.vocabulary() <= known)) {
    return tokenizer;
  }
  throw std::runtime_error(
      options.from.string() + ": the model has " + std::to_string(known) + " tokens, but " +
      (options.tokenizer.empty()
           ? "without a tokenizer.json they are the 256 bytes"
           : options.tokenizer.string() + " has " + std::to_string(tokenizer.vocabulary())));
}

sw::llm::BatchOptions batches_of(const TrainOptions& options) {
  return {.length = options.job.model.context,
          .batch = job_of_replica(options.job).batch,
          .micro_batches = options.job.micro_batches,
          .seed = options.seed,
          .last = options.pad ? sw::llm::LastBatch::pad : sw::llm::LastBatch::drop,
          .shuffle = !options.in_order};
}

Replicas replicas_of(const StepJob& job, const Job& mesh) {
  if (job.local_steps == 0) return {};
  if (job.replica_jobs > 1) return {job.replica_jobs, job.own_replica_job};
  return {mesh.size<replica>(), mesh.rank<replica>()};
}

/// Throws `std::invalid_argument` unless replicas have just exchanged when their model is used.
void check_local_steps(const TrainOptions& options) {
  const int local = options.job.local_steps;
  const auto check = [&](const char* option, std::int64_t steps) {
    if (local == 0 || steps % local == 0) return;
    throw std::invalid_argument(std::string(option) + " " + std::to_string(steps) +
                                " is not a multiple of --local-steps " + std::to_string(local) +
                                ", after which replicas have one model");
  };
  check(options.epochs > 0 ? "--epochs make steps:" : "--steps", options.steps);
  if (options.evaluates()) check("--evaluate-every", options.evaluate_every);
}

/// The memory of the rank that is farthest from its plan. Collective.
std::string memory_text(sw::Index planned, const PoolBytes& pool) {
  const sw::Index own[]{planned, pool.peak, pool.system};
  const std::vector<sw::Index> all = sw::world().all_gather(own);
  const auto excess = [&](std::size_t rank) {
    return static_cast<double>(all[3 * rank + 1]) / static_cast<double>(all[3 * rank]) - 1;
  };
  std::size_t rank = 0;
  for (std::size_t other = 1; other < all.size() / 3; ++other) {
    if (std::abs(excess(other)) > std::abs(excess(rank))) rank = other;
  }
  std::array<char, 40> difference;
  std::snprintf(difference.data(), difference.size(), "%+.1f %%", 100 * excess(rank));
  return "memory of rank " + std::to_string(rank) + ", farthest from its plan: planned " +
         sw::bytes_text(all[3 * rank]) + ", used at most " + sw::bytes_text(all[3 * rank + 1]) + " (" +
         difference.data() + "), taken from the system " + sw::bytes_text(all[3 * rank + 2]);
}

sw::llm::LongDocuments long_documents_of(const std::string& name) {
  if (name == "cut") return sw::llm::LongDocuments::cut;
  return name == "split" ? sw::llm::LongDocuments::split : sw::llm::LongDocuments::refuse;
}

using Paths = std::vector<std::filesystem::path>;

/// The paths of each source that is read before training: with a mix, each path is one.
std::vector<Paths> sources_of(const Paths& paths, const TrainOptions& options) {
  if (options.stream) return {};
  if (options.mix.empty()) return {paths};
  std::vector<Paths> sources;
  for (const std::filesystem::path& path : paths) sources.push_back({path});
  return sources;
}

/// The weights of a mix as whole numbers without a common divisor. Throws `std::invalid_argument` for numbers that are
/// not positive or have more than 6 decimals.
std::vector<sw::Index> weights_of(const std::vector<double>& mix) {
  std::vector<sw::Index> weights;
  constexpr double units = 1e6;
  sw::Index divisor = 0;
  for (const double weight : mix) {
    const double whole = std::round(weight * units);
    if (!(weight >= 1e-6 && weight <= 1e9) || std::abs(whole - weight * units) > 1e-3) {
      std::array<char, 32> number;
      std::snprintf(number.data(), number.size(), "%.15g", weight);
      throw std::invalid_argument("--mix: the weight " + std::string(number.data()) +
                                  ": expected a number from 0.000001 to 1e9, with at most 6 decimals");
    }
    weights.push_back(static_cast<sw::Index>(whole));
    divisor = std::gcd(divisor, weights.back());
  }
  double sum = 0;
  for (sw::Index& weight : weights) {
    weight /= divisor;
    sum += static_cast<double>(weight);
  }
  if (constexpr double most = std::numeric_limits<std::int32_t>::max(); sum > most) {
    throw std::invalid_argument("--mix: the weights as whole numbers without a common divisor have the sum " +
                                std::to_string(static_cast<sw::Index>(sum)) +
                                ", expected at most 2147483647: choose rounder weights");
  }
  return weights;
}

/// The fingerprint of several sources; of the first one, its own.
std::uint64_t together(std::uint64_t before, std::uint64_t next) {
  return before == 0 ? next : sw::Fingerprint().add(before).add(next).value();
}

/// A file for each source of a mix.
std::filesystem::path cache_of(const TrainOptions& options, std::size_t source) {
  std::filesystem::path cache = options.cache;
  if (!cache.empty() && !options.mix.empty()) cache += "." + std::to_string(source + 1);
  return cache;
}

/// Each row once, in order.
sw::llm::BatchOptions evaluated(sw::llm::BatchOptions options) {
  options.last = sw::llm::LastBatch::pad;
  options.shuffle = false;
  return options;
}

sw::RateScheduleSettings rates_of(const TrainOptions& options) {
  return {.decay = options.decay,
          .peak = options.rate,
          .floor = options.floor * options.rate,
          .warmup = options.warmup_steps(),
          .steps = options.steps,
          .first = options.first};
}

/// The description of the run for the log.
nlohmann::ordered_json description(const TrainOptions& options, const Job& mesh) {
  const StepJob& job = options.job;
  const sw::llm::LlamaConfig& model = job.model;
  return {{"mesh",
           {{"pp", mesh.size<sw::pp>()},
            {"replica", mesh.size<replica>()},
            {"dp", mesh.size<sw::dp>()},
            {"cp", mesh.size<sw::cp>()},
            {"tp", mesh.size<sw::tp>()},
            {"kvr", mesh.size<sw::kvr>()}}},
          {"zero", job.zero_level},
          {"sequence_parallel", job.sequence_parallel},
          {"recompute", recomputes(job)},
          {"recompute_layers", job.recompute},
          {"embedding", embedding_names[static_cast<std::size_t>(job.embedding)]},
          {"lora_rank", job.lora_rank},
          {"lora_layers", job.lora_layers},
          {"freeze_layers", job.freeze_layers},
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
            {"experts", model.experts ? model.experts->experts : 0},
            {"experts_per_token", model.experts ? model.experts->routing.k : 0},
            {"balance", model.balance},
            {"tied", model.tied}}},
          {"context", model.context},
          {"batch", job.batch},
          {"micro_batches", job.micro_batches},
          {"schedule", job.schedule},
          {"local_steps", job.local_steps},
          {"outer_rate", job.outer_rate},
          {"outer_momentum", job.outer_momentum},
          {"rate", options.rate},
          {"rate_schedule", sw::name_of(options.decay)},
          {"weight_decay", options.weight_decay},
          {"optimizer", job.muon ? "muon" : "adamw"},
          {"optimizer_state", job.state == sw::StateType::bf16 ? "bfloat16" : "float32"},
          {"betas", options.betas},
          {"epsilon", options.epsilon},
          {"clip", options.max_norm},
          {"bias_rate", job.bias_rate},
          {"token_dispatcher", job.by_counts ? "alltoall" : "allgather"},
          {"seed", options.seed},
          {"mix", options.mix}};
}

/// The same calls, and as many bytes. How many tokens travel is data: the bytes of all-to-alls, and so the hash of the
/// sequence of calls, may differ.
bool same_but_for_counts(const JobPlan& planned, const JobPlan& recorded) {
  const auto without_counts = [](const JobPlan& plan) {
    sw::Record record = plan.record();
    record.sequence = {};
    for (auto& phase : record.traffic) {
      for (sw::Traffic& traffic : phase[static_cast<int>(sw::Collective::all_to_all)]) traffic.bytes = 0;
    }
    return JobPlan(record, plan.sizes());
  };
  return same_communication(without_counts(planned), without_counts(recorded));
}

}  // namespace

std::string noted(const std::filesystem::path& path) {
  const std::string text = sw::Json(std::filesystem::absolute(path).string())
                               .dump(-1, ' ', false, sw::Json::error_handler_t::replace);
  return sw::Json::parse(text).get<std::string>();
}

std::string change(const char* name, const sw::Json& before, const sw::Json& now) {
  const sw::Json was = before.is_object() ? before.value(name, sw::Json()) : sw::Json(),
                 is = now.value(name, sw::Json());
  return was == is ? "" : std::string("\"") + name + "\" was " + was.dump() + ", and is " + is.dump();
}

namespace {

/// The same for files, of which settings have a hash and, as NAME_files, the names.
std::string change_of_files(const std::string& name, const sw::Json& before, const sw::Json& now) {
  if (change(name.c_str(), before, now).empty()) return "";
  const std::string files = name + "_files", other = change(files.c_str(), before, now);
  return other.empty() ? "\"" + name + "\" was other text in " + now.value(files, sw::Json()).dump() : other;
}

}  // namespace

std::string other_run(const sw::Json& before, const sw::Json& now) {
  if (const std::string other = change("stream", before, now); !other.empty())
    return "of another run: " + other;
  for (const char* name : {"text", "validation"}) {
    const std::string other = change_of_files(name, before, now);
    if (!other.empty()) return "of another run: " + other;
  }
  for (const char* name : {"seed", "batch", "context", "pad", "packed", "long_documents", "held_out",
                           "in_order", "mix", "optimizer", "optimizer_state", "local_steps", "replicas"}) {
    const std::string other = change(name, before, now);
    if (!other.empty()) return "of another run: " + other;
  }
  const sw::Json model = before.is_object() ? before.value("llama_config", sw::Json()) : sw::Json();
  const sw::Json sizes =
      sw::Json::parse(sw::llm::llama_config_text(sw::llm::parse_llama_config(now.at("llama_config")), ""));
  for (const auto& [name, value] : sizes.items()) {  // other keys are notes
    if (name == "torch_dtype" || name == "bos_token_id" || name == "eos_token_id") continue;  // not used
    const std::string other = change(name.c_str(), model, now["llama_config"]);
    if (!other.empty()) return "of another model: " + other;
  }
  return "";
}

Run::Run(TrainOptions options)
    : options_(completed(std::move(options))),
      mesh_(sw::world(), options_.job.sizes),
      tokenizer_(tokenizer_of(options_)),
      schedule_({}) {
  options_.job.sizes = on_job_mesh(mesh_.sizes());
  if (options_.from.empty()) options_.job.model.vocabulary = tokenizer_.vocabulary();
  open_data();
  if (options_.epochs > 0) options_.steps = options_.epochs * data_->steps_per_epoch();
  check_local_steps(options_);
  schedule_ = sw::RateSchedule(rates_of(options_));
  options_.job = within_memory(options_.job, options_.memory);
  sw::require_same(sw::world(), plan_step(job(), {}));  // sizes may come from files, which may differ
}

std::unique_ptr<TrainedModel> Run::make_model() const {
  auto model = make_trained_model(mesh_, job(),
                                  {.rate = options_.rate,
                                   .weight_decay = options_.weight_decay,
                                   .max_norm = options_.max_norm,
                                   .betas = options_.betas,
                                   .epsilon = options_.epsilon,
                                   .seed = options_.seed,
                                   .group = replica_group()});
  if (!options_.from.empty()) model->load_from(options_.from);
  return model;
}

StepResult Run::make_step(TrainedModel& model, std::int64_t step) const {
  return model.make_step(step, rate(step),
                         [&](const Mesh& stage, sw::Index micro) { return data_->load(stage, step, micro); });
}

void Run::open_data() {
  const sw::llm::BatchOptions batches = batches_of(options_);
  const Replicas replicas = replicas_of(job(), mesh_);
  if (const auto end = tokenizer_.end_token(); end && *end >= job().model.vocabulary) {
    throw std::runtime_error(options_.from.string() + ": texts end with token " + std::to_string(*end) +
                             ", but the model has " + std::to_string(job().model.vocabulary));
  }
  options_.data.empty() ? open_text(batches, replicas) : open_documents(batches, replicas);
}

sw::ReplicaGroupSettings Run::replica_group() const {
  sw::ReplicaGroupSettings group = options_.group;
  sw::Json all = settings();
  for (const char* place : {"text_files", "validation_files", "validation", "tokenizer", "from"})
    all.erase(place);
  group.same = sw::Fingerprint().add(all.dump()).value();
  return group;
}

/// Replicas that are jobs of their own each evaluate all.
Replicas Run::evaluating(const Replicas& replicas) const {
  return job().replica_jobs > 1 ? Replicas{} : replicas;
}

void Run::open_text(const sw::llm::BatchOptions& batches, const Replicas& replicas) {
  if (job().packed) throw std::invalid_argument("--packed is for documents: give --data");
  const std::vector<sw::Index> weights = weights_of(options_.mix);
  TokenCorpora training, held_out;
  std::vector<sw::llm::MixedSource> mix;
  for (const Paths& paths : sources_of(options_.text, options_)) {
    const sw::llm::TokenCorpus corpus =
        sw::llm::open_token_corpus(mesh_, paths, tokenizer_, cache_of(options_, mix.size()));
    fingerprint_ = together(fingerprint_, corpus.fingerprint());
    const auto last = static_cast<sw::Index>(options_.held_out * static_cast<double>(corpus.size()));
    mix.push_back({corpus.size() - last, weights.empty() ? 1 : weights[mix.size()]});
    training.add(corpus.part(0, corpus.size() - last));
    held_out.add(corpus.part(corpus.size() - last, last));
  }
  if (!options_.validation.empty()) {
    const sw::llm::TokenCorpus validation =
        sw::llm::open_token_corpus(mesh_, options_.validation, tokenizer_, {});
    validation_fingerprint_ = validation.fingerprint();
    held_out = {};
    held_out.add(validation);
  }
  if (options_.evaluates())
    held_out_.emplace(held_out, sw::llm::BatchSampler(held_out.size(), evaluated(batches)),
                      evaluating(replicas));
  if (options_.stream) return open_stream(batches, replicas);
  data_.emplace(
      training,
      weights.empty() ? sw::llm::BatchSampler(training.size(), batches) : sw::llm::BatchSampler(mix, batches),
      replicas);
}

void Run::open_stream(sw::llm::BatchOptions batches, const Replicas& replicas) {
  constexpr sw::Index bytes_a_token = 16;  // so with four bytes a token, a piece is about four sequences
  const auto stream = std::make_shared<sw::llm::TokenStream>(
      mesh_, options_.text, tokenizer_,
      sw::llm::StreamOptions{
          .piece = bytes_a_token * batches.length, .seed = options_.seed, .shuffle = !options_.in_order});
  fingerprint_ = stream->fingerprint();
  batches.shuffle = false;  // the stream is
  data_.emplace(stream, sw::llm::BatchSampler(stream->size(), batches), replicas);
}

void Run::open_documents(const sw::llm::BatchOptions& batches, const Replicas& replicas) {
  const std::vector<sw::Index> weights = weights_of(options_.mix);
  sw::llm::JsonLinesOptions reading{
      .chat = sw::llm::ChatTemplate::from_folder(options_.from, options_.chat_template),
      .match_special_tokens = options_.match_special_tokens};
  const sw::llm::RowOptions options{.length = batches.length,
                                    .packed = job().packed,
                                    .long_documents = long_documents_of(options_.long_documents)};
  std::optional<sw::llm::DocumentRows> training, held_out;
  const auto add = [&](std::optional<sw::llm::DocumentRows>& rows,
                       const sw::llm::TrainingDocuments& documents) {
    if (rows) {
      rows->add(documents);
    } else {
      rows.emplace(documents, options);
    }
  };
  std::size_t source = 0;
  for (const Paths& paths : sources_of(options_.data, options_)) {
    reading.cache = cache_of(options_, source++);
    auto documents = sw::llm::read_json_lines(mesh_, paths, tokenizer_, reading);
    fingerprint_ = together(fingerprint_, sw::llm::fingerprint_of(documents));
    if (prints()) warn_of(documents);
    if (options_.held_out > 0) add(held_out, sw::llm::hold_out(documents, options_.held_out, options_.seed));
    add(training, documents);
  }
  if (!options_.validation.empty()) {
    reading.cache.clear();
    const auto validation = sw::llm::read_json_lines(mesh_, options_.validation, tokenizer_, reading);
    validation_fingerprint_ = sw::llm::fingerprint_of(validation);
    add(held_out, validation);
  }
  const auto note = [&](const sw::llm::DocumentRows& rows, const char* kind) {
    if (rows.long_documents() == 0 || !prints()) return;
    std::printf("note: %s%s with more than %td tokens: %s; %td of these have nothing to be learned left\n",
                counted(rows.long_documents(), "document").c_str(), kind, options.length + 1,
                options_.long_documents.c_str(), rows.dropped());
  };
  note(*training, "");
  if (held_out) {
    note(*held_out, " for evaluation");
    held_out_.emplace(*held_out, held_out->sampler(evaluated(batches)), evaluating(replicas));
  }
  data_.emplace(*training, weights.empty() ? training->sampler(batches) : training->sampler(batches, weights),
                replicas);
}

void Run::warn_of(const sw::llm::TrainingDocuments& documents) const {
  std::vector<std::int32_t> ends = special_tokens().ends;
  if (tokenizer_.end_token()) ends.push_back(*tokenizer_.end_token());
  std::size_t endless = 0, special = 0;
  std::string first;
  for (sw::Index i = 0; i < documents.size(); ++i) {
    const sw::llm::TrainingDocument document = documents[i];
    const bool ended = std::ranges::all_of(document.answers, [&](const sw::Range& answer) {
      const auto begin = document.tokens.begin() + answer.begin;
      return std::find_first_of(begin, begin + answer.size, ends.begin(), ends.end()) != begin + answer.size;
    });
    if (!ended && endless++ == 0) first = document.place;
    if (document.has_special_text) ++special;
  }
  if (endless > 0) {
    std::printf(
        "WARNING: in %zu of %td documents, first in %s, a text that is learned ends without an end token, so "
        "the "
        "model does not learn to stop. %s\n",
        endless, documents.size(), first.c_str(),
        ends.empty()
            ? "Name such a token as eos_token_id in config.json, and let the chat template write it after an "
              "answer of a dialogue."
            : "Let the chat template write that token after an answer, or name the one that it writes as "
              "eos_token_id in config.json.");
  }
  if (special > 0) {
    std::printf("note: special tokens are written in %zu of %td documents, where they are ordinary text%s\n",
                special, documents.size(),
                options_.match_special_tokens
                    ? ""
                    : " (--match-special-tokens reads those of texts, prompts and completions)");
  }
}

sw::llm::LlamaTokens Run::special_tokens() const {
  if (!options_.from.empty()) return sw::llm::read_llama_tokens(options_.from);
  sw::llm::LlamaTokens special;
  if (tokenizer_.begin_token()) special.begin = tokenizer_.begin_token();
  if (tokenizer_.end_token()) special.ends.push_back(*tokenizer_.end_token());
  return special;
}

void Run::evaluate(TrainedModel& model, std::int64_t step) {
  held_out_loss_.reset();
  if (!held_out_ || (step % options_.evaluate_every != 0 && step < options_.steps && step != begun_)) return;
  std::array<double, 2> sums{};  // of losses, and of targets that count
  for (sw::Index part = 0; held_out_->has(part); ++part) {
    sw::Index counted = 0;
    sums[0] += model.evaluate([&](const Mesh& stage, sw::Index micro) {
      auto batch = held_out_->load(stage, part, micro);
      counted = batch.counted;
      return batch;
    });
    sums[1] += static_cast<double>(counted);
  }
  if (job().local_steps > 0) {  // each replica has evaluated some of the parts
    sw::MeshView(mesh_).all_reduce(sums.data(), 2, sw::DataType::f64, sw::ReduceOp::sum,
                                   1u << Job::AxesOf::index<replica>);
  }
  const double loss = sums[0] / sums[1];
  const bool best =
      agree(mesh_, loss < best_loss_ && best_.improved_by(loss));  // the numbers are the same on all ranks
  held_out_loss_ = loss;
  progress_->show_held_out(step, loss, best);
  if (!best) return;
  if (!options_.export_best.empty()) {
    best_exported_ = best_.replace(loss, step, [&] { export_to(options_.export_best, model); });
    if (!best_exported_) return;  // the next best model may find a disk that is not full
  }
  best_loss_ = loss;
}

sw::Json Run::settings() const {
  sw::Json all{{"llama_config", sw::Json::parse(sw::llm::llama_config_text(
                                    model_of(job()), job().bf16 ? "bfloat16" : "float32", special_tokens()))},
               {"text", fingerprint_},
               {"seed", options_.seed},
               {"batch", job().batch},
               {"context", job().model.context},
               {"pad", options_.pad},
               {"packed", job().packed},
               {"steps", options_.steps},
               {"rate", options_.rate},
               {"rate_schedule", sw::name_of(options_.decay)},
               {"warmup", options_.warmup_steps()},
               {"floor", options_.floor},
               {"weight_decay", options_.weight_decay},
               {"betas", options_.betas},
               {"epsilon", options_.epsilon},
               {"clip", options_.max_norm}};
  if (job().bias_rate > 0) all["bias_rate"] = job().bias_rate;
  if (job().muon) all["optimizer"] = "muon";
  if (job().state == sw::StateType::bf16) all["optimizer_state"] = "bfloat16";
  if (job().local_steps > 0) {
    all["local_steps"] = job().local_steps;
    all["replicas"] = replicas_of(job());
    all["outer_rate"] = job().outer_rate;
    all["outer_momentum"] = job().outer_momentum;
  }
  if (options_.held_out > 0) all["held_out"] = options_.held_out;
  const auto name_files = [&](const char* name, const Paths& paths) {
    for (const std::filesystem::path& path : paths) all[name].push_back(noted(path));
  };
  name_files("text_files", options_.data.empty() ? options_.text : options_.data);
  name_files("validation_files", options_.validation);
  if (!options_.validation.empty()) all["validation"] = validation_fingerprint_;
  if (options_.long_documents != "refuse") all["long_documents"] = options_.long_documents;
  if (!options_.mix.empty()) all["mix"] = weights_of(options_.mix);
  if (options_.in_order) all["in_order"] = true;
  if (options_.stream) all["stream"] = true;
  if (!options_.from.empty()) all["from"] = noted(options_.from);
  if (!options_.tokenizer.empty()) all["tokenizer"] = noted(options_.tokenizer);
  if (!options_.chat_template.empty()) all["chat_template"] = sw::read_text(options_.chat_template);
  return all;
}

void Run::note_position(sw::Json& notes) const {
  if (!data_->stream()) return;
  const auto [token, piece, offset] = data_->stream()->position();
  notes["stream_position"] = {token, piece, offset};
}

void Run::continue_from(const std::string& from, const sw::Json& notes) const {
  if (!data_->stream()) return;
  sw::prefix_errors(from + ": stream_position", [&] {
    const auto [token, piece, offset] = notes.at("stream_position").get<std::array<sw::Index, 3>>();
    data_->stream()->seek({token, piece, offset});
  });
}

void Run::open_best(bool resumed) {
  if (options_.export_best.empty()) return;
  sw::Json own = settings();
  own["lora_rank"] = job().lora_rank;
  if (job().lora_layers > 0) own["lora_layers"] = job().lora_layers;
  if (job().freeze_layers > 0) own["freeze_layers"] = job().freeze_layers;
  const auto difference = [&](const sw::Json& before) {
    std::string other = other_run(before, own);
    for (const char* name : {"lora_rank", "lora_layers", "freeze_layers"}) {
      if (other.empty()) other = change(name, before, own);
    }
    for (const char* name : changeable) {  // without a checkpoint, all settings must match
      if (other.empty() && !resumed) other = change(name, before, own);
    }
    return other.empty() || other.starts_with("of another") ? other : "of another run: " + other;
  };
  best_.open(options_.export_best, own, {options_.resume, !options_.save.empty(), difference});
}

void Run::print_job() const {
  if (!prints()) return;
  const sw::llm::BatchSampler& sampler = data_->sampler();
  if (const std::vector<sw::Index> weights = weights_of(options_.mix); !weights.empty()) {
    const auto sum = static_cast<double>(std::accumulate(weights.begin(), weights.end(), sw::Index{0}));
    const std::vector<sw::Index> read = sampler.counts(sampler.steps_per_epoch() * sampler.options().batch),
                                 sizes = sampler.sizes();
    for (std::size_t i = 0; i < weights.size(); ++i) {
      std::printf("%.4g %% of the sequences are from %s, which has %td and is read %.3g times in an epoch\n",
                  100 * static_cast<double>(weights[i]) / sum,
                  (options_.data.empty() ? options_.text : options_.data)[i].c_str(), sizes[i],
                  static_cast<double>(read[i]) / static_cast<double>(sizes[i]));
    }
  }
  if (const sw::llm::DocumentRows* rows = data_->rows()) {
    std::printf("%s in %s, %.0f %% full; ", counted(rows->documents(), "document").c_str(),
                counted(rows->size(), "row").c_str(), 100 * rows->filled());
  } else if (const sw::llm::TokenStream* stream = data_->stream()) {
    std::printf("text in %s; ", counted(stream->pieces(), "piece").c_str());
  } else {
    std::printf("%td tokens of text, %s; ", sampler.tokens(),
                counted(sampler.sequence_count(), "sequence").c_str());
  }
  std::printf("a %s of %s with %s in %s\n", family_name(job().model).c_str(),
              counted(job().model.layers, "layer").c_str(), parameters_text(job().model.parameters()).c_str(),
              job().bf16 ? "bfloat16" : "float32");
  std::printf("%s, ZeRO level %d%s%s%s; matrix products by %s\n", sizes_text(job().sizes).c_str(),
              job().zero_level, split_text(job()).c_str(),
              recomputes(job()) ? (", activations are " + recomputation_text(job())).c_str() : "",
              unusual_in(job()).c_str(), sw::kernel::gemm_name());
  const sw::Index epoch = data_->steps_per_epoch();
  std::printf("%s of %td tokens a step, in %s", counted(job().batch, "sequence").c_str(), job().model.context,
              counted(job().micro_batches, "micro-batch").c_str());
  data_->stream()
      ? std::printf("\n")
      : std::printf("; %s %s an epoch\n", counted(epoch, "step").c_str(), epoch == 1 ? "is" : "are");
  if (const sw::Hosts& hosts = sw::world().hosts(); hosts.count() > 1)
    std::printf("%s\n", axes_on_hosts(job().sizes, [&](int rank) { return hosts.of(rank); }).c_str());
}

void Run::begin(std::int64_t step) {
  begun_ = step;
  if (!options_.log.empty()) log_.emplace(options_.log, description(options_, mesh_), step);
  progress_.emplace(prints(), options_.progress, options_.steps, job().batch * job().model.context,
                    data_->steps_per_epoch(), step);
}

void Run::tell(std::int64_t step, Progress::Values values, double seconds) {
  std::optional<double> waited;
  if (const sw::llm::TokenStream* stream = data_->stream()) {
    waited = stream->waited() - std::exchange(waited_, stream->waited());
    values.epoch = static_cast<double>(stream->position().piece) / static_cast<double>(stream->pieces());
  }
  progress_->show(step + 1, values);
  add_to_log(step, [&] {
    log_->add({.step = step,
               .loss = values.loss,
               .rate = values.rate,
               .gradient_norm = values.norm,
               .tokens = data_->counted(step),
               .seconds = seconds,
               .waited = waited,
               .held_out_loss = held_out_loss_});
  });
}

void Run::print_waits() const {
  if (!prints() || !data_->stream()) return;
  std::printf("steps have waited %.3f s for tokens\n", waited_);
}

void Run::evaluate_last(TrainedModel& model, std::int64_t step) {
  evaluate(model, step);
  if (held_out_loss_) add_to_log(step, [&] { log_->add_evaluation(step, *held_out_loss_); });
}

void Run::add_to_log(std::int64_t step, const std::function<void()>& add) {
  if (!log_) return;
  try {
    add();
  } catch (const std::runtime_error& error) {  // training continues without the log
    std::fprintf(stderr, "the log ends before step %lld: %s\n", static_cast<long long>(step), error.what());
    log_.reset();
  }
}

void Run::check() const {
  const MemoryLimit limit = memory_limit();
  const sw::Communicator world = sw::world();
  const bool copies = !options_.save.empty() && !options_.save_in_foreground;
  sw::Index saved = 0;
  const JobPlan plan = plan_step(with_exchange(job()), on_job_mesh(mesh_.coordinates()), nullptr, &saved);
  const auto group = std::bit_cast<sw::Index>(sw::Fingerprint().add(limit.control_group).value());
  const sw::Index own[]{plan.peak_bytes(), copies ? saved : 0, group};
  const std::vector<sw::Index> all = world.all_gather(own);
  sw::throw_on_all_ranks(world, "this run", [&] {
    double needed = 0, copied = 0;
    for (int rank = 0; rank < world.size(); ++rank) {
      const sw::Index* of_rank = &all[3 * static_cast<std::size_t>(rank)];
      if (world.hosts().of(rank) != world.hosts().of(world.rank()) || of_rank[2] != own[2]) continue;
      needed += static_cast<double>(of_rank[0] + of_rank[1]);
      copied += static_cast<double>(of_rank[1]);
    }
    const auto text = [](double bytes) { return sw::bytes_text(static_cast<sw::Index>(bytes)); };
    if (needed > limit.bytes) {
      throw std::runtime_error(
          "a step takes " + text(needed) + " on the ranks of this host, which has " + text(limit.bytes) +
          (limit.control_group.empty() ? ""
                                       : " (the limit of the control group " + limit.control_group + ")") +
          (copied == 0 ? "" : "; " + text(copied) + " are for the copy of a save, see --save-in-foreground") +
          ": see --recompute, --zero, --tp, --pp, --micro-batches and --bf16, or take more hosts");
    }
    if (!prints()) return;
    if (const auto& trace = options_.trace; !trace.empty()) {
      if (std::filesystem::exists(trace) && !std::filesystem::is_regular_file(trace))
        throw std::runtime_error(trace.string() + ": not a regular file");
      const sw::TemporaryFile can_be_written(trace);
    }
  });
  for (const std::filesystem::path& folder : {options_.export_to, options_.export_best}) {
    if (!folder.empty()) check_folder(folder);
  }
}

void Run::check_folder(const std::filesystem::path& folder) const {
  const sw::Communicator world = sw::world();
  struct FreshFolder {  // appears with a model, or not at all
    std::filesystem::path path{};
    ~FreshFolder() {
      if (std::error_code ignored; !path.empty()) std::filesystem::remove(path, ignored);
    }
  } fresh;
  std::optional<sw::TemporaryFile> trial;
  sw::throw_on_all_ranks(world, "this run", [&] {
    if (!prints()) return;
    std::error_code error;
    if (std::filesystem::create_directories(folder, error)) fresh.path = folder;
    if (error) throw std::runtime_error(folder.string() + ": cannot be made: " + error.message());
    for (const char* name : {"adapter_config.json", "adapter_model.safetensors"}) {
      if (exports_adapters() || !std::filesystem::exists(folder / name)) continue;
      throw std::runtime_error(
          (folder / name).string() +
          ": other programs would apply these adapters to the model that is exported here: "
          "remove them, or name another folder");
    }
    trial.emplace(folder / "config.json");
  });
  const std::string file = world.broadcast(trial ? trial->path().string() : "");
  sw::throw_on_all_ranks(world, "this run", [&] {  // all ranks write the model's files
    const sw::File opened(file, O_WRONLY);
    opened.write("1", world.rank());
    opened.sync();
  });
}

bool Run::compare(const JobPlan& seen, const PoolBytes& pool) const {
  StepJob of_hosts = with_exchange(job());
  of_hosts.ranks_per_host = ranks_per_host(sw::world().hosts());
  const JobPlan planned = plan_step(of_hosts, on_job_mesh(mesh_.coordinates()));
  JobPlan recorded = seen;
  if (of_hosts.ranks_per_host == 0) {  // a plan cannot predict the traffic between these hosts
    sw::Record record = seen.record();
    record.to_other_hosts = {};
    recorded = {record, mesh_.sizes()};
  }
  const bool same =
      job().by_counts ? same_but_for_counts(planned, recorded) : same_communication(planned, recorded);
  const std::string memory = memory_text(planned.peak_bytes(), pool);
  if (prints()) {
    std::printf("the last training step:\n%s",
                sw::plan_table("planned by a dry run", planned, "recorded", recorded).c_str());
    std::printf("%s\n", memory.c_str());
    if (!same) std::printf("the recorded communication DIFFERS from the plan\n");
  }
  return same;
}

bool Run::write_trace(const sw::EventLog& log) const {
  const sw::Speeds speeds = sw::fitted(log.events());
  sw::StepNames names = step_names(job());
  sw::EventLog planned;
  std::string blocks;
  plan_step(with_exchange(job()), on_job_mesh(mesh_.coordinates()), &planned, nullptr, &blocks);
  names.modules = &log;
  names.planned_modules = &planned;
  const std::string trace = sw::trace_of_all_ranks(
      sw::world(), log.events(), names, sw::with_times(planned.events(), speeds),
      "plan (modelled: " + sw::speeds_text(speeds) + ")",
      about_step(job(), log.events().back().end - log.events().front().begin, options_.command));
  bool written = true;
  try {
    if (prints()) sw::write_file_atomically(options_.trace, page_or_trace(options_.trace, trace, blocks));
  } catch (const std::runtime_error& error) {
    std::fprintf(stderr, "no trace: %s\n", error.what());
    written = false;
  }
  return agree(mesh_, written);
}

Texts Run::texts(const char* task) const {
  Texts beside;
  sw::throw_on_all_ranks(sw::world(), task, [&] {
    const auto add = [&](const std::filesystem::path& file, const char* name) {
      constexpr std::uintmax_t largest = 256 << 20;
      if (std::error_code ignored;
          std::filesystem::is_regular_file(file, ignored) && std::filesystem::file_size(file) > largest)
        throw std::runtime_error(file.string() + " has " + std::to_string(std::filesystem::file_size(file)) +
                                 " bytes, expected at most " + std::to_string(largest));
      beside[name] = !prints() || file.empty() || !std::filesystem::exists(file)
                         ? std::nullopt
                         : std::optional(sw::read_text(file));
    };
    add(options_.tokenizer, "tokenizer.json");
    for (const char* name : text_files) {
      std::filesystem::path place = place_of_text(name, options_.from, options_.tokenizer);
      if (std::string_view(name) == "chat_template.jinja" && !options_.chat_template.empty())
        place = options_.chat_template;
      if (!place.empty()) add(place, name);
    }
  });
  return beside;
}

void Run::export_to(const std::filesystem::path& folder, TrainedModel& model) const {
  if (exports_adapters()) {
    const sw::Index bytes = model.export_adapters(folder, options_.from);
    if (prints())
      std::printf("adapters saved to %s; this rank wrote %.2f MB\n", folder.c_str(),
                  static_cast<double>(bytes) * 1e-6);
    return;
  }
  const Texts beside = texts("the export");
  const sw::Index bytes = model.export_to(folder, special_tokens(), beside);
  sw::throw_on_all_ranks(sw::world(), "the export", [&] {
    if (!prints()) return;
    if (options_.format == "pytorch") {
      write_pytorch_file(sw::Weights(folder), folder / "pytorch_model.bin");
      std::filesystem::remove(folder / "model.safetensors");
    }
    std::printf("saved to %s; this rank wrote %.2f MB\n", folder.c_str(), static_cast<double>(bytes) * 1e-6);
  });
}

}  // namespace tools
