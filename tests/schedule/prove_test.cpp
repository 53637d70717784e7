// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// Tables that must be refused, each with its words; and that `prove` agrees with a plain execution of any table.

#include <doctest/doctest.h>

#include <map>
#include <random>
#include <set>
#include <tuple>

#include <shardwise/schedule/csv.hpp>
#include <shardwise/schedule/messages.hpp>
#include <shardwise/schedule/one_forward_one_backward.hpp>
#include <shardwise/schedule/v_shapes.hpp>

namespace shardwise {
namespace {

std::string problem_of(const char* csv) { return text_of(prove(from_csv(csv)).problem); }

// What all tables below are variations of: 1F1B on two ranks, with two micro-batches.
constexpr const char* rank_0 = "0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0B0,0RECV_B1,0B1\n";
constexpr const char* rank_1 = "1RECV_F0,1F0,1RECV_F1,1B0,1SEND_B0,1F1,1B1,1SEND_B1\n";

TEST_CASE("the table that is right") {
  CHECK(prove(from_csv(std::string(rank_0) + rank_1)));
  CHECK(to_csv(with_messages(one_forward_one_backward(2, 2))) == std::string(rank_0) + rank_1);
}

TEST_CASE("tables that are wrong") {
  const struct {
    std::string csv;
    const char* words;
  } tables[] = {
      {std::string(rank_0) + "1RECV_F0,1F0,1F1,1B0,1SEND_B0,1B1,1SEND_B1\n",  // a send without its receive
       "rank 0, action 3 (0SEND_F1): nothing receives it: rank 1 has no 1RECV_F1"},
      {std::string("0F0,0SEND_F0,0F1,0RECV_B0,0B0,0RECV_B1,0B1\n") + rank_1,
       "rank 1, action 2 (1RECV_F1): nothing sends it: rank 0 has no 0SEND_F1"},
      {"0F0,0SEND_F0,0F1,0RECV_B0,0B0,0RECV_B1,0B1\n1RECV_F0,1F0,1B0,1SEND_B0,1F1,1B1,1SEND_B1\n",
       "rank 1, action 4 (1F1): its input, stage 0's forward of micro-batch 1, is never received"},
      {"0F0,0SEND_F0,0F1,0SEND_F1,0B0,0RECV_B1,0B1\n1RECV_F0,1F0,1RECV_F1,1B0,1F1,1B1,1SEND_B1\n",
       "rank 0, action 4 (0B0): the gradient of its output, stage 1's backward of micro-batch 0, is never "
       "received"},
      {std::string(rank_0) + "1RECV_F0,1F0,1B0,1SEND_B0,1F1,1RECV_F1,1B1,1SEND_B1\n",
       "rank 1, action 4 (1F1): its input, stage 0's forward of micro-batch 1, comes only later, at action 5 "
       "(1RECV_F1)"},
      {std::string("0F0,0SEND_F0,0F1,0SEND_F1,0B0,0RECV_B0,0RECV_B1,0B1\n") + rank_1,
       "rank 0, action 4 (0B0): the gradient of its output, stage 1's backward of micro-batch 0, comes only "
       "later, at action "
       "5 (0RECV_B0)"},
      {std::string(rank_0) + "1RECV_F0,1F0,1RECV_F1,1B1,1SEND_B0,1F1,1B0,1SEND_B1\n",
       "rank 1, action 3 (1B1): its forward comes only later, at action 5 (1F1)"},
      {std::string("0SEND_F0,0F0,0F1,0SEND_F1,0RECV_B0,0B0,0RECV_B1,0B1\n") + rank_1,
       "rank 0, action 0 (0SEND_F0): what it sends comes only later, at action 1 (0F0)"},
      {std::string(rank_0) + "1RECV_F0,1F0,1RECV_F1,1SEND_B0,1B0,1F1,1B1,1SEND_B1\n",
       "rank 1, action 3 (1SEND_B0): what it sends comes only later, at action 4 (1B0)"},
      {std::string("0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0I0,0RECV_B1,0W1,0I1,0W0\n") + rank_1,
       "rank 0, action 7 (0W1): its backward of inputs comes only later, at action 8 (0I1)"},
      {std::string("0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0I0,0RECV_B1,0I1,0W1\n") + rank_1,
       "rank 0: 0W0 is missing"},
      {std::string("0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0W0,0RECV_B1,0B1\n") + rank_1,
       "rank 0: 0I0 is missing"},
      {std::string("0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0B0,0RECV_B1\n") + rank_1, "rank 0: 0B1 is missing"},
      {std::string(rank_0) + "1RECV_F0,1F0,1RECV_F1,1B0,1SEND_B0,1B1,1SEND_B1\n", "rank 1: 1F1 is missing"},
      {std::string("0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0B0,0RECV_B1,0B1,0W1\n") + rank_1,
       "rank 0, action 8 (0W1): stage 0's backward of micro-batch 1 is done by action 7 (0B1)"},
      {std::string("0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0B0,0RECV_B1,0B1,0B0\n") +
           rank_1,  // a micro-batch twice
       "rank 0, action 8 (0B0): it is there already, at action 5"},
      {std::string(rank_0) + "1RECV_F0,1F0,1RECV_F1,1B0,1SEND_B0,1F1,0B1,1B1,1SEND_B1\n",
       "rank 1, action 6 (0B1): stage 0 is on rank 0"},
      {std::string(rank_0) + "1RECV_F0,1F0,1SEND_F0,1RECV_F1,1B0,1SEND_B0,1F1,1B1,1SEND_B1\n",
       "rank 1, action 2 (1SEND_F0): there is no stage 2 to exchange it with"},
      {std::string("0RECV_F0,0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0B0,0RECV_B1,0B1\n") + rank_1,
       "rank 0, action 0 (0RECV_F0): there is no stage -1 to exchange it with"},
      {"0F0,0SEND_F0,1RECV_F0,1F0,1B0,0B0\n",
       "rank 0, action 1 (0SEND_F0): stage 1 is on this rank too: nothing is sent"},
      {"0F0,1F0,0B0,1B0\n",
       "rank 0, action 2 (0B0): the gradient of its output, stage 1's backward of micro-batch 0, comes only "
       "later, at action 3 "
       "(1B0)"},
      {"1F0,0F0,1B0,0B0\n",
       "rank 0, action 0 (1F0): its input, stage 0's forward of micro-batch 0, comes only later, at action 1 "
       "(0F0)"},
      {std::string("0F0,0F1,0SEND_F1,0SEND_F0,0RECV_B0,0B0,0RECV_B1,0B1\n") + rank_1,
       "rank 1, action 2 (1RECV_F1): rank 0 sends it before its action 3 (0SEND_F0), which is received "
       "already"},
      {std::string(rank_0) + "1RECV_F0,1F0,1B0,1SEND_B0,1RECV_F1,1F1,1B1,1SEND_B1\n",
       "rank 0, action 3 (0SEND_F1): ranks wait for each other: rank 0, action 3 (0SEND_F1) waits for rank "
       "1, rank 1, action "
       "3 (1SEND_B0) waits for rank 0"},
      {"(0F0;0B0)OVERLAP_F_B,0F1,0B1\n",
       "rank 0, action 1 (0B0): its forward comes only later, at action 0 (0F0)"},
      {"(0F0;0F1)OVERLAP_F_B,0B0,0B1\n",
       "rank 0, action 0 (0F0): only a forward can overlap the action after it, which must be a backward"},
      {"1B0,0F0\n0B0,1F0\n", "rank 0, action 0 (1B0): stage 1 is on rank 1"},
      {"0F0,0B0,0F1,0B1\n1F1,1B1,1F0,1B0\n",  // without messages
       "rank 0, action 1 (0B0): ranks wait for each other: rank 0, action 1 (0B0) waits for rank 1, rank 1, "
       "action 0 (1F1) "
       "waits for rank 0"},
      {"", "the schedule: expected at least one rank, one stage and one micro-batch"},
  };
  for (const auto& table : tables) {
    CAPTURE(table.csv);
    CHECK(problem_of(table.csv.c_str()) == table.words);
    CHECK_THROWS_WITH_AS(with_messages(from_csv(table.csv)),
                         (std::string("pipeline schedule: ") + table.words).c_str(), std::invalid_argument);
  }
}

TEST_CASE("numbers that no text can hold") {
  using enum Work;
  PipelineSchedule schedule = one_forward_one_backward(2, 1);
  schedule.rank_of_stage[1] = 2;
  CHECK(text_of(prove(schedule).problem) == "the schedule: stage 1 is on rank 2, which does not exist");
  schedule = one_forward_one_backward(2, 1);
  schedule.actions[1].push_back({forward, 2, 0});
  CHECK(text_of(prove(schedule).problem) == "rank 1, action 2 (2F0): there is no stage 2");
  schedule.actions[1].back() = {backward, 1, -1};
  CHECK(text_of(prove(schedule).problem) == "rank 1, action 2 (1B-1): there is no micro-batch -1");
  schedule.actions[1].back() = {forward, 1, 0, true};
  CHECK(text_of(prove(schedule).problem) == "rank 1, action 2 (1F0): it is there already, at action 0");
}

// pytorch/pytorch#172668: two runs that hung, with four stages on two ranks.
TEST_CASE("both ranks send first") {
  const std::string first =
      "0F0,0SEND_F0,0F1,0SEND_F1,2RECV_F0,2F0,2SEND_F0,2RECV_F1,2F1,2SEND_F1,2RECV_B0,2B0,2SEND_B0,2RECV_B1,"
      "2B1,2SEND_B1,"
      "0RECV_B0,0B0,0RECV_B1,0B1\n";
  const std::string rest =
      "1F1,3RECV_F0,1SEND_F1,3F0,3RECV_F1,3B0,3SEND_B0,3F1,3B1,1RECV_B0,3SEND_B1,1B0,1RECV_B1,1SEND_B0,1B1,"
      "1SEND_B1\n";
  CHECK(problem_of((first + "1RECV_F0,1F0,1SEND_F0,1RECV_F1," + rest).c_str()) ==
        "rank 0, action 3 (0SEND_F1): ranks wait for each other: rank 0, action 3 (0SEND_F1) waits for rank "
        "1, rank 1, "
        "action 2 (1SEND_F0) waits for rank 0");
  CHECK(problem_of((first + "1RECV_F0,1F0,1RECV_F1,1SEND_F0," + rest).c_str()) == "");
}

TEST_CASE("a forward is sent before a gradient is received") {
  const std::string begin = "0F0,0SEND_F0,0F1,0SEND_F1,2RECV_F0,2F0,2SEND_F0,2RECV_F1,2F1,2SEND_F1,0F2,";
  const std::string end =
      "2B0,2SEND_B0,2RECV_B1,2B1,2SEND_B1,2RECV_F2,2F2,2SEND_F2,2RECV_B2,2B2,2SEND_B2,0RECV_B0,0B0,0RECV_B1,"
      "0B1,0RECV_B2,0B2\n";
  const std::string second =
      "1RECV_F0,1F0,1RECV_F1,1SEND_F0,1F1,3RECV_F0,1SEND_F1,3F0,3B0,3RECV_F1,3SEND_B0,3F1,3B1,1RECV_F2,1RECV_"
      "B0,3SEND_B1,"
      "1F2,1B0,1RECV_B1,1SEND_F2,1B1,3RECV_F2,3F2,3B2,3SEND_B2,1RECV_B2,1SEND_B0,1SEND_B1,1B2,1SEND_B2\n";
  CHECK(problem_of((begin + "0SEND_F2,2RECV_B0," + end + second).c_str()) ==
        "rank 0, action 11 (0SEND_F2): ranks wait for each other: rank 0, action 11 (0SEND_F2) waits for "
        "rank 1, rank 1, "
        "action 10 (3SEND_B0) waits for rank 0");
  CHECK(problem_of((begin + "2RECV_B0,0SEND_F2," + end + second).c_str()) == "");
}

// pytorch/torchtitan#775: fewer micro-batches than ranks.
TEST_CASE("a warm-up of more micro-batches than there are") {
  PipelineSchedule schedule = one_forward_one_backward(4, 4);
  schedule.micro_batches = 1;
  CHECK(text_of(prove(schedule).problem) == "rank 0, action 1 (0F1): there is no micro-batch 1");
  CHECK(prove(with_messages(one_forward_one_backward(8, 1))));
}

/// Whether all ranks come to the end if each does what is next as soon as it can: by sets and queues, without any cleverness.
bool runs(const PipelineSchedule& schedule) {
  using enum Work;
  std::vector<std::size_t> next(schedule.actions.size(), 0);
  std::set<std::tuple<Work, int, int>> done;  // also received
  auto rank_of = [&](int stage) { return detail::at(schedule.rank_of_stage, stage); };
  auto has = [&](Work work, int stage, int i) { return done.count({work, stage, i}) > 0; };
  auto has_backward = [&](int stage, int i) {
    return has(backward, stage, i) || has(backward_input, stage, i);
  };
  auto possible = [&](const Action& a) {
    const int last = schedule.stages() - 1;
    if (has(a.work, a.stage, a.micro_batch)) return false;
    switch (a.work) {
      case forward:
        return a.stage == 0 || has(receive_forward, a.stage, a.micro_batch) ||
               (rank_of(a.stage - 1) == rank_of(a.stage) && has(forward, a.stage - 1, a.micro_batch));
      case backward:
      case backward_input:
        return has(forward, a.stage, a.micro_batch) && !has_backward(a.stage, a.micro_batch) &&
               (a.stage == last || has(receive_backward, a.stage, a.micro_batch) ||
                (rank_of(a.stage + 1) == rank_of(a.stage) && has_backward(a.stage + 1, a.micro_batch)));
      case backward_weight:
        return has(backward_input, a.stage, a.micro_batch);
      case send_forward:
        return has(forward, a.stage, a.micro_batch);
      case send_backward:
        return has_backward(a.stage, a.micro_batch);
      default:
        return false;
    }
  };
  for (bool progress = true; progress;) {
    progress = false;
    for (int rank = 0; rank < schedule.ranks(); ++rank) {
      const auto& actions = detail::at(schedule.actions, rank);
      std::size_t& at = detail::at(next, rank);
      if (at == actions.size() || !possible(actions[at])) continue;
      const Action a = actions[at];
      if (is_send(
              a.work)) {  // until the receiver is there; what it receives is what is sent, whatever it expects
        const Action partner = detail::partner_of(a);
        const auto& others = detail::at(schedule.actions, rank_of(partner.stage));
        std::size_t& there = detail::at(next, rank_of(partner.stage));
        if (there == others.size() || !(others[there] == partner)) continue;
        done.insert({partner.work, partner.stage, partner.micro_batch});
        ++there;
      }
      done.insert({a.work, a.stage, a.micro_batch});
      ++at;
      progress = true;
    }
  }
  for (std::size_t rank = 0; rank < next.size(); ++rank) {
    if (next[rank] < schedule.actions[rank].size()) return false;
  }
  for (int stage = 0; stage < schedule.stages(); ++stage) {
    for (int i = 0; i < schedule.micro_batches; ++i) {
      if (!has(backward, stage, i) && !has(backward_weight, stage, i)) return false;
    }
  }
  return true;
}

TEST_CASE("prove and run agree on tables that are changed at random") {
  std::mt19937 random(7);
  auto below = [&](std::size_t n) { return std::uniform_int_distribution<std::size_t>(0, n - 1)(random); };
  int right = 0, wrong = 0;
  std::map<Fault, int> faults;
  for (const PipelineSchedule& schedule :
       {one_forward_one_backward(2, 3), one_forward_one_backward(4, 4), gpipe(3, 3), interleaved(2, 2, 4),
        zb_h1(3, 4), zb_v(2, 4), zb_v(3, 3), interleaved_zb_h1(2, 2, 2)}) {
    const PipelineSchedule lowered = with_messages(schedule);
    REQUIRE(runs(lowered));
    for (int i = 0; i < 1500; ++i) {
      PipelineSchedule changed = lowered;
      for (std::size_t changes = 1 + below(3); changes > 0; --changes) {
        auto& actions = changed.actions[below(changed.actions.size())];
        const std::size_t a = below(actions.size() - 1);
        const std::size_t b = below(8) > 0 ? a + 1 : below(actions.size());
        if (below(30) == 0) {
          actions.erase(actions.begin() + static_cast<std::ptrdiff_t>(a));
        } else {
          std::swap(actions[a], actions[b]);
        }
      }
      const ScheduleProblem problem = prove(changed).problem;
      CAPTURE(to_csv(changed));
      CAPTURE(text_of(problem));
      CHECK((problem.fault == Fault::none) == runs(changed));
      ++(problem.fault == Fault::none ? right : wrong);
      ++faults[problem.fault];
    }
  }
  CHECK(right > 1000);
  CHECK(wrong > 1000);
  CHECK(faults[Fault::ranks_wait_for_each_other] > 50);
  CHECK(faults[Fault::it_is_received_in_another_order_than_sent] > 10);
}

}  // namespace
}  // namespace shardwise
