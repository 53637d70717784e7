// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// A pipeline schedule is a table with the actions of each rank, in order. It is a value, also in constant expressions;
/// generators such as `one_forward_one_backward(4, 8)` make schedules, and programs can write their own:
///
/// ```
/// using enum Work;
/// PipelineSchedule mine{.micro_batches = 1, .rank_of_stage = {0, 1},
///                       .actions = {{{forward, 0, 0}, {backward, 0, 0}},    // rank 0
///                                   {{forward, 1, 0}, {backward, 1, 0}}}};  // rank 1
/// ```
/// `prove` checks it (schedule/prove.hpp), `with_messages` adds the messages (schedule/messages.hpp).

#include <shardwise/base/text.hpp>

namespace shardwise {

/// The work of a rank for one stage and one micro-batch. A backward computes the gradients of its input and of its
/// weights, or it is split into `backward_input` and, any time later, `backward_weight`. PyTorch's letters for
/// these are F, B, I, W.
///
/// A stage sends its output to the next stage (`send_forward`), which receives it as its input (`receive_forward`);
/// it sends the gradient of its input to the previous stage (`send_backward`), which receives it as the gradient of
/// its output (`receive_backward`). An action's stage is always the one that performs it. PyTorch: SEND_F, RECV_F,
/// SEND_B, RECV_B.
enum class Work : signed char {
  forward,
  backward,
  backward_input,
  backward_weight,
  send_forward,
  receive_forward,
  send_backward,
  receive_backward,
};

/// Whether the action sends or receives.
constexpr bool is_message(Work work) { return work >= Work::send_forward; }
constexpr bool is_send(Work work) { return work == Work::send_forward || work == Work::send_backward; }

struct Action {
  Work work = Work::forward;
  int stage = 0;
  int micro_batch = 0;
  /// This forward and the backward after it are one step, which may compute both at once: it begins when the inputs
  /// of both are available, and its results are available when it ends. (PyTorch: "(0F7;7B3)OVERLAP_F_B".)
  bool overlaps_next = false;

  friend constexpr bool operator==(const Action&, const Action&) = default;
};

struct PipelineSchedule {
  int micro_batches = 0;
  std::vector<int> rank_of_stage;            ///< in the order of the layers; a rank may have several stages
  std::vector<std::vector<Action>> actions;  ///< of each rank

  /// The numbers of ranks and of stages.
  constexpr int ranks() const { return static_cast<int>(actions.size()); }
  constexpr int stages() const { return static_cast<int>(rank_of_stage.size()); }
  /// Whether it contains messages, and not only computations.
  constexpr bool has_messages() const {
    for (const std::vector<Action>& of_rank : actions) {
      const Action* const end = of_rank.data() + of_rank.size();
      for (const Action* action = of_rank.data(); action != end; ++action) {
        if (is_message(action->work)) return true;
      }
    }
    return false;
  }

  friend constexpr bool operator==(const PipelineSchedule&, const PipelineSchedule&) = default;
};

/// "F", "B", "I", "W", "SEND_F", "RECV_F", "SEND_B", "RECV_B", as in PyTorch.
constexpr const char* name_of(Work work) {
  constexpr const char* names[] = {"F", "B", "I", "W", "SEND_F", "RECV_F", "SEND_B", "RECV_B"};
  return names[static_cast<int>(work)];
}

/// "1F3": stage, work, micro-batch.
inline std::string text_of(const Action& action) {
  return detail::text({action.stage, name_of(action.work), action.micro_batch});
}

namespace detail {

template <class Vector>
constexpr auto& at(Vector& values, int i) {
  return values[static_cast<std::size_t>(i)];
}

constexpr std::size_t product(int a, int b) {
  return static_cast<std::size_t>(a) * static_cast<std::size_t>(b);
}

/// A table without actions. Stages are assigned to the ranks in turn, or back and forth (0 1 2 2 1 0).
enum class Division { loop, v };
constexpr PipelineSchedule empty_schedule(const char* name, int ranks, int chunks, int micro_batches,
                                          Division division = Division::loop) {
  if (ranks < 1 || chunks < 1 || micro_batches < 1) {
    fail({name, ": ", ranks, " ranks with ", chunks, " stages each and ", micro_batches,
          " micro-batches; expected at least one of each"});
  }
  PipelineSchedule schedule;
  schedule.micro_batches = micro_batches;
  schedule.actions.resize(static_cast<std::size_t>(ranks));
  for (int chunk = 0; chunk < chunks; ++chunk) {
    for (int i = 0; i < ranks; ++i) {
      const bool back = division == Division::v && chunk % 2 == 1;
      schedule.rank_of_stage.push_back(back ? ranks - 1 - i : i);
    }
  }
  return schedule;
}

}  // namespace detail

}  // namespace shardwise
