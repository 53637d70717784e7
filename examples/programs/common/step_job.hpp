// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// A training step of a Llama, for `train` to run and `plan` to count. Plans and element types are types selected
/// at run time: all combinations are compiled, each element type in its own translation units.

#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include <shardwise/kernel/element.hpp>
#include <shardwise/llm/models/llama/part.hpp>
#include <shardwise/record/communication_plan.hpp>
#include <shardwise/schedule/named.hpp>
#include <shardwise/train/optimizer_state.hpp>

#include "llama_mesh.hpp"

namespace tools {

namespace sw = shardwise;

/// How the table of tokens is split over tp: by rows, by columns, or not at all.
enum class EmbeddingStyle : std::uint8_t { vocabulary, features, replicated };
inline constexpr std::array embedding_names{"vocabulary", "features", "replicated"};

struct StepJob {
  sw::llm::LlamaConfig model{};      ///< sequences have `context` tokens
  sw::Index own_context = 0;         ///< the model's context in config.json, if different
  JobSizes sizes{1, 1, 1, 1, 1, 1};  ///< pp, replica, dp, cp, tp, kvr; dp may be `sw::any` for a run
  int ranks_per_host = 0;            ///< for a plan: consecutive ranks per host; 0: all on one
  std::string schedule = "1f1b";     ///< of a pipeline
  int chunks = 0;                    ///< stages on each rank along pp; 0: the schedule's default
  int in_flight = 0;  ///< micro-batches of a by-costs schedule; 0: three times the number of ranks
  int zero_level = 0;
  bool sequence_parallel = false, bf16 = false;
  /// The first layers of each stage whose activations are recomputed: how many, for all ranks along pp or for each.
  std::vector<int> recompute{0};
  EmbeddingStyle embedding = EmbeddingStyle::vocabulary;
  bool by_counts = false;  ///< tokens are sent to the ranks that have their experts, instead of gathered
  bool muon =
      false;  ///< the optimizer, with AdamW for the table of tokens, the head and the norms; else AdamW
  sw::StateType state = sw::StateType::compute;  ///< of the optimizer's moments
  int lora_rank = 0;      ///< rank of adapters to train instead of the model, with alpha twice that; 0: none
  int lora_layers = 0;    ///< how many of the last layers have adapters; 0: all
  int freeze_layers = 0;  ///< of the first, with the table of tokens; 0: none
  double bias_rate = 0;   ///< by which the biases of experts move against their load
  bool packed = false;    ///< each sequence is a row of documents, which do not see each other
  sw::Index batch = 1;    ///< sequences per step, over all ranks and micro-batches
  sw::Index micro_batches = 1;
  sw::Index bucket_bytes = sw::Index{8} << 20;
  int in_background = 8;  ///< buckets in flight at a time
  int local_steps =
      0;  ///< after which replicas exchange, as in DiLoCo; 0: they reduce gradients in every step
  double outer_rate = 0.7, outer_momentum = 0.9;  ///< of that exchange
  int replica_jobs = 1,
      own_replica_job = 0;  ///< replicas that are jobs of their own, and the number of this one
  /// Element types of messages for gathered parameters and for gradients; by default the model's type.
  std::optional<std::array<sw::DataType, 2>> communicate_as{};
};

/// The same on every rank; 0 on a dry mesh.
struct StepResult {
  double loss = 0;  ///< the mean over all targets that count
  double norm = 0;  ///< of its gradients, before clipping
};

/// The model as in its config.json.
constexpr sw::llm::LlamaConfig model_of(const StepJob& job) {
  sw::llm::LlamaConfig model = job.model;
  if (job.own_context > 0) model.context = job.own_context;
  model.lora = {job.lora_rank, 2 * job.lora_rank};
  if (job.lora_rank > 0) model.n = job.lora_layers > 0 ? job.lora_layers : model.layers;
  if (job.freeze_layers > 0) model.n = job.freeze_layers;
  model.micro_batches = job.micro_batches;
  return model;
}

/// Replicas that train alone.
constexpr int replicas_of(const StepJob& job) { return job.sizes[1] * job.replica_jobs; }
/// The job of a replica that trains alone; without `local_steps` the job itself.
constexpr StepJob job_of_replica(StepJob job) {
  if (job.local_steps == 0) return job;
  job.batch /= replicas_of(job);
  job.sizes[1] = 1;
  return job;
}
/// The same job with an exchange in each step, such as the last one of a run.
constexpr StepJob with_exchange(StepJob job) {
  job.local_steps = std::min(job.local_steps, 1);
  return job;
}

/// The names of these types, for JSON.
inline std::array<const char*, 2> communicated_as(const StepJob& job) {
  const sw::DataType own = job.bf16 ? sw::DataType::bf16 : sw::DataType::f32;
  const auto types = job.communicate_as.value_or(std::array{own, own});
  auto name = [](sw::DataType type) { return type == sw::DataType::bf16 ? "bfloat16" : "float32"; };
  return {name(types[0]), name(types[1])};
}

inline sw::PipelineSchedule schedule_of(const StepJob& job) {
  return sw::pipeline_schedule(
      job.schedule, job.sizes[0], job.chunks, static_cast<int>(job.micro_batches),
      [&](const std::vector<int>& rank_of_stage) {
        return sw::llm::LlamaPart::costs(job.model, rank_of_stage);
      },
      job.in_flight);
}

/// The plans in sets, each compiled in its own translation unit: with adapters, with frozen layers, with trained
/// experts, and the others.
enum class PlanSet : std::uint8_t { adapted, frozen, experts, dense };
constexpr PlanSet set_of(const StepJob& job) {
  if (job.lora_rank > 0) return PlanSet::adapted;
  if (job.freeze_layers > 0) return PlanSet::frozen;
  return job.model.experts ? PlanSet::experts : PlanSet::dense;
}

/// "1 rank", "2 ranks", "2 micro-batches".
inline std::string counted(sw::Index count, const std::string& noun) {
  const char* plural = count == 1 ? "" : noun.ends_with("ch") ? "es" : "s";
  return std::to_string(count) + " " + noun + plural;
}

/// "layer" or "3 layers", after "the first".
inline std::string layers_text(sw::Index count) { return count == 1 ? "layer" : counted(count, "layer"); }

/// Throws `std::invalid_argument` for combinations of options without a plan.
inline void check_combination(const StepJob& job) {
  const sw::Index stages = sw::Index{job.sizes[0]} * std::max(job.chunks, 1),
                  passes = stages * job.micro_batches;
  if (constexpr sw::Index most = 1 << 16; passes > most) {
    throw std::invalid_argument(std::to_string(stages) + " stages and " + std::to_string(job.micro_batches) +
                                " micro-batches are " + std::to_string(passes) +
                                " passes in a step, of at most " + std::to_string(most));
  }
  if (job.local_steps > 0 && replicas_of(job) == 1)
    throw std::invalid_argument("--local-steps are those of several replicas: --replicas");
  if (job.local_steps > 0 && job.batch % (replicas_of(job) * job.micro_batches) != 0) {
    throw std::invalid_argument("--local-steps: --batch " + std::to_string(job.batch) +
                                " is not a multiple of --replicas times --micro-batches, " +
                                std::to_string(replicas_of(job) * job.micro_batches));
  }
  const bool plain = job.zero_level == 0 && !job.sequence_parallel;
  if (job.model.experts) {
    const char* option = nullptr;
    if (job.embedding != EmbeddingStyle::vocabulary) option = "--embedding other than vocabulary does";
    if (job.zero_level > 1) option = "--zero 2 and 3 do";
    if (option)
      throw std::invalid_argument(std::string(option) + " not go with a model that has experts" +
                                  (job.zero_level > 1 ? ": use --zero 1" : ""));
    if (job.lora_rank > 0 && job.zero_level > 0)
      throw std::invalid_argument("--lora-rank for a model with experts goes with --zero 0");
    if (job.lora_rank > 0 && job.bias_rate > 0)
      throw std::invalid_argument("--bias-rate does not go with --lora-rank: the biases are frozen");
    if (job.lora_rank > 0 && job.by_counts)
      throw std::invalid_argument("--token-dispatcher alltoall does not go with --lora-rank");
    if (job.by_counts && job.zero_level != 1)
      throw std::invalid_argument("--token-dispatcher alltoall goes with --zero 1");
  } else if (job.by_counts) {
    throw std::invalid_argument("--token-dispatcher is for a model with experts: --experts");
  }
  if (job.embedding != EmbeddingStyle::vocabulary) {
    const std::string option =
        std::string("--embedding ") + embedding_names[static_cast<std::size_t>(job.embedding)];
    if (job.embedding == EmbeddingStyle::features && !plain)
      throw std::invalid_argument(option + " goes with --zero 0, and without --sp");
    if (job.zero_level > 1) throw std::invalid_argument(option + " goes with --zero 0 or 1");
    if (job.model.tied)
      throw std::invalid_argument(option + ": a tied head needs --embedding vocabulary, as it is sharded so");
    if (job.lora_rank > 0) throw std::invalid_argument(option + " does not go with --lora-rank");
  }
  for (const auto& [option, layers] :
       {std::pair("--lora-layers ", job.lora_layers), std::pair("--freeze-layers ", job.freeze_layers)}) {
    if (layers > job.model.layers) {
      throw std::invalid_argument(option + std::to_string(layers) + ": the model has " +
                                  counted(job.model.layers, "layer"));
    }
  }
  if (job.lora_layers > 0 && job.lora_rank == 0)
    throw std::invalid_argument("--lora-layers are those with adapters: --lora-rank");
  if (job.freeze_layers > 0) {
    const char* other = nullptr;
    if (job.lora_rank > 0) other = "--lora-rank, which freezes all layers: see --lora-layers";
    if (job.model.experts) other = "a model that has experts";
    if (job.embedding != EmbeddingStyle::vocabulary) other = "--embedding other than vocabulary";
    if (job.model.tied && job.zero_level == 3) other = "--zero 3 if the head is tied";
    if (job.muon && job.model.tied) other = "--optimizer muon if the head is tied";
    if (job.muon && job.freeze_layers == job.model.layers)
      other = "--optimizer muon if all layers are frozen";
    if (other) throw std::invalid_argument(std::string("--freeze-layers does not go with ") + other);
  }
  if (job.lora_rank > 0) {
    if (job.muon) throw std::invalid_argument("--optimizer muon does not go with --lora-rank");
    if (job.zero_level > 1) throw std::invalid_argument("--lora-rank goes with --zero 0 or 1");
  }
}

inline constexpr int all_layers = std::numeric_limits<int>::max();
/// How many layers of each of its stages the rank at `pp` recomputes; at most as many as the stage has.
constexpr int recomputed_layers(const StepJob& job, int pp) {
  return job.recompute[job.recompute.size() == 1 ? 0 : static_cast<std::size_t>(pp)];
}
constexpr bool recomputes(const StepJob& job) {
  return std::ranges::any_of(job.recompute, [](int layers) { return layers > 0; });
}
/// "kept", "recomputed", or "recomputed in the first 3 of 32 layers".
inline std::string recomputation_text(const StepJob& job) {
  if (!recomputes(job)) return "kept";
  if (job.recompute.size() == 1 && job.recompute.front() == job.model.layers) return "recomputed";
  std::string text;
  for (const int layers : job.recompute) text += (text.empty() ? "" : ", ") + std::to_string(layers);
  return "recomputed in the first " + text +
         (job.sizes[0] > 1 ? " layers of each stage"
                           : " of " + std::to_string(job.model.layers) + " layers") +
         (job.recompute.size() > 1 ? ", by rank along pp" : "");
}

/// "12.50 million parameters".
inline std::string parameters_text(sw::Index count) {
  const double number = static_cast<double>(count);
  std::array<char, 40> text{};
  if (number < 1e4) return std::to_string(count) + " parameters";
  std::snprintf(text.data(), text.size(), "%.2f %s parameters", number * (number < 1e9 ? 1e-6 : 1e-9),
                number < 1e9 ? "million" : "billion");
  return text.data();
}
/// ", tensor parallel" or ", sequence parallel"; nothing on one rank of tp.
inline std::string split_text(const StepJob& job) {
  if (job.sizes[4] * job.sizes[5] == 1) return "";
  return job.sequence_parallel ? ", sequence parallel" : ", tensor parallel";
}

/// Unusual options as the continuation of a sentence; or empty.
inline std::string unusual_in(const StepJob& job) {
  std::string text;
  if (job.local_steps > 0)
    text = "; replicas train alone for " + std::to_string(job.local_steps) + " steps, then exchange (DiLoCo)";
  if (job.lora_rank > 0) {
    text += "; adapters of rank " + std::to_string(job.lora_rank) + " and alpha " +
            std::to_string(2 * job.lora_rank) + " are trained";
    if (job.lora_layers > 0) text += " in the last " + layers_text(job.lora_layers);
  }
  if (job.freeze_layers > 0) {
    text += "; the tokens' table and the first " + layers_text(job.freeze_layers) + " are frozen";
  }
  if (job.state == sw::StateType::bf16) text += "; optimizer state in bfloat16";
  if (job.by_counts) text += "; tokens are sent to the ranks of their experts";
  if (job.bias_rate > 0) text += "; biases balance the experts";
  if (job.model.experts && job.model.balance == 0 && job.bias_rate == 0)
    text += "; nothing balances the experts";
  if (job.embedding == EmbeddingStyle::features) text += "; the tokens' table is split by features";
  if (job.embedding == EmbeddingStyle::replicated) text += "; the tokens' table is whole on every rank of tp";
  return text;
}

/// The plan of the rank at `coordinates` for one step, with existing optimizer state, as after earlier steps; with
/// `local_steps` of 2 or more, one without an exchange. Counted on a dry mesh. Throws `std::invalid_argument` for an
/// impossible job. `log`: also logs events in order, if not null.
/// `saved`: receives the number of bytes that the rank writes to a checkpoint, which a save in the background copies.
/// `blocks`: receives the blocks of all ranks, see `sw::block_tables`; then the log also has the names of modules.
JobPlan plan_step(const StepJob& job, const JobSizes& coordinates, sw::EventLog* log = nullptr,
                  sw::Index* saved = nullptr, std::string* blocks = nullptr);

/// The job with the fewest recomputed layers, for each rank along pp, with which a step needs at most `bytes` on a rank;
/// the job itself if `bytes` is 0. Throws `std::invalid_argument`, with the fewest bytes possible, if all are too few.
StepJob within_memory(StepJob job, sw::Index bytes);

}  // namespace tools
