// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The part of `prove` that needs no walk through the schedule: whether it is complete, matched, and ordered on
/// each rank. It visits each action twice, with plain pointers and integers, which compilers evaluate fastest.

#include <shardwise/schedule/problem.hpp>

namespace shardwise::detail {

class Check {
 public:
  constexpr explicit Check(const PipelineSchedule& schedule)
      : schedule_(schedule),
        ranks_(schedule.ranks()),
        stages_(schedule.stages()),
        micro_batches_(schedule.micro_batches),
        rank_of_(schedule.rank_of_stage.data()) {}

  constexpr ScheduleProblem find_problem() {
    if (!sizes()) return problem_;
    positions_of_.assign(8 * product(stages_, micro_batches_), -1);
    positions_ = positions_of_.data();
    if (!all_actions(&Check::single)) return problem_;
    if (!complete()) return problem_;
    last_received_.assign(product(ranks_, ranks_), -1);
    all_actions(&Check::ordered);
    return problem_;
  }

 private:
  constexpr bool all_actions(bool (Check::*check)(int rank, int position, const Action&)) {
    for (int rank = 0; rank < ranks_; ++rank) {
      const std::vector<Action>& of_rank = at(schedule_.actions, rank);
      const Action* const actions = of_rank.data();
      const int count = static_cast<int>(of_rank.size());
      for (int i = 0; i < count; ++i) {
        if (!(this->*check)(rank, i, actions[i])) return false;
      }
    }
    return true;
  }
  constexpr bool refuse(Fault fault, const ScheduleAction& at, const ScheduleAction& other = {}) {
    problem_ = {fault, at, other, {}};
    return false;
  }
  constexpr int& position(Work work, int stage, int i) const {
    return positions_[(static_cast<int>(work) * stages_ + stage) * micro_batches_ + i];
  }
  constexpr ScheduleAction place(Work work, int stage, int i) const {
    return {rank_of_[stage], position(work, stage, i), {work, stage, i}};
  }
  /// The backward that produces the gradient of the stage's input.
  constexpr Work backward_of(int stage, int i) const {
    return position(Work::backward, stage, i) >= 0 ? Work::backward : Work::backward_input;
  }

  constexpr bool sizes() {
    if (ranks_ < 1 || stages_ < 1 || micro_batches_ < 1) {
      return refuse(Fault::it_has_no_ranks_no_stages_or_no_micro_batches, {});
    }
    for (int stage = 0; stage < stages_; ++stage) {
      if (rank_of_[stage] >= 0 && rank_of_[stage] < ranks_) continue;
      return refuse(Fault::stage_is_on_no_rank, {-1, -1, {Work::forward, stage, 0}},
                    {rank_of_[stage], -1, {}});
    }
    return true;
  }

  /// Checks an action by itself, and records its position.
  constexpr bool single(int rank, int at, const Action& action) {
    const Work work = action.work;
    const int stage = action.stage, i = action.micro_batch;
    if (stage < 0 || stage >= stages_) return refuse(Fault::there_is_no_such_stage, {rank, at, action});
    if (i < 0 || i >= micro_batches_) return refuse(Fault::there_is_no_such_micro_batch, {rank, at, action});
    if (rank_of_[stage] != rank) {
      return refuse(Fault::stage_is_on_another_rank, {rank, at, action}, {rank_of_[stage], -1, {}});
    }
    int& known = position(work, stage, i);
    if (known >= 0) return refuse(Fault::it_is_done_twice, {rank, at, action}, place(work, stage, i));
    known = at;
    ++count_[static_cast<int>(work)];
    if (is_message(work)) {
      has_messages_ = true;
      const Action partner = partner_of(action);
      if (partner.stage < 0 || partner.stage >= stages_) {
        return refuse(Fault::there_is_no_stage_to_exchange_it_with, {rank, at, action}, {-1, -1, partner});
      }
      if (rank_of_[partner.stage] == rank) {
        return refuse(Fault::both_stages_are_on_this_rank, {rank, at, action}, {rank, -1, partner});
      }
    } else if (work != Work::forward) {
      const bool whole = work == Work::backward;
      const Work clashes[] = {whole ? Work::backward_input : Work::backward,
                              whole ? Work::backward_weight : Work::backward};
      for (Work clash : clashes) {
        if (position(clash, stage, i) < 0) continue;
        return refuse(Fault::backward_is_done_whole_and_in_parts, {rank, at, action}, place(clash, stage, i));
      }
    }
    return !action.overlaps_next || overlap(rank, at, action);
  }

  constexpr bool overlap(int rank, int position, const Action& action) {
    const std::vector<Action>& actions = at(schedule_.actions, rank);
    if (action.work == Work::forward && position + 1 < static_cast<int>(actions.size())) {
      const Action& next = at(actions, position + 1);
      if ((next.work == Work::backward || next.work == Work::backward_input) && !next.overlaps_next)
        return true;
    }
    return refuse(Fault::it_overlaps_no_backward, {rank, position, action});
  }

