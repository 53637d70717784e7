// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// Schedules in PyTorch's form; and that ours are PyTorch's, by fingerprints of the tables that its tests hold.

#include <doctest/doctest.h>

#include <cstdint>

#include <shardwise/schedule/csv.hpp>
#include <shardwise/schedule/messages.hpp>
#include <shardwise/schedule/one_forward_one_backward.hpp>
#include <shardwise/schedule/v_shapes.hpp>

namespace shardwise {
namespace {

/// FNV-1a, 64 bits.
std::uint64_t fingerprint(std::string_view text) {
  std::uint64_t hash = 14695981039346656037u;
  for (char each : text) hash = (hash ^ static_cast<unsigned char>(each)) * 1099511628211u;
  return hash;
}

/// As PyTorch does before it adds messages: a backward in two parts that follow each other is a whole one.
PipelineSchedule joined(PipelineSchedule schedule) {
  for (std::vector<Action>& actions : schedule.actions) {
    std::vector<Action> result;
    for (const Action& action : actions) {
      const Action input{Work::backward_input, action.stage, action.micro_batch};
      if (action.work == Work::backward_weight && !result.empty() && result.back() == input) {
        result.back().work = Work::backward;
      } else {
        result.push_back(action);
      }
    }
    actions = result;
  }
  return schedule;
}

// test/distributed/pipelining/artifacts/ in pytorch/pytorch; lines end with \n, empty cells are left out. The zb1p tables are from
// when I was called B, and B was called BW: read as what these are called now.
TEST_CASE("dualpipev_4rank_10mb.csv") {
  const std::string ours = to_csv(dualpipe_v(4, 10));
  CHECK(ours.starts_with("0F0,0F1,0F2,0F3,0F4,0F5,0F6,7F0,7I0,7W0,"));
  CHECK(fingerprint(ours) == 0xd8e3ec6872fc0c24);
}
TEST_CASE("zb1p_2rank_2stagep_compute.csv") {
  CHECK(fingerprint(to_csv(interleaved_zb_h1(2, 2, 8))) == 0x85e0f211e4d84b65);
}
TEST_CASE("zb1p_2rank_2stagep_comms.csv") {
  CHECK(fingerprint(to_csv(with_messages(joined(interleaved_zb_h1(2, 2, 8))))) == 0x48275067af4466e5);
}

TEST_CASE("what is written is read again") {
  for (const PipelineSchedule& schedule : {gpipe(3, 2), one_forward_one_backward(4, 6), interleaved(2, 4, 4),
                                           zb_h1(4, 5), zb_v(3, 7), dualpipe_v(3, 8), gpipe(1, 1)}) {
    CHECK(from_csv(to_csv(schedule)) == schedule);
    CHECK(from_csv(to_csv(with_messages(schedule))) == with_messages(schedule));
  }
}

TEST_CASE("forms that a hand or a spreadsheet gives") {
  CHECK(from_csv("0F0,0F1,,,0B0,0B1\r\n,1F0, 1F1 ,1B0,1B1") == gpipe(2, 2));
  CHECK(from_csv(",,\n0F0,0B0\n").rank_of_stage == std::vector<int>{1});
  CHECK(to_csv(from_csv("0F0,0F1,( 0F2 ;0B0)OVERLAP_F_B,0B1,0B2")) ==
        "0F0,0F1,(0F2;0B0)OVERLAP_F_B,0B1,0B2\n");
}

TEST_CASE("what cannot be read") {
  const std::string expected =
      "\": expected a stage, one of F, B, I, W, SEND_F, RECV_F, SEND_B and RECV_B, and a micro-batch, as in "
      "0F3, or "
      "(0F7;7B3)OVERLAP_F_B";
  const struct {
    const char* csv;
    const char* where;
  } wrong[] = {{"0F0,0X0", "line 1, cell 2: \"0X0"},
               {"0F0,0B0\n1F0,,1UNSHARD", "line 2, cell 3: \"1UNSHARD"},
               {"0F", "line 1, cell 1: \"0F"},
               {"F0", "line 1, cell 1: \"F0"},
               {"-1F0", "line 1, cell 1: \"-1F0"},
               {"0F0x", "line 1, cell 1: \"0F0x"},
               {"0F0 0B0", "line 1, cell 1: \"0F0 0B0"},
               {"(0F0;0B0)", "line 1, cell 1: \"(0F0;0B0)"},
               {"(0F0)OVERLAP_F_B", "line 1, cell 1: \"(0F0)OVERLAP_F_B"},
               {"(0F0;0B0;0F1)OVERLAP_F_B", "line 1, cell 1: \"(0F0;0B0;0F1)OVERLAP_F_B"},
               {"(0F0;)OVERLAP_F_B", "line 1, cell 1: \"(0F0;)OVERLAP_F_B"}};
  for (const auto& [csv, where] : wrong) {
    CHECK_THROWS_WITH_AS(static_cast<void>(from_csv(csv)),
                         ("schedule: " + std::string(where) + expected).c_str(), std::invalid_argument);
  }
  CHECK_THROWS_WITH(static_cast<void>(from_csv("0F0,0F4000000000")),
                    "schedule: line 1, cell 2: \"0F4000000000\": a complete table with so many stages or "
                    "micro-batches would be "
                    "larger");
  CHECK_THROWS_WITH(static_cast<void>(from_csv("0F3,3F0,,,")),
                    "schedule: 4 stages and 4 micro-batches, but 2 actions only");
}

}  // namespace
}  // namespace shardwise
