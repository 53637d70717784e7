// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The plans of each set, for translation units compiled once per element type and set. A plan with level 1 or 2 of ZeRO
/// serves the levels below, too (`sw::lower_zero_level`).

#include <tuple>
#include <type_traits>

#include "step_job.hpp"

namespace tools {

template <PlanSet>
struct PlansOf;
template <>
struct PlansOf<PlanSet::dense> {
  using Types = std::tuple<TrainPlan<2, false>, TrainPlan<2, true>, TrainPlan<3, false>, TrainPlan<3, true>,
                           ReplicatedPlan<2, false>, ReplicatedPlan<2, true>, ColumnsPlan>;
};
template <>
struct PlansOf<PlanSet::experts> {
  using Types = std::tuple<ExpertPlan<1, false>, ExpertPlan<1, true>, ExpertPlan<1, false, sw::by_counts>,
                           ExpertPlan<1, true, sw::by_counts>>;
};
template <>
struct PlansOf<PlanSet::frozen> {
  using Types = std::tuple<FrozenPlan<2, false>, FrozenPlan<2, true>, FrozenPlan<3, false>,
                           FrozenPlan<3, true>, FrozenTiedPlan<false>, FrozenTiedPlan<true>>;
};
template <>
struct PlansOf<PlanSet::adapted> {
  using Types = std::tuple<AdaptedPlan<1, false>, AdaptedPlan<1, true>, AdaptedExpertPlan<false>,
                           AdaptedExpertPlan<true>>;
};

/// A plan of a set under a short name: all functions of a model repeat it in theirs, and compilers take long to write
/// names of thousands of letters.
template <PlanSet Set, std::size_t Place>
struct PlanAt : std::tuple_element_t<Place, typename PlansOf<Set>::Types> {};

/// The position of the job's plan in its set.
inline std::size_t place_in_set(const StepJob& job) {
  const std::size_t sequence = job.sequence_parallel ? 1 : 0;
  if (job.embedding == EmbeddingStyle::features) return 6;
  if (job.embedding == EmbeddingStyle::replicated) return 4 + sequence;
  if (job.freeze_layers > 0 && job.model.tied) return 4 + sequence;
  const bool adapts_experts = job.lora_rank > 0 && job.model.experts;
  return (job.zero_level == 3 || job.by_counts || adapts_experts ? 2 : 0) + sequence;
}

/// Calls f with the job's plan, which is in this set, as a `std::type_identity`. Throws `std::invalid_argument` if
/// there is no such plan.
template <PlanSet Set, std::size_t Place = 0, class F>
auto with_plan(const StepJob& job, F f) {
  using Plans = typename PlansOf<Set>::Types;
  if constexpr (Place == 0) check_combination(job);
  if constexpr (Place + 1 < std::tuple_size_v<Plans>) {
    if (place_in_set(job) != Place) return with_plan<Set, Place + 1>(job, f);
  }
  return f(std::type_identity<PlanAt<Set, Place>>());
}

}  // namespace tools
