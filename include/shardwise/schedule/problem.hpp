// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The problems of pipeline schedules: a value that identifies rank and action, and its text.

#include <shardwise/base/bodies.hpp>
#include <shardwise/schedule/pipeline_schedule.hpp>

namespace shardwise {

/// A mistake in a schedule.
enum class Fault {
  none,
  // sizes
  it_has_no_ranks_no_stages_or_no_micro_batches,
  stage_is_on_no_rank,
  // one action
  there_is_no_such_stage,
  there_is_no_such_micro_batch,
  stage_is_on_another_rank,
  it_is_done_twice,
  backward_is_done_whole_and_in_parts,
  there_is_no_stage_to_exchange_it_with,
  both_stages_are_on_this_rank,
  it_overlaps_no_backward,
  // complete
  forward_is_missing,
  backward_is_missing,
  backward_of_weights_is_missing,
  // matched
  nothing_receives_it,
  nothing_sends_it,
  it_is_received_in_another_order_than_sent,
  // ordered
  its_input_is_never_received,
  its_input_comes_later,
  its_gradient_is_never_received,
  its_gradient_comes_later,
  its_forward_comes_later,
  its_backward_of_inputs_comes_later,
  it_is_sent_before_it_is_computed,
  // free of deadlock
  ranks_wait_for_each_other,
};

/// An action's place in a schedule. `position` counts the rank's actions from 0.
struct ScheduleAction {
  int rank = -1;
  int position = -1;
  Action action{};
};

/// The first thing that is wrong, if `fault` is not `none`.
struct ScheduleProblem {
  Fault fault = Fault::none;
  /// The place. `position` is -1 if an action is missing; `rank` is also -1 if the problem is not on a single rank.
  ScheduleAction at{};
  /// The conflicting action: a duplicate, the one sent instead, one that comes too late, or a missing one. For a
  /// stage on another rank: that rank.
  ScheduleAction other{};
  /// If ranks wait for each other: the place of each; it waits for the next one in the list, and the last for the
  /// first.
  std::vector<ScheduleAction> circle{};
};

namespace detail {

/// The other end of a message: its stage and its work.
constexpr Action partner_of(const Action& message) {
  const bool forward = message.work == Work::send_forward || message.work == Work::receive_backward;
  // A send's number is even, and its receive has the next one.
  return {static_cast<Work>(static_cast<int>(message.work) ^ 1), message.stage + (forward ? 1 : -1),
          message.micro_batch};
}

/// "rank 1, action 7 (1F3)"
inline std::string text_of(const ScheduleAction& place) {
  if (place.rank < 0) return "the schedule";
  if (place.position < 0) return text({"rank ", place.rank});
  return text(
      {"rank ", place.rank, ", action ", place.position, " (", shardwise::text_of(place.action), ")"});
}

}  // namespace detail

/// "rank 1, action 7 (1F3): its input, stage 0's forward of micro-batch 3, is never received"; empty without a problem.
std::string text_of(const ScheduleProblem& problem);

#ifdef SHARDWISE_BODIES

SHARDWISE_INLINE std::string text_of(const ScheduleProblem& problem) {
  using detail::text;
  const ScheduleAction& at = problem.at;
  const ScheduleAction& other = problem.other;
  const std::string where = detail::text_of(at) + ": ";
  const std::string what = text_of(at.action);
  const std::string whole =
      text({"stage ", at.action.stage, "'s backward of micro-batch ", at.action.micro_batch});
  const std::string input = text(
      {"its input, stage ", at.action.stage - 1, "'s forward of micro-batch ", at.action.micro_batch, ","});
  const std::string gradient = text({"the gradient of its output, stage ", at.action.stage + 1,
                                     "'s backward of micro-batch ", at.action.micro_batch, ","});
  const std::string later =
      text({" comes only later, at action ", other.position, " (", text_of(other.action), ")"});
  switch (problem.fault) {
    case Fault::none:
      return "";
    case Fault::it_has_no_ranks_no_stages_or_no_micro_batches:
      return where + "expected at least one rank, one stage and one micro-batch";
    case Fault::stage_is_on_no_rank:
      return text({where, "stage ", at.action.stage, " is on rank ", other.rank, ", which does not exist"});
    case Fault::there_is_no_such_stage:
      return text({where, "there is no stage ", at.action.stage});
    case Fault::there_is_no_such_micro_batch:
      return text({where, "there is no micro-batch ", at.action.micro_batch});
    case Fault::stage_is_on_another_rank:
      return text({where, "stage ", at.action.stage, " is on rank ", other.rank});
    case Fault::it_is_done_twice:
      return text({where, "it is there already, at action ", other.position});
    case Fault::backward_is_done_whole_and_in_parts:
      return text({where, whole, " is done by action ", other.position, " (", text_of(other.action), ")"});
    case Fault::there_is_no_stage_to_exchange_it_with:
      return text({where, "there is no stage ", other.action.stage, " to exchange it with"});
    case Fault::both_stages_are_on_this_rank:
      return text({where, "stage ", other.action.stage, " is on this rank too: nothing is sent"});
    case Fault::it_overlaps_no_backward:
      return where + "only a forward can overlap the action after it, which must be a backward";
    case Fault::forward_is_missing:
    case Fault::backward_is_missing:
    case Fault::backward_of_weights_is_missing:
      return where + what + " is missing";
    case Fault::nothing_receives_it:
      return text({where, "nothing receives it: rank ", other.rank, " has no ", text_of(other.action)});
    case Fault::nothing_sends_it:
      return text({where, "nothing sends it: rank ", other.rank, " has no ", text_of(other.action)});
    case Fault::it_is_received_in_another_order_than_sent:
      return text({where, "rank ", other.rank, " sends it before its action ", other.position, " (",
                   text_of(other.action), "), which is received already"});
    case Fault::its_input_is_never_received:
      return where + input + " is never received";
    case Fault::its_input_comes_later:
      return where + input + later;
    case Fault::its_gradient_is_never_received:
      return where + gradient + " is never received";
    case Fault::its_gradient_comes_later:
      return where + gradient + later;
    case Fault::its_forward_comes_later:
      return where + "its forward" + later;
    case Fault::its_backward_of_inputs_comes_later:
      return where + "its backward of inputs" + later;
    case Fault::it_is_sent_before_it_is_computed:
      return where + "what it sends" + later;
    case Fault::ranks_wait_for_each_other:
      break;
  }
  std::string words = where + "ranks wait for each other: ";
  for (std::size_t i = 0; i < problem.circle.size(); ++i) {
    const ScheduleAction& next = problem.circle[(i + 1) % problem.circle.size()];
    words += text({i == 0 ? "" : ", ", detail::text_of(problem.circle[i]), " waits for rank ", next.rank});
  }
  return words;
}

#endif

}  // namespace shardwise
