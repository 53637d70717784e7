// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// Batches of several sources with weights.

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include <shardwise/llm/data/batch_sampler.hpp>

namespace shardwise::testing::mixed_sampler {
namespace {

using namespace shardwise;
using namespace shardwise::llm;

/// The numbers of a mix of two sources in its first steps, in order, each counted from its source's first.
std::array<std::vector<Index>, 2> listed(const BatchSampler& sampler, Index steps, Index sequences_of_first) {
  std::array<std::vector<Index>, 2> listed;
  for (Index step = 0; step < steps; ++step) {
    for (const auto each : sampler.sequences(step)) {
      const bool second = each.value() >= sequences_of_first;
      listed[second ? 1 : 0].push_back(*each - (second ? sequences_of_first : 0));
    }
  }
  return listed;
}

TEST_CASE("each source has its share of any number of sequences") {
  for (const std::vector<Index>& weights : {std::vector<Index>{1},
                                            {3, 1},
                                            {1, 3},
                                            {1, 1, 1},
                                            {5, 2, 7, 1},
                                            {1, 1000},
                                            {1000, 1, 1},
                                            {333333, 666667}}) {
    std::vector<MixedSource> sources;
    double sum = 0;
    for (const Index weight : weights) {
      sources.push_back({100, weight});  // 33 sequences
      sum += static_cast<double>(weight);
    }
    const BatchSampler sampler(sources, {.length = 3, .batch = 8, .micro_batches = 2, .seed = 1});
    CHECK(sampler.tokens() == 100 * std::ssize(weights));
    CHECK(sampler.sequence_count() == 33 * std::ssize(weights));
    std::vector<Index> found(weights.size());
    for (Index step = 0, places = 0; step < 300; ++step) {
      std::vector<std::optional<Index>> micro_batches;
      for (const Index micro : {0, 1}) {
        for (const auto each : sampler.sequences(step, micro)) micro_batches.push_back(each);
      }
      std::size_t at = 0;
      for (const auto each : sampler.sequences(step)) {
        REQUIRE(micro_batches.at(at++) == each);
        const Index source = each.value() / 33;
        REQUIRE(sampler.inputs_of(*each).begin == 100 * source + *each % 33 * 3);
        found[static_cast<std::size_t>(source)] += 1;
        ++places;
        for (std::size_t i = 0; i < weights.size(); ++i) {
          const double share = static_cast<double>(places) * static_cast<double>(weights[i]) / sum;
          REQUIRE(std::abs(static_cast<double>(found[i]) - share) <= static_cast<double>(i + 1));
        }
      }
      REQUIRE(found == sampler.counts(places));
    }
  }
  const BatchSampler sampler({{100, 5}, {100, 2}, {100, 3}}, {.length = 3, .batch = 8});
  CHECK(sampler.counts(Index{10'000'000'000'000}) ==
        std::vector<Index>{5'000'000'000'000, 2'000'000'000'000, 3'000'000'000'000});
}

TEST_CASE("a source is read again and again, in another order each time") {
  // 20 and 5 sequences, of which 3 and 1 of every 4 are taken.
  const std::vector<MixedSource> sources{{81, 3}, {21, 1}};
  const BatchOptions options{.length = 4, .batch = 4, .seed = 7};
  const BatchSampler sampler(sources, options);
  CHECK(sampler.steps_per_epoch() == 7);  // 21 and 7
  const auto all = listed(sampler, 40, 20);
  CHECK(all[0].size() == 120);
  CHECK(all[1].size() == 40);
  std::set<std::vector<Index>> orders;
  for (std::size_t source : {0, 1}) {
    const std::ptrdiff_t count = source == 0 ? 20 : 5;
    for (auto begin = all[source].begin(); begin != all[source].end(); begin += count) {
      std::vector<Index> pass(begin, begin + count);
      orders.insert(pass);
      std::sort(pass.begin(), pass.end());
      for (std::ptrdiff_t i = 0; i < count; ++i) CHECK(pass[static_cast<std::size_t>(i)] == i);
    }
  }
  CHECK(orders.size() == 6 + 8);
  CHECK(listed(BatchSampler(sources, options), 40, 20) == all);
  BatchOptions other = options;
  other.seed = 8;
  CHECK(listed(BatchSampler(sources, other), 40, 20) != all);
  CHECK(listed(BatchSampler({{81, 6}, {21, 2}}, options), 40, 20) == all);  // only their relation counts
  const auto equal = listed(BatchSampler({{81, 1}, {81, 1}}, options), 10, 20);
  CHECK(equal[0] != equal[1]);  // though both have as many sequences

  BatchOptions in_order = options;
  in_order.shuffle = false;
  const auto ordered = listed(BatchSampler(sources, in_order), 2, 20);
  CHECK(ordered[0] == std::vector<Index>{0, 1, 2, 3, 4, 5});
  CHECK(ordered[1] == std::vector<Index>{0, 1});

  BatchOptions padded = options;
  padded.last = LastBatch::pad;
  padded.shuffle = false;
  const BatchSampler shorter({{7, 1}, {21, 1}}, padded);  // 4 and 2 targets; then 5 times 4
  CHECK(shorter.sequence_count() == 7);
  CHECK(shorter.inputs_of(1) == Range{4, 2});
  CHECK(shorter.inputs_of(2) == Range{7, 4});
  CHECK(shorter.inputs_of(6) == Range{23, 4});
  CHECK(shorter.counted(0) == 4 + 4 + 2 + 4);
  CHECK(shorter.counted(1) == shorter.counted(0));
}

TEST_CASE("an epoch ends when each source was read as a whole") {
  for (const std::vector<Index>& weights : {std::vector<Index>{1, 1, 1}, {7, 2, 1}, {1, 30, 4}}) {
    const BatchSampler sampler({{41, weights[0]}, {101, weights[1]}, {9, weights[2]}},
                               {.length = 2, .batch = 3});
    const auto covered = [&](Index steps) {
      const std::vector<Index> counts = sampler.counts(3 * steps);
      return counts[0] >= 20 && counts[1] >= 50 && counts[2] >= 4;
    };
    CHECK(covered(sampler.steps_per_epoch()));
    CHECK(!covered(sampler.steps_per_epoch() - 1));
    CHECK(sampler.epoch_of(sampler.steps_per_epoch()) == 1);
  }
}

TEST_CASE("sources that make no mix") {
  const BatchOptions options{.length = 4, .batch = 4};
  const auto error = [](const std::vector<MixedSource>& sources, const BatchOptions& given) {
    try {
      BatchSampler(sources, given);
    } catch (const std::invalid_argument& problem) {
      return std::string(problem.what());
    }
    return std::string("no error");
  };
  CHECK(error({}, options) == "BatchSampler: sources is empty, expected at least one");
  const std::string range = ": expected at least 1, and at most 2147483647 for the sum of all weights";
  CHECK(error({{81, 3}, {21, 0}}, options) == "BatchSampler: the weight 0" + range);
  CHECK(error({{81, -3}, {21, 1}}, options) == "BatchSampler: the weight -3" + range);
  CHECK(error({{81, 2147483646}, {21, 2}}, options) == "BatchSampler: the weight 2" + range);
  CHECK(error({{81, 2147483646}, {21, 1}}, options) == "no error");
  CHECK(error({{81, 3}, {4, 1}}, options) ==
        "BatchSampler: the 4 tokens of source 2 do not make a sequence of 4 and a target");
  CHECK(error({{81, 3}}, {.length = 0, .batch = 4}) == "BatchSampler: length is 0: expected at least 1");
  CHECK(error({{81, 3}}, {.length = 4, .batch = 4, .micro_batches = 3}) ==
        "BatchSampler: batch 4 is not a multiple of micro_batches 3");
  CHECK_THROWS_AS(BatchSampler({{81, 3}, {21, 1}}, options).sequences(-1), std::invalid_argument);
}

}  // namespace
}  // namespace shardwise::testing::mixed_sampler
