// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// A schedule generated for given costs of stages and messages: list scheduling (Graham, "Bounds for certain
/// multiprocessing anomalies", 1966) with the priorities of Qi et al. ("Zero Bubble Pipeline Parallelism", 2023,
/// section 3).

#include <algorithm>

#include <shardwise/schedule/costs.hpp>

namespace shardwise {

namespace detail {

/// Builds a schedule by simulating it: whenever a rank is idle, it takes the best available action.
class ListScheduling {
 public:
  /// A rank starts a backward of weights if it would otherwise wait longer than `patience` times its duration.
  constexpr ListScheduling(PipelineSchedule& schedule, const Costs& costs, int in_flight, double patience)
      : schedule_(schedule),
        costs_(costs),
        in_flight_(in_flight),
        patience_(patience),
        micro_batches_(schedule.micro_batches),
        ranks_(schedule.actions.size(), Rank{}),
        stages_(schedule.rank_of_stage.size(), Stage{}) {
    for (int stage = schedule.stages(); stage-- > 0;) {
      at(ranks_, at(schedule_.rank_of_stage, stage)).stages.push_back(stage);
    }
    for (Rank& rank : ranks_) choose(rank);
  }

  /// Returns the duration of the schedule.
  constexpr double run() {
    for (int left = 3 * schedule_.stages() * micro_batches_; left > 0; --left) {
      Choice first{};
      for (const Rank& rank : ranks_) {
        if (rank.best.exists && (!first.exists || rank.best.begin < first.begin)) first = rank.best;
      }
      take(first);
    }
    double end = 0;
    for (const Rank& rank : ranks_) end = std::max(end, rank.clock);
    return end;
  }

 private:
  struct Stage {
    std::vector<double> forward_end{}, backward_end{};  ///< of each micro-batch whose end is known
    int weights = 0;                                    ///< backwards of weights completed or started

    constexpr int forwards() const { return static_cast<int>(forward_end.size()); }
    constexpr int backwards() const { return static_cast<int>(backward_end.size()); }
  };
  struct Choice {
    bool exists = false;
    double begin = 0;
    Action action{};
  };
  struct Rank {
    std::vector<int> stages{};    ///< in descending order
    std::vector<Action> later{};  ///< pending backwards of weights
    std::size_t next_later = 0;
    double clock = 0;
    Choice best{};  ///< given what is known now
  };

  /// The action that can start first, preferring a backward of inputs to a forward, and later stages to earlier
  /// ones; or, if the rank would wait for it, a backward of weights.
  constexpr void choose(Rank& rank) const {
    Choice& best = rank.best;
    best = {};
    for (const Work work : {Work::backward_input, Work::forward}) {
      for (const int stage : rank.stages) {
        const Choice each = next_of(work, stage, rank);
        if (each.exists && (!best.exists || each.begin < best.begin)) best = each;
      }
    }
    if (rank.next_later == rank.later.size()) return;
    const Action& weights = rank.later[rank.next_later];
    if (best.exists && best.begin - rank.clock <= patience_ * costs_.of(weights)) return;
    best = {true, rank.clock, weights};
  }
  /// The stage's next forward or backward of inputs, if it is known when its inputs are available.
  constexpr Choice next_of(Work work, int number, const Rank& rank) const {
    const Stage& stage = at(stages_, number);
    const bool forward = work == Work::forward, last = number + 1 == schedule_.stages();
    const int micro_batch = forward ? stage.forwards() : stage.backwards();
    const bool too_many =
        forward && number == rank.stages.back() && stage.forwards() - stage.weights >= in_flight_;
    if (micro_batch == micro_batches_ || too_many || (!forward && micro_batch >= stage.forwards())) return {};
    double ready = 0;
    if (!forward && last) {
      ready = at(stage.forward_end, micro_batch);
    } else if (!forward || number > 0) {
      const int from = number + (forward ? -1 : 1);
      const Stage& other = at(stages_, from);
      if (micro_batch >= (forward ? other.forwards() : other.backwards())) return {};
      const bool here = at(schedule_.rank_of_stage, from) == at(schedule_.rank_of_stage, number);
      ready = at(forward ? other.forward_end : other.backward_end, micro_batch) + (here ? 0 : costs_.message);
    }
    return {true, std::max(ready, rank.clock), {work, number, micro_batch}};
  }
  constexpr void take(const Choice& choice) {
    const Action& action = choice.action;
    const int number = at(schedule_.rank_of_stage, action.stage);
    Rank& rank = at(ranks_, number);
    Stage& stage = at(stages_, action.stage);
    rank.clock = choice.begin + costs_.of(action);
    at(schedule_.actions, number).push_back(action);
    if (action.work == Work::forward) {
      stage.forward_end.push_back(rank.clock);
    } else if (action.work == Work::backward_input) {
      stage.backward_end.push_back(rank.clock);
      rank.later.push_back({Work::backward_weight, action.stage, action.micro_batch});
    } else {
      ++stage.weights;
      ++rank.next_later;
    }
    choose(rank);
    const int to = action.stage + (action.work == Work::forward ? 1 : -1);
    if (action.work == Work::backward_weight || to < 0 || to == schedule_.stages()) return;
    choose(at(ranks_, at(schedule_.rank_of_stage, to)));  // which may wait for this result
  }

