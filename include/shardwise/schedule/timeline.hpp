// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Simulates a schedule: when each action begins, and whether all actions are reached.

#include <algorithm>

#include <shardwise/schedule/costs.hpp>
#include <shardwise/schedule/problem.hpp>

namespace shardwise::detail {

/// The working times of ranks. An action begins as soon as its rank has finished the previous one and its inputs
/// are available; a message takes none of its rank's time.
struct Timeline {
  std::vector<double> begin{};           ///< of each rank's first computation
  std::vector<double> end{};             ///< of its last one
  std::vector<ScheduleAction> circle{};  ///< as in `ScheduleProblem`; empty if all actions are reached
  std::vector<std::vector<double>> each_begin{};  ///< of each rank's computations, if requested
};

/// Executes a schedule that is complete, matched and ordered on each rank (see `Check`). A send and its receive
/// wait for each other, so they are one event; in a table without messages, a computation waits for those that
/// produce its inputs. Linear in the number of actions.
class Walk {
 public:
  constexpr Walk(const PipelineSchedule& schedule, const Costs& costs)
      : schedule_(schedule),
        costs_(costs),
        ranks_(schedule.ranks()),
        stages_(schedule.stages()),
        micro_batches_(schedule.micro_batches),
        rank_of_(schedule.rank_of_stage.data()),
        has_messages_(schedule.has_messages()),
        state_(schedule.actions.size(), Rank{}),
        forward_end_(product(stages_, micro_batches_), -1.0),
        backward_end_(forward_end_) {}

  constexpr Timeline run(bool each_begin = false) {
    if (each_begin) timeline_.each_begin.resize(schedule_.actions.size());
    for (int rank = 0; rank < ranks_; ++rank) {
      const std::vector<Action>& actions = at(schedule_.actions, rank);
      at(state_, rank) = {actions.data(), actions.data() + actions.size(), -1, 0};
    }
    for (int rank = ranks_; rank-- > 0;) awake_.push_back(rank);
    while (!awake_.empty()) {
      const int rank = awake_.back();
      awake_.pop_back();
      advance(rank);
    }
    for (const Rank& each : state_) {
      timeline_.begin.push_back(each.begin < 0 ? 0 : each.begin);
      timeline_.end.push_back(each.clock);
    }
    find_circle();
    return std::move(timeline_);
  }

 private:
  struct Rank {
    const Action* next = nullptr;
    const Action* last = nullptr;
    double begin = -1;  // of its first computation
    double clock = 0;   // the end of its latest action
  };

  /// The time when the other stage's result that the computation needs is on its rank; -1 if not yet known.
  constexpr double ready(const Action& action) const {
    if (action.work == Work::backward_weight) return 0;
    const bool forward = action.work == Work::forward;
    const int from = action.stage + (forward ? -1 : 1);
    if (from < 0 || from == stages_) return 0;
    const double end = at(forward ? forward_end_ : backward_end_, from * micro_batches_ + action.micro_batch);
    return end < 0 || rank_of_[from] == rank_of_[action.stage] ? end : end + costs_.message;
  }

  /// Executes the rank's actions until one must wait.
  constexpr void advance(int number) {
    Rank& rank = at(state_, number);
    while (rank.next != rank.last) {
      const Action& action = *rank.next;
      if (is_message(action.work)) {
        const Action partner = partner_of(action);
        const int other_number = rank_of_[partner.stage];
        Rank& other = at(state_, other_number);
        if (other.next == other.last || other.next->work != partner.work ||
            other.next->stage != partner.stage || other.next->micro_batch != partner.micro_batch) {
          return;
        }
        ++rank.next;
        ++other.next;
        awake_.push_back(other_number);
        continue;
      }
      if (!action.overlaps_next) {
        const double begin = ready(action);
        if (begin < 0) return;
        if (rank.clock < begin) rank.clock = begin;
        compute(number, rank, action);
        finish(action, rank.clock);
        continue;
      }
      const Action& second = rank.next[1];
      const double first_ready = ready(action), second_ready = ready(second);
      if (first_ready < 0 || second_ready < 0) return;
      rank.clock = std::max({rank.clock, first_ready, second_ready});
      compute(number, rank, action);
      compute(number, rank, second);
      finish(action, rank.clock);
      finish(second, rank.clock);
    }
  }
  constexpr void compute(int number, Rank& rank, const Action& action) {
    if (rank.begin < 0) rank.begin = rank.clock;
    if (!timeline_.each_begin.empty()) at(timeline_.each_begin, number).push_back(rank.clock);
    rank.clock += costs_.of(action);
    ++rank.next;
  }
  constexpr void finish(const Action& action, double end) {
    if (action.work == Work::backward_weight) return;
    const bool forward = action.work == Work::forward;
    at(forward ? forward_end_ : backward_end_, action.stage * micro_batches_ + action.micro_batch) = end;
    const int to = action.stage + (forward ? 1 : -1);
    if (!has_messages_ && to >= 0 && to < stages_) awake_.push_back(rank_of_[to]);
  }

  constexpr int waits_for(int number) const {
    const Action* next = at(state_, number).next;
    if (is_message(next->work)) return rank_of_[partner_of(*next).stage];
    if (ready(*next) >= 0) ++next;  // the action that overlaps it
    return rank_of_[next->stage + (next->work == Work::forward ? -1 : 1)];
  }

  /// Each blocked rank waits for another blocked rank, so following them leads to a cycle.
  constexpr void find_circle() {
    int rank = 0;
    while (rank < ranks_ && at(state_, rank).next == at(state_, rank).last) ++rank;
    if (rank == ranks_) return;
    for (int i = 0; i < ranks_; ++i) rank = waits_for(rank);
    int first = rank;
    for (int each = waits_for(rank); each != rank; each = waits_for(each)) first = std::min(first, each);
    rank = first;
    do {
      const Action* next = at(state_, rank).next;
      timeline_.circle.push_back({rank, static_cast<int>(next - at(schedule_.actions, rank).data()), *next});
      rank = waits_for(rank);
    } while (rank != first);
  }

  const PipelineSchedule& schedule_;
  const Costs& costs_;
  const int ranks_, stages_, micro_batches_;
  const int* const rank_of_;
  const bool has_messages_;
  std::vector<Rank> state_;
  std::vector<double> forward_end_, backward_end_;  // for each stage and micro-batch; -1: not yet
  std::vector<int> awake_{};                        // ranks that may be able to continue
  Timeline timeline_{};
};

}  // namespace shardwise::detail
