// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// Every generator on 1 to 8 ranks, 1, 2 and 4 chunks and 1 to 32 micro-batches, where it is defined: proved, and as idle and as
/// large as the papers say. The compiler proves some of these as well: tests/static/schedules.cpp.

#include <doctest/doctest.h>

#include <algorithm>
#include <functional>
#include <numeric>

#include <shardwise/schedule/by_costs.hpp>
#include <shardwise/schedule/messages.hpp>
#include <shardwise/schedule/one_forward_one_backward.hpp>
#include <shardwise/schedule/v_shapes.hpp>

namespace shardwise {
namespace {

/// What a schedule with and without messages is proved to be.
ScheduleProof proof_of(const PipelineSchedule& schedule, const Costs& costs = {}) {
  CHECK_FALSE(schedule.has_messages());
  const ScheduleProof computations = prove(schedule, costs);
  REQUIRE_MESSAGE(computations, text_of(computations.problem));
  const PipelineSchedule lowered = with_messages(schedule);
  CHECK(lowered.has_messages() == (schedule.ranks() > 1));
  ScheduleProof proof = prove(lowered, costs);
  REQUIRE_MESSAGE(proof, text_of(proof.problem));
  CHECK(proof.idle == computations.idle);
  CHECK(proof.gaps == computations.gaps);
  CHECK(proof.live == computations.live);
  CHECK(proof.time == computations.time);
  return proof;
}

void for_all_sizes(const std::function<void(int ranks, int micro_batches)>& check) {
  for (int ranks = 1; ranks <= 8; ++ranks) {
    for (int micro_batches = 1; micro_batches <= 32; ++micro_batches) {
      CAPTURE(ranks);
      CAPTURE(micro_batches);
      check(ranks, micro_batches);
    }
  }
}

std::vector<double> each(int ranks, double value) {
  return std::vector<double>(static_cast<std::size_t>(ranks), value);
}

TEST_CASE("GPipe") {
  for_all_sizes([](int p, int m) {
    const ScheduleProof proof = proof_of(gpipe(p, m));
    CHECK(proof.idle == each(p, (p - 1) * 3));
    CHECK(proof.time == 3 * (m + p - 1));
    CHECK(proof.live == std::vector<int>(static_cast<std::size_t>(p), m));
  });
}

TEST_CASE("1F1B") {
  for_all_sizes([](int p, int m) {
    const ScheduleProof proof = proof_of(one_forward_one_backward(p, m));
    CHECK(proof.idle == each(p, (p - 1) * 3));
    for (int rank = 0; rank < p; ++rank) CHECK(detail::at(proof.live, rank) == std::min(m, p - rank));
    const ScheduleProof uneven =
        prove(one_forward_one_backward(p, m), {.forward = 2, .backward_input = 3, .backward_weight = 5});
    CHECK(uneven.idle == each(p, (p - 1) * (2 + 3 + 5)));
  });
}

TEST_CASE("interleaved 1F1B") {
  for_all_sizes([](int p, int m) {
    for (int v : {1, 2, 4}) {
      if (v > 1 && m % p != 0) {
        CHECK_THROWS_AS(interleaved(p, v, m), std::invalid_argument);
        continue;
      }
      // A rank's work is v stages, so its T_F is v here, and (p - 1) (T_F + T_B) / v:
      const ScheduleProof proof = proof_of(interleaved(p, v, m));
      CHECK(proof.idle == each(p, (p - 1) * 3));
      for (int rank = 0; rank < p; ++rank) {
        const int warm_up = v == 1 ? p - 1 - rank : (v - 1) * p + 2 * (p - 1 - rank);
        CHECK(detail::at(proof.live, rank) == std::min(warm_up + 1, v * m));
      }
    }
    CHECK(interleaved(p, 1, m) == one_forward_one_backward(p, m));
  });
}

TEST_CASE("ZB-H1") {
  for_all_sizes([](int p, int m) {
    const ScheduleProof proof = proof_of(zb_h1(p, m));
    // (p - 1) (T_F + T_I - T_W), from as many micro-batches as ranks on; with fewer, too few weights to fill the end.
    CHECK(proof.idle == each(p, p - 1 + std::max(0, p - m)));
    CHECK(proof.live == std::vector<int>(static_cast<std::size_t>(p), std::min(p, m)));
    for (int v : {1, 2, 4}) {
      if (v > 1 && m % p != 0) continue;
      const ScheduleProof several = proof_of(interleaved_zb_h1(p, v, m));
      if (m >= p) CHECK(several.idle == each(p, p - 1));
      if (m >= p) CHECK(several.live == std::vector<int>(static_cast<std::size_t>(p), v * p));
    }
  });
  for (const Costs& costs : {Costs{2, 2, 1}, Costs{4, 5, 3}, Costs{1, 1, 0.5}}) {
    const ScheduleProof proof = prove(zb_h1(4, 16), costs);
    CHECK(proof.idle[0] == 3 * (costs.forward + costs.backward_input - costs.backward_weight));
  }
}

TEST_CASE("ZB-V") {
  for_all_sizes([](int p, int m) {
    const ScheduleProof proof = proof_of(zb_v(p, m));
    const bool enough = m >= 2 * p - 1;
    if (enough) CHECK(proof.gaps == each(p, 0));
    // Rank r waits for the first input until r, and is done p - 1 - r before rank p - 1.
    if (enough) CHECK(proof.idle == each(p, p - 1));
    // Two stages a rank: as many as 2 p are p micro-batches.
    if (enough) CHECK(proof.live == std::vector<int>(static_cast<std::size_t>(p), 2 * p));
    CHECK(*std::max_element(proof.live.begin(), proof.live.end()) <= 2 * p);
  });
}

TEST_CASE("DualPipeV") {
  for_all_sizes([](int p, int m) {
    if (m < 2 * p) {
      CHECK_THROWS_AS(dualpipe_v(p, m), std::invalid_argument);
      return;
    }
    const ScheduleProof proof = proof_of(dualpipe_v(p, m));
    // DeepSeek's (PP / 2 - 1) (T_F&B + T_B - 3 T_W) with PP = 2 p stages; and PP + 1 activations.
    CHECK(proof.idle == each(p, (p - 1) * (3 + 2 - 3)));
    for (int live : proof.live) CHECK(live <= 2 * p + 1);
    CHECK(proof.live[0] == 2 * p + 1);
  });
}

TEST_CASE("by costs: for any division, and any costs") {
  using detail::Division;
  for_all_sizes([](int p, int m) {
    for (const int chunks : {1, 2, 4}) {
      for (const Division division : {Division::loop, Division::v}) {
        const auto ranks = detail::empty_schedule("", p, chunks, m, division).rank_of_stage;
        const ScheduleProof alike = proof_of(by_costs(ranks, m, {}, 2 * p));
        CHECK(*std::max_element(alike.live.begin(), alike.live.end()) <= 2 * p * chunks);
        // As idle as ZB-V, but for some sizes with several chunks.
        if (m >= 2 * p - 1 && chunks == 1) CHECK(alike.gaps == each(p, 0));
        if (m >= 2 * p && chunks == 1) CHECK(alike.idle == each(p, p - 1));
        if (m >= 2 * p && m % p == 0 && chunks == 2) CHECK(alike.idle == each(p, p - 1));
        Costs unlike{.message = 0.7};
        for (std::size_t stage = 0; stage < ranks.size(); ++stage) {
          unlike.stages.push_back({1 + static_cast<double>(stage % 3), 2, stage % 2 == 0 ? 0.5 : 3});
        }
        const PipelineSchedule made = by_costs(ranks, m, unlike);
        const ScheduleProof proof = proof_of(made, unlike);
        for (const int live : proof.live) CHECK(live <= 3 * p * chunks);
      }
    }
  });
}

TEST_CASE("by costs: less idle than a schedule for equal ones, and within what may be in flight") {
  const Costs unlike{.forward = 2, .backward_input = 3, .backward_weight = 2, .message = 1};
  const PipelineSchedule v = zb_v(4, 16);
  CHECK(prove(by_costs(v.rank_of_stage, 16, unlike), unlike).time < 0.97 * prove(v, unlike).time);
  // A rank that waits at every turn, if only for a little, loses it in each.
  const Costs longer{.forward = 2, .backward_input = 3, .backward_weight = 2};
  CHECK(prove(by_costs(zb_v(2, 64).rank_of_stage, 64, longer), longer).time <
        prove(zb_v(2, 64), longer).time);
  for (const int most : {1, 3}) {
    const ScheduleProof proof = proof_of(by_costs({0, 1, 0, 1}, 8, unlike, most), unlike);
    for (const int live : proof.live) CHECK(live <= 2 * most);
  }
  CHECK_THROWS_WITH(
      by_costs({}, 8, {}),
      "by_costs: 0 ranks with 1 stages each and 8 micro-batches; expected at least one of each");
  CHECK_THROWS_WITH(by_costs({0, 2}, 8, {}), "by_costs: rank 1 has no stage, but rank 2 has one");
  CHECK_THROWS_WITH(by_costs({0, -1}, 8, {}), "by_costs: a stage is on rank -1; expected 0 or more");
  CHECK_THROWS_WITH(by_costs({0, 1}, 8, {}, -2),
                    "by_costs: -2 micro-batches in flight; expected 1 or more, or 0");
  CHECK_THROWS_WITH(by_costs({0, 2147483647}, 8, {}),
                    "by_costs: rank 1 has no stage, but rank 2147483647 has one");
  CHECK_THROWS_WITH(by_costs({0, 1}, 8, {.message = -1}),
                    "by_costs: a cost of -1; expected a finite one, and none below 0");
  CHECK_THROWS_WITH(by_costs({0, 1}, 8, {.message = 1.0 / 0.0}),
                    "by_costs: a cost of inf; expected a finite one, and none below 0");
  CHECK_THROWS_WITH(by_costs({0, 1}, 8, {.stages = {{}}}), "by_costs: costs of 1 stages; expected 2");
}

TEST_CASE("a message takes time, which 1F1B waits for and GPipe hides") {
  const Costs slow{.message = 1};
  CHECK(prove(gpipe(2, 4), slow).time == 3 * (4 + 1) + 2);
  CHECK(prove(one_forward_one_backward(2, 4), slow).time > prove(gpipe(2, 4), slow).time);
  CHECK(prove(with_messages(one_forward_one_backward(2, 4)), slow).time ==
        prove(one_forward_one_backward(2, 4), slow).time);
}

TEST_CASE("stages that take unlike times") {
  // GPipe's last rank takes twice as long: the first waits for all but its own first forward and last backward.
  const auto times = [](const std::vector<double>& all) {
    Costs costs;
    for (const double each : all) costs.stages.push_back({each, each, each});
    return costs;
  };
  const ScheduleProof proof = prove(gpipe(2, 4), times({1, 2}));
  CHECK(proof.time == 1 + 4 * 2 * 3 + 2);
  CHECK(proof.idle == std::vector<double>{27 - 12, 27 - 24});
  // Ranks of a V have an end and a middle: what both take together is what counts where neither waits.
  const ScheduleProof v = prove(zb_v(2, 32), times({1, 2, 1, 2}));
  CHECK(v.time - v.idle[0] == 32 * 3 * 3);
  CHECK(v.time - v.idle[1] == 32 * 3 * 3);
  for (const auto& schedule : {one_forward_one_backward(3, 6), zb_h1(3, 6)}) {
    CHECK(prove(schedule, times({2, 2, 2})).time == 2 * prove(schedule).time);
  }
}

TEST_CASE("a cost below 0, or not one for each stage") {
  CHECK_THROWS_WITH(prove(gpipe(2, 2), {.backward_weight = -1}),
                    "prove: a cost of -1; expected a finite one, and none below 0");
  CHECK_THROWS_WITH(prove(gpipe(2, 2), {.stages = {{}, {.forward = -2}}}),
                    "prove: a cost of -2; expected a finite one, and none below 0");
  CHECK_THROWS_WITH(prove(gpipe(2, 2), {.stages = {{}, {}, {}}}), "prove: costs of 3 stages; expected 2");
}

TEST_CASE("sizes for which there is no schedule") {
  CHECK_THROWS_WITH(gpipe(0, 4),
                    "gpipe: 0 ranks with 1 stages each and 4 micro-batches; expected at least one of each");
  CHECK_THROWS_WITH(one_forward_one_backward(4, 0),
                    "one_forward_one_backward: 4 ranks with 1 stages each and 0 micro-batches; expected at "
                    "least one of each");
  CHECK_THROWS_WITH(
      interleaved(4, -1, 8),
      "interleaved: 4 ranks with -1 stages each and 8 micro-batches; expected at least one of each");
  CHECK_THROWS_AS(zb_h1(-1, 8), std::invalid_argument);
  CHECK_THROWS_AS(zb_v(4, 0), std::invalid_argument);
  CHECK_THROWS_WITH(dualpipe_v(4, 7), "dualpipe_v: 7 micro-batches; expected at least twice the 4 ranks");
  // Megatron's: 7 micro-batches on 4 ranks with 2 chunks each.
  CHECK_THROWS_WITH(
      interleaved(4, 2, 7),
      "interleaved: 7 micro-batches; with several stages a rank, expected a multiple of the 4 ranks");
}

}  // namespace
}  // namespace shardwise
