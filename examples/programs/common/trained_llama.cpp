// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// A model in training, for one element type, `STEP_TYPE`, and all plans of a set, `STEP_SET` (step_plans.hpp).

#include <shardwise/checkpoint/same_bits.hpp>
#include <shardwise/inspect/print.hpp>
#include <shardwise/llm/models/llama/files.hpp>
#include <shardwise/module/name_modules.hpp>
#include <shardwise/replicas/replica_group.hpp>
#include <shardwise/train/diloco.hpp>
#include <shardwise/train/muon.hpp>

#include "step_plans.hpp"
#include "train_step.hpp"
#include "trained_model.hpp"

namespace tools {

/// Which parameters do not decay.
inline bool is_norm_or_bias(const sw::ParameterInfo& parameter) {
  return parameter.rank == 1 || parameter.name.ends_with("bias");
}

constexpr PlanSet set = PlanSet::STEP_SET;

template <class T, class Plan>
class TrainedLlama final : public TrainedModel {
 public:
  TrainedLlama(const Job& mesh, const StepJob& job, const TrainSettings& settings)
      : job_mesh_(mesh),
        mesh_(job.local_steps > 0 ? own_replica(mesh) : mesh),
        options_(step_options_of(job_of_replica(job), settings.max_norm)),
        pipeline_(mesh_, schedule_of(job)),
        stages_(make_stages<sw::llm::Llama<Mesh, Plan, T>>(pipeline_, job)),
        optimizer_({.rate = settings.rate,
                    .weight_decay = settings.weight_decay,
                    .scale = sw::MuonScale::as_adamw,
                    .state = job.state},
                   options_.reduction) {
    if (job.local_steps > 0) {
      const double momentum = job.outer_momentum;
      const sw::DiLoCoSettings outer{
          job.local_steps, {.rate = job.outer_rate, .momentum = momentum, .nesterov = momentum > 0}};
      if (settings.group.quorum.empty()) {
        diloco_.emplace(mesh.submesh<replica>(), outer, options_.reduction);
      } else {
        group_.emplace(sw::MeshView(mesh).communicator(), settings.group);
        diloco_.emplace(*group_, outer, options_.reduction);
      }
    }
    sw::initialize(stages_, settings.seed);
    optimizer_.set_bias_rate(job.bias_rate);
    sw::AdamWUpdate adamw{.beta1 = settings.betas[0],
                          .beta2 = settings.betas[1],
                          .epsilon = settings.epsilon,
                          .weight_decay = settings.weight_decay,
                          .state = job.state};
    if (!job.muon) optimizer_.settings().adamw = adamw;
    if (job.lora_rank > 0) return;  // adapters only have matrices
    if (job.muon) {
      optimizer_.add_group(
          [](const sw::ParameterInfo& p) { return !is_norm_or_bias(p) && sw::is_not_hidden_matrix(p); },
          sw::with_adamw(adamw));
      optimizer_.add_group(
          [](const sw::ParameterInfo& p) {  // [heads, head_dim, features]
            return p.rank == 3 && p.name.find(".wo.") == std::string_view::npos;
          },
          [](sw::MuonUpdate& update) { update.row_dimensions = 2; });
    }
    adamw.weight_decay = 0;
    optimizer_.add_group(is_norm_or_bias, sw::with_adamw(adamw));
  }

  StepResult make_step(std::int64_t step, double rate, const Load& load) override {
    optimizer_.set_rate(rate);
    const StepResult result = train_step(
        pipeline_, stages_, optimizer_, options_,
        [&](sw::Index micro) { return load(pipeline_.mesh(), micro); },
        [&](const StepResult& found) {
          pipeline_.check_finite(stages_, step, found.loss, found.norm);
          if (on_gradient) sw::fingerprint_gradients(stages_, on_gradient);
          if (diloco_) diloco_->step(stages_, optimizer_);
          return !diloco_;
        });
    return diloco_ ? mean_of_replicas(job_mesh_, result) : result;
  }
  void join() override {
    if (group_) diloco_->join(stages_, optimizer_);
  }
  std::int64_t steps(std::int64_t step) const override { return group_ ? diloco_->steps() : step; }
  double evaluate(const Load& load) override {
    return sum_of_losses(pipeline_, stages_, options_,
                         [&](sw::Index micro) { return load(pipeline_.mesh(), micro); });
  }

  void name_modules(sw::EventLog& log) override {
    for (int stage = 0; stage < pipeline_.stage_count(); ++stage) {
      if (stages_.has(stage)) sw::name_modules(log, stages_.at(stage));
    }
  }
  std::string blocks() override { return mesh_.size() > 64 ? "" : sw::block_tables(stages_); }
  sw::Index load_from(const std::filesystem::path& folder) override {
    return sw::llm::load_llama(mesh_, stages_, folder);
  }
  void add_to(sw::CheckpointContents& contents) override {
    const std::string own =
        is_first_replica() ? "" : "replica" + std::to_string(job_mesh_.rank<replica>()) + ".";
    contents.add(own + "model", stages_);
    contents.add(own + "optimizer", optimizer_, stages_);
    if (diloco_) contents.add("outer", *diloco_, stages_);  // equal on all replicas
  }
  sw::Index saved_bytes() override {
    const sw::Index bytes = sw::checkpoint_bytes(stages_) + sw::checkpoint_bytes(optimizer_, stages_);
    const sw::Index outer = diloco_ ? sw::checkpoint_bytes(*diloco_, stages_) : 0;
    return is_first_replica() ? bytes + outer : bytes;
  }
  sw::Index export_to(const std::filesystem::path& folder, const sw::llm::LlamaTokens& special,
                      const Texts& beside) override {
    return is_first_replica() ? sw::llm::save_llama(mesh_, stages_, folder, {.beside = beside}, special) : 0;
  }
  sw::Index export_adapters(const std::filesystem::path& folder, const std::filesystem::path& base) override {
    if constexpr (set == PlanSet::adapted) {
      if (!is_first_replica()) return 0;
      return sw::llm::save_adapters(
          mesh_, stages_, folder,
          {.name_of = sw::llm::hugging_face_names(stages_.front().config()), .base_model = base.string()});
    } else {
      throw std::logic_error("this model has no adapters");
    }
  }

 private:
  /// Or one that does not train alone.
  bool is_first_replica() const { return !diloco_ || job_mesh_.rank<replica>() == 0; }

  Job job_mesh_, mesh_;  ///< the second is the model's
  StepOptions options_;
  sw::Pipeline<Job> pipeline_;
  sw::Stages<sw::llm::Llama<Mesh, Plan, T>> stages_;
  sw::Muon optimizer_;  ///< or AdamW for all
  std::optional<sw::ReplicaGroup> group_;
  std::optional<sw::DiLoCo> diloco_;
};

template <class T, PlanSet Set>
std::unique_ptr<TrainedModel> make_trained_model(const Job& mesh, const StepJob& job,
                                                 const TrainSettings& settings) {
  return with_plan<Set>(job, [&]<class Plan>(std::type_identity<Plan>) -> std::unique_ptr<TrainedModel> {
    return std::make_unique<TrainedLlama<T, Plan>>(mesh, job, settings);
  });
}
template std::unique_ptr<TrainedModel> make_trained_model<STEP_TYPE, PlanSet::STEP_SET>(const Job&,
                                                                                        const StepJob&,
                                                                                        const TrainSettings&);

}  // namespace tools