  /// No action occurs twice, and no backward both whole and in parts; so the schedule is complete if the counts are
  /// right.
  constexpr bool complete() {
    const int all = stages_ * micro_batches_;
    const auto count = [this](Work work) { return count_[static_cast<int>(work)]; };
    if (count(Work::forward) == all && count(Work::backward) + count(Work::backward_input) == all &&
        count(Work::backward_input) == count(Work::backward_weight)) {
      return true;
    }
    for (int stage = 0; stage < stages_; ++stage) {
      for (int i = 0; i < micro_batches_; ++i) {
        const bool has_weights = position(Work::backward_weight, stage, i) >= 0;
        const bool has_inputs = position(Work::backward_input, stage, i) >= 0;
        if (position(Work::forward, stage, i) < 0) {
          return refuse(Fault::forward_is_missing, place(Work::forward, stage, i));
        }
        if (position(Work::backward, stage, i) >= 0 || (has_inputs && has_weights)) continue;
        if (has_inputs)
          return refuse(Fault::backward_of_weights_is_missing, place(Work::backward_weight, stage, i));
        return refuse(Fault::backward_is_missing,
                      place(has_weights ? Work::backward_input : Work::backward, stage, i));
      }
    }
    return true;
  }

  /// Checks that everything an action needs is done or received before it on its rank, and that a message has its
  /// other end and is received in order.
  constexpr bool ordered(int rank, int at, const Action& action) {
    const Work work = action.work;
    const int stage = action.stage, i = action.micro_batch;
    const int begin = overlapped_ ? at - 1 : at;  // of its step
    overlapped_ = action.overlaps_next;
    if (is_message(work)) return matched(rank, at, action);
    if (work == Work::forward) {
      return stage == 0 || arrives(rank, begin, at, action, stage - 1, Work::forward, Work::receive_forward);
    }
    const Work needs = work == Work::backward_weight ? Work::backward_input : Work::forward;
    if (position(needs, stage, i) >= begin) {
      return refuse(
          needs == Work::forward ? Fault::its_forward_comes_later : Fault::its_backward_of_inputs_comes_later,
          {rank, at, action}, place(needs, stage, i));
    }
    return work == Work::backward_weight || stage == stages_ - 1 ||
           arrives(rank, begin, at, action, stage + 1, backward_of(stage + 1, i), Work::receive_backward);
  }

  /// Checks that the result of another stage is available before the step that begins at `begin`: computed on this
  /// rank, or received.
  constexpr bool arrives(int rank, int begin, int at, const Action& action, int from, Work gives,
                         Work receive) {
    const bool same_rank = rank_of_[from] == rank;
    if (!same_rank && !has_messages_) return true;  // the walk through the schedule checks it
    const int i = action.micro_batch;
    const int there = same_rank ? position(gives, from, i) : position(receive, action.stage, i);
    if (there >= 0 && there < begin) return true;
    const bool forward = action.work == Work::forward;
    if (there < 0) {
      return refuse(forward ? Fault::its_input_is_never_received : Fault::its_gradient_is_never_received,
                    {rank, at, action});
    }
    return refuse(forward ? Fault::its_input_comes_later : Fault::its_gradient_comes_later,
                  {rank, at, action}, same_rank ? place(gives, from, i) : place(receive, action.stage, i));
  }

  constexpr bool matched(int rank, int at, const Action& action) {
    const int i = action.micro_batch;
    const Action partner = partner_of(action);
    const int sent_or_received = position(partner.work, partner.stage, i);
    const bool send = is_send(action.work);
    if (sent_or_received < 0) {
      return refuse(send ? Fault::nothing_receives_it : Fault::nothing_sends_it, {rank, at, action},
                    place(partner.work, partner.stage, i));
    }
    if (send) {
      const Work work = action.work == Work::send_forward ? Work::forward : backward_of(action.stage, i);
      return position(work, action.stage, i) < at || refuse(Fault::it_is_sent_before_it_is_computed,
                                                            {rank, at, action}, place(work, action.stage, i));
    }
    const int other = rank_of_[partner.stage];
    int& last = detail::at(last_received_, other * ranks_ + rank);
    if (sent_or_received < last) {
      return refuse(Fault::it_is_received_in_another_order_than_sent, {rank, at, action},
                    {other, last, detail::at(detail::at(schedule_.actions, other), last)});
    }
    last = sent_or_received;
    return true;
  }

  const PipelineSchedule& schedule_;
  const int ranks_, stages_, micro_batches_;
  const int* const rank_of_;
  std::vector<int> positions_of_{};
  int* positions_ = nullptr;          // for each work, stage and micro-batch
  std::vector<int> last_received_{};  // position of the send received last, for each sender and receiver
  int count_[8] = {};
  bool has_messages_ = false;
  bool overlapped_ = false;
  ScheduleProblem problem_{};
};

}  // namespace shardwise::detail
