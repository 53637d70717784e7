// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// Random orders, and the batches of sequences that are made of them.

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include <range/v3/range/conversion.hpp>
#include <range/v3/view/drop.hpp>
#include <range/v3/view/take.hpp>

#include <shardwise/llm/data/batch_sampler.hpp>

namespace shardwise::testing::batch_sampler {
namespace {

using namespace shardwise;
using namespace shardwise::llm;
using Sequences = std::vector<std::optional<Index>>;

template <class Rows>
Sequences listed(Rows&& rows) {
  return rows | ranges::to<std::vector>();
}

std::vector<Index> order_of(const Permutation& permutation) {
  std::vector<Index> order;
  for (Index place = 0; place < permutation.size(); ++place) order.push_back(permutation(place));
  return order;
}

TEST_CASE("a permutation has every number once") {
  std::vector<Index> sizes{0, 99, 100, 101, 4095, 4096, 4097, 65537, 1000003};
  for (Index n = 1; n <= 66; ++n) sizes.push_back(n);
  for (const Index n : sizes) {
    CAPTURE(n);
    std::vector<bool> seen(static_cast<std::size_t>(n));
    bool once = true;
    const Permutation permutation(n, 5, 6);
    for (const Index number : order_of(permutation)) {
      once = once && number >= 0 && number < n && !seen[static_cast<std::size_t>(number)];
      if (once) seen[static_cast<std::size_t>(number)] = true;
    }
    CHECK(once);
    CHECK_THROWS_AS(permutation(n), std::out_of_range);
    CHECK_THROWS_AS(permutation(-1), std::out_of_range);
  }
  CHECK_THROWS_WITH_AS(Permutation(-1, 0), "Permutation: -1 elements", std::invalid_argument);
}

TEST_CASE("a permutation of more numbers than memory has") {
  for (const Index n : {Index{1} << 32, (Index{1} << 62) + 12345, std::numeric_limits<Index>::max()}) {
    const Permutation permutation(n, 1);
    std::set<Index> seen;
    Index high = 0;
    for (Index place = 0; place < 2000; ++place) {
      const Index number = permutation(place);
      CHECK((number >= 0 && number < n));
      seen.insert(number);
      high += number >= n / 2;
    }
    CHECK(seen.size() == 2000);
    CHECK((high > 850 && high < 1150));  // 1000 ± 6.7 standard deviations
    CHECK(permutation(n - 1) < n);
  }
}

double chi_square(const std::vector<double>& counts, double expected) {
  double sum = 0;
  for (const double count : counts) sum += (count - expected) * (count - expected) / expected;
  return sum;
}

TEST_CASE("all orders of few numbers are about as frequent") {
  for (const Index n : {2, 3, 4, 5}) {
    CAPTURE(n);
    std::map<std::vector<Index>, double> times;
    constexpr int trials = 24000;
    for (std::uint64_t epoch = 0; epoch < trials; ++epoch) ++times[order_of(Permutation(n, 9, epoch))];
    double orders = 1;
    for (Index i = 2; i <= n; ++i) orders *= static_cast<double>(i);
    REQUIRE(static_cast<double>(times.size()) == orders);
    std::vector<double> counts;
    for (const auto& [order, count] : times) counts.push_back(count);
    const double freedom = orders - 1;
    CHECK(chi_square(counts, trials / orders) < freedom + 6 * std::sqrt(2 * freedom) + 12);
  }
}

TEST_CASE("numbers lie anywhere in a long order, and neighbours do not stay neighbours") {
  constexpr Index n = 1000003, parts = 20;
  for (const std::uint64_t seed : {0u, 1u, 77u}) {
    const std::vector<Index> order = order_of(Permutation(n, seed, 3));
    std::vector<double> counts(parts * parts);
    Index neighbours = 0, fixed = 0;
    for (Index place = 0; place < n; ++place) {
      const Index number = order[static_cast<std::size_t>(place)];
      ++counts[static_cast<std::size_t>(place * parts / n * parts + number * parts / n)];
      fixed += number == place;
      if (place > 0) neighbours += std::abs(number - order[static_cast<std::size_t>(place - 1)]) == 1;
    }
    // 361 degrees of freedom: 361 ± 27
    const double chi = chi_square(counts, static_cast<double>(n) / (parts * parts));
    CHECK((chi > 200 && chi < 522));
    CHECK(neighbours < 15);  // 2 are expected
    CHECK(fixed < 12);       // 1 is
  }
}

TEST_CASE("orders are functions of the seed and the number") {
  const auto order = order_of(Permutation(1000, 1, 2));
  CHECK(order_of(Permutation(1000, 1, 2)) == order);
  CHECK(order_of(Permutation(1000, 2, 1)) != order);
  CHECK(order_of(Permutation(1000, 1, 3)) != order);
  CHECK(order_of(Permutation(1000, 1 + (std::uint64_t{1} << 40), 2)) != order);
  CHECK(order_of(Permutation(1000, 1, 2 + (std::uint64_t{1} << 40))) != order);
}

/// How often each sequence is in the steps of an epoch, and how many rows are padding.
struct Census {
  std::map<Index, int> times;
  Index padding = 0;
};
Census census(const BatchSampler& sampler, Index epoch) {
  Census census;
  for (Index step = 0; step < sampler.steps_per_epoch(); ++step) {
    for (const auto sequence : sampler.sequences(epoch * sampler.steps_per_epoch() + step)) {
      if (sequence) {
        ++census.times[*sequence];
      } else {
        ++census.padding;
      }
    }
  }
  return census;
}

TEST_CASE("without shuffling, sequences come in their order, in each epoch") {
  const BatchSampler sampler(22, {.length = 3, .batch = 2, .last = LastBatch::pad, .shuffle = false});
  for (const Index epoch : {0, 1, 5}) {
    const Index step = epoch * sampler.steps_per_epoch();
    CHECK(listed(sampler.sequences(step)) == Sequences{0, 1});
    CHECK(listed(sampler.sequences(step + 3)) == Sequences{6, std::nullopt});
    CHECK(sampler.counted(step + 3) == 3);
  }
}

TEST_CASE("an epoch has every sequence once, but for what is dropped") {
  // 1000 inputs: 142 sequences of 7 and 6 tokens more.
  const BatchSampler drop(1001, {.length = 7, .batch = 6, .seed = 4});
  const BatchSampler pad(1001, {.length = 7, .batch = 6, .seed = 4, .last = LastBatch::pad});
  CHECK(drop.sequence_count() == 142);
  CHECK(pad.sequence_count() == 143);
  CHECK(drop.steps_per_epoch() == 23);
  CHECK(pad.steps_per_epoch() == 24);
  std::set<Index> ever;
  for (const Index epoch : {0, 1, 5}) {
    const Census dropped = census(drop, epoch), padded = census(pad, epoch);
    CHECK(dropped.times.size() == 23 * 6);
    CHECK(dropped.padding == 0);
    CHECK(padded.times.size() == 143);
    CHECK(padded.padding == 24 * 6 - 143);
    for (const auto& [sequence, count] : dropped.times) {
      CHECK((count == 1 && sequence >= 0 && sequence < 142));
      ever.insert(sequence);
    }
    for (const auto& [sequence, count] : padded.times) CHECK(count == 1);
  }
  CHECK(ever.size() == 142);  // what one epoch drops another has

  const BatchSampler whole(1 + 12 * 7, {.length = 7, .batch = 6, .last = LastBatch::pad});
  CHECK(whole.steps_per_epoch() == 2);
  CHECK(census(whole, 0).padding == 0);
  CHECK(whole.counted(1) == 42);
}

TEST_CASE("neighbours share one token, and a last sequence may be short") {
  const BatchSampler sampler(24, {.length = 7, .batch = 1, .last = LastBatch::pad});
  CHECK(sampler.inputs_of(0) == Range{0, 7});
  CHECK(sampler.inputs_of(1) == Range{7, 7});
  CHECK(sampler.inputs_of(3) == Range{21, 2});  // the targets are the tokens 22 and 23
  CHECK_THROWS_AS(sampler.inputs_of(4), std::out_of_range);
}

TEST_CASE("targets are counted over the whole step, whatever part is short or padding") {
  for (const Index tokens : {2, 3, 50, 57, 58, 99}) {
    const BatchSampler sampler(
        tokens, {.length = 7, .batch = 4, .micro_batches = 2, .seed = 3, .last = LastBatch::pad});
    Index epoch = 0;
    for (Index step = 0; step < sampler.steps_per_epoch(); ++step) {
      Index targets = 0;
      for (const auto sequence : sampler.sequences(step)) {
        if (sequence) targets += sampler.inputs_of(*sequence).size;
      }
      CHECK(sampler.counted(step) == targets);
      epoch += targets;
    }
    CHECK(epoch == tokens - 1);  // every token but the first is a target once
  }
  CHECK(BatchSampler(1001, {.length = 7, .batch = 6}).counted(3) == 42);
}

TEST_CASE("micro-batches are equal parts of the batch") {
  const BatchSampler one(5000, {.length = 9, .batch = 12, .seed = 2, .last = LastBatch::pad});
  for (const Index parts : {1, 2, 3, 12}) {
    const BatchSampler cut(
        5000, {.length = 9, .batch = 12, .micro_batches = parts, .seed = 2, .last = LastBatch::pad});
    for (const Index step : {Index{0}, Index{5}, one.steps_per_epoch() - 1, one.steps_per_epoch() + 1}) {
      Sequences joined;
      for (Index micro = 0; micro < parts; ++micro) {
        const Sequences part = listed(cut.sequences(step, micro));
        CHECK(static_cast<Index>(part.size()) == 12 / parts);
        joined.insert(joined.end(), part.begin(), part.end());
      }
      CHECK(joined == listed(one.sequences(step)));
      CHECK(cut.counted(step) == one.counted(step));
    }
  }
}

TEST_CASE("a run that goes on at a step is the run that was not stopped") {
  const BatchOptions options{.length = 5, .batch = 4, .seed = 8};
  const BatchSampler sampler(205, options);
  REQUIRE(sampler.steps_per_epoch() == 10);
  std::vector<Sequences> all;
  for (const auto& batch : sampler.batches(0) | ranges::views::take(35)) all.push_back(listed(batch));
  REQUIRE(all.size() == 35);
  for (const Index from : {0, 1, 9, 10, 23}) {
    const BatchSampler again(205, options);
    auto expected = all.begin() + from;
    for (const auto& batch : again.batches(from) | ranges::views::take(12))
      CHECK(listed(batch) == *expected++);
  }
  // At once, also where no run has ever come.
  const Index far = Index{1} << 40;
  CHECK(sampler.epoch_of(far) == far / 10);
  CHECK(listed(sampler.sequences(far)).size() == 4);
}

TEST_CASE("batches that outlive their sampler") {
  auto batches = [] { return BatchSampler(205, {.length = 5, .batch = 4, .seed = 8}).batches(7); }();
  const BatchSampler sampler(205, {.length = 5, .batch = 4, .seed = 8});
  CHECK(listed(*batches.begin()) == listed(sampler.sequences(7)));
}

TEST_CASE("epochs and seeds have orders of their own") {
  const BatchSampler sampler(10001, {.length = 10, .batch = 1000, .seed = 1});
  REQUIRE(sampler.steps_per_epoch() == 1);
  const Sequences first = listed(sampler.sequences(0));
  CHECK(sampler.epoch_of(1) == 1);
  CHECK(listed(sampler.sequences(1)) != first);
  CHECK(listed(BatchSampler(10001, {.length = 10, .batch = 1000, .seed = 2}).sequences(0)) != first);
  CHECK(!std::is_sorted(first.begin(), first.end()));
}

TEST_CASE("options that cannot be") {
  const auto refused = [](Index tokens, const BatchOptions& options, const char* why) {
    CHECK_THROWS_WITH_AS(BatchSampler(tokens, options), why, std::invalid_argument);
  };
  refused(100, {.length = 0, .batch = 1}, "BatchSampler: length is 0: expected at least 1");
  refused(100, {.length = 4, .batch = -2}, "BatchSampler: batch is -2: expected at least 1");
  refused(100, {.length = 4, .batch = 2, .micro_batches = 0},
          "BatchSampler: micro_batches is 0: expected at least 1");
  refused(100, {.length = 4, .batch = 6, .micro_batches = 4},
          "BatchSampler: batch 6 is not a multiple of micro_batches 4");
  refused(100, {.length = 4, .batch = 1, .ignore_index = 0},
          "BatchSampler: ignore_index 0: expected a negative number of 32 bits, which is not a token");
  refused(
      100, {.length = 4, .batch = 1, .ignore_index = -(Index{1} << 31) - 1},
      "BatchSampler: ignore_index -2147483649: expected a negative number of 32 bits, which is not a token");
  refused(40, {.length = 10, .batch = 4},
          "BatchSampler: 40 tokens make 3 sequences of 10 and a target, but a step needs 4");
  refused(1, {.length = 10, .batch = 4, .last = LastBatch::pad},
          "BatchSampler: 1 tokens make 0 sequences of 10 and a target, but a step needs 1");
  refused(0, {.length = 10, .batch = 4},
          "BatchSampler: 0 tokens make 0 sequences of 10 and a target, but a step needs 4");
  CHECK(BatchSampler(41, {.length = 10, .batch = 4}).steps_per_epoch() == 1);
  CHECK(BatchSampler(2, {.length = 10, .batch = 4, .last = LastBatch::pad}).steps_per_epoch() == 1);

  const BatchSampler sampler(100, {.length = 4, .batch = 6, .micro_batches = 2});
  CHECK_THROWS_WITH_AS(sampler.sequences(-1), "BatchSampler: step -1 is negative", std::invalid_argument);
  CHECK_THROWS_WITH_AS(sampler.batches(-1), "BatchSampler: step -1 is negative", std::invalid_argument);
  CHECK_THROWS_WITH_AS(sampler.sequences(0, 2), "BatchSampler: micro-batch 2 of 2", std::invalid_argument);
  CHECK_THROWS_AS(sampler.counted(-1), std::invalid_argument);
  CHECK_THROWS_AS(sampler.epoch_of(-1), std::invalid_argument);
}

}  // namespace

}  // namespace shardwise::testing::batch_sampler
