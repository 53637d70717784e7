// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// A model in training, for one element type, `STEP_TYPE`, and all plans of a set, `STEP_SET` (step_plans.hpp).

#include <shardwise/checkpoint/contents.hpp>
#include <shardwise/models/llama/files.hpp>
#include <shardwise/train/adamw.hpp>

#include "step_plans.hpp"
#include "train_step.hpp"
#include "trained_model.hpp"

namespace tools {

template <class T, class Plan>
class TrainedLlama final : public TrainedModel {
 public:
  TrainedLlama(const Job& mesh, const StepJob& job, const TrainSettings& settings)
      : mesh_(mesh),
        options_(step_options_of(job, settings.max_norm)),
        pipeline_(mesh, schedule_of(job)),
        stages_(make_stages<sw::Llama<Mesh, Plan, T>>(pipeline_, job)),
        adamw_({.rate = settings.rate,
                .beta1 = settings.betas[0],
                .beta2 = settings.betas[1],
                .epsilon = settings.epsilon,
                .weight_decay = settings.weight_decay},
               options_.reduction) {
    sw::initialize(stages_, settings.seed);
    if (job.lora_rank > 0) return;                                            // adapters only have matrices
    adamw_.add_group([](const sw::ParameterInfo& p) { return p.rank == 1; },  // norms do not decay
                     [](sw::AdamWUpdate& update) { update.weight_decay = 0; });
  }

  StepResult make_step(std::int64_t step, double rate, const Load& load) override {
    adamw_.set_rate(rate);
    return train_step(
        pipeline_, stages_, adamw_, options_, [&](sw::Index micro) { return load(pipeline_.mesh(), micro); },
        [&](const StepResult& found) {
          pipeline_.check_finite(stages_, step, found.loss, found.norm);
          return true;
        });
  }
  double evaluate(const Load& load) override {
    return sum_of_losses(pipeline_, stages_, options_,
                         [&](sw::Index micro) { return load(pipeline_.mesh(), micro); });
  }

  sw::Index load_from(const std::filesystem::path& folder) override {
    return sw::load_llama(mesh_, stages_, folder);
  }
  void add_to(sw::CheckpointContents& contents) override {
    contents.add("model", stages_);
    contents.add("optimizer", adamw_, stages_);
  }
  sw::Index saved_bytes() override {
    sw::Index bytes = 0;
    const auto add = [&](const sw::detail::AnyTensor& x) {
      const sw::detail::AnyBox box = x.box();
      const sw::AxisSet copies = x.layout.axes_where([](sw::Placement p) { return !p.is_shard(); });
      const sw::Index rows =
          sw::balanced_block(box.size[0], sw::group_size(x.mesh.sizes(), x.mesh.axes(), copies),
                             sw::group_rank(x.mesh.sizes(), x.mesh.coordinates(), x.mesh.axes(), copies))
              .size;
      if (rows > 0) bytes += box.elements() / box.size[0] * rows * x.element_bytes();
    };
    for (const auto& parameter : sw::detail::distinct(sw::detail::named_parameters_of(stages_)))
      add(parameter.cell->stored);
    adamw_.for_each_state(
        stages_, [&](const std::string&, const sw::detail::AnyTensor& x) { add(x); },
        [](const std::string&, std::int64_t&) {});
    return bytes;
  }
  sw::Index export_to(const std::filesystem::path& folder, const sw::LlamaTokens& special) override {
    return sw::save_llama(mesh_, stages_, folder, {}, special);
  }
  sw::Index export_adapters(const std::filesystem::path& folder, const std::filesystem::path& base) override {
    if constexpr (std::is_same_v<Plan, AdaptedPlan<8>> || std::is_same_v<Plan, AdaptedPlan<16>>) {
      return sw::save_adapters(stages_.front(), folder,
                               {.name_of = sw::hugging_face_name, .base_model = base.string()});
    } else {
      throw std::logic_error("this model has no adapters");
    }
  }

 private:
  Job mesh_;
  StepOptions options_;
  sw::Pipeline<Job> pipeline_;
  sw::Stages<sw::Llama<Mesh, Plan, T>> stages_;
  sw::AdamW adamw_;
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