  PipelineSchedule& schedule_;
  const Costs& costs_;
  const int in_flight_;
  const double patience_;
  const int micro_batches_;
  std::vector<Rank> ranks_;
  std::vector<Stage> stages_;
};

}  // namespace detail

/// The schedule in which each idle rank starts the first possible action: a backward of inputs, which other ranks wait
/// for, else a forward. It fills idle time with backwards of weights. Two thresholds are tried (any idle time; more
/// than half the duration of the action), and the shorter schedule is returned. Stage i is on rank `rank_of_stage[i]`.
/// A rank starts at most `in_flight` micro-batches before it has finished the first of them, and keeps their
/// activations; 0: three times the number of ranks. That suffices to be idle only at the ends if there is one stage per
/// rank, all costs are equal, messages cost nothing, and there are twice as many micro-batches as ranks.
///
/// Throws `std::invalid_argument` if there are no stages or micro-batches, if rank numbers are negative or not
/// consecutive, if `in_flight` is negative, and for costs as `prove` does.
constexpr PipelineSchedule by_costs(const std::vector<int>& rank_of_stage, int micro_batches,
                                    const Costs& costs, int in_flight = 0) {
  const auto stages = static_cast<int>(rank_of_stage.size());
  int last = -1;
  for (const int rank : rank_of_stage) {
    if (rank < 0) detail::fail({"by_costs: a stage is on rank ", rank, "; expected 0 or more"});
    last = std::max(last, rank);
  }
  for (int rank = 0; rank <= std::min(last, stages); ++rank) {
    if (std::find(rank_of_stage.begin(), rank_of_stage.end(), rank) == rank_of_stage.end()) {
      detail::fail({"by_costs: rank ", rank, " has no stage, but rank ", last, " has one"});
    }
  }
  const int ranks = last + 1;
  PipelineSchedule empty = detail::empty_schedule("by_costs", ranks, 1, micro_batches);
  empty.rank_of_stage = rank_of_stage;
  detail::check_costs("by_costs", costs, stages);
  if (in_flight < 0) {
    detail::fail({"by_costs: ", in_flight, " micro-batches in flight; expected 1 or more, or 0"});
  }
  if (in_flight == 0) in_flight = 3 * ranks;
  PipelineSchedule patient = empty, impatient = empty;
  const double time = detail::ListScheduling(patient, costs, in_flight, 0.5).run();
  return detail::ListScheduling(impatient, costs, in_flight, 0).run() < time ? impatient : patient;
}

}  // namespace shardwise
