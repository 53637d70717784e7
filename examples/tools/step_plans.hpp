// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The plans of each set, for translation units compiled once per element type and set.

#include <tuple>
#include <type_traits>

#include "step_job.hpp"

namespace tools {

template <PlanSet>
struct PlansOf;
template <>
struct PlansOf<PlanSet::zero_0_1> {
  using Types = std::tuple<TrainPlan<0, false>, TrainPlan<0, true>, TrainPlan<1, false>, TrainPlan<1, true>>;
};
template <>
struct PlansOf<PlanSet::zero_2_3> {
  using Types = std::tuple<TrainPlan<2, false>, TrainPlan<2, true>, TrainPlan<3, false>, TrainPlan<3, true>>;
};
template <>
struct PlansOf<PlanSet::adapted> {
  using Types =
      std::tuple<AdaptedPlan<0, false>, AdaptedPlan<0, true>, AdaptedPlan<1, false>, AdaptedPlan<1, true>>;
};
template <>
struct PlansOf<PlanSet::experts> {
  using Types =
      std::tuple<ExpertPlan<0, false>, ExpertPlan<0, true>, ExpertPlan<1, false>, ExpertPlan<1, true>,
                 ExpertPlan<1, false, sw::by_counts>, ExpertPlan<1, true, sw::by_counts>,
                 AdaptedExpertPlan<false>, AdaptedExpertPlan<true>>;
};
template <>
struct PlansOf<PlanSet::embedding> {
  using Types = std::tuple<ReplicatedPlan<0, false>, ReplicatedPlan<0, true>, ReplicatedPlan<1, false>,
                           ReplicatedPlan<1, true>, ColumnsPlan>;
};

/// The position of the job's plan in its set.
inline std::size_t place_in_set(const StepJob& job) {
  if (job.embedding == EmbeddingStyle::features) return 4;
  const std::size_t sequence = job.sequence_parallel ? 1 : 0;
  if (job.by_counts) return 4 + sequence;
  if (job.model.experts && job.lora_rank > 0) return 6 + sequence;
  return 2 * static_cast<std::size_t>(job.zero_level % 2) + sequence;
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
  return f(std::type_identity<std::tuple_element_t<Place, Plans>>());
}

}  // namespace tools
