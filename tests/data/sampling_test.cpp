// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <set>
#include <vector>

#include <shardwise/llm/text/sampling.hpp>

namespace shardwise::testing::sampling {
namespace {

using namespace shardwise;
using namespace shardwise::llm;

constexpr std::uint64_t draws = 20000;
constexpr double infinity = std::numeric_limits<double>::infinity();

std::vector<double> counts(const std::vector<double>& logits, const SamplingOptions& options,
                           std::uint64_t seed) {
  std::vector<double> result(logits.size());
  for (std::uint64_t position = 0; position < draws; ++position) {
    ++result.at(static_cast<std::size_t>(sample(logits, options, seed, position)));
  }
  return result;
}

/// Draws `draws` tokens; for k degrees of freedom χ² is above k + 4 √(2k) less than once in a thousand times.
void check_distribution(const std::vector<double>& logits, const SamplingOptions& options,
                        const std::vector<double>& weights) {
  double total = 0, chi2 = 0, freedom = -1;
  for (const double weight : weights) total += weight;
  const std::vector<double> count = counts(logits, options, 17);
  for (std::size_t i = 0; i < weights.size(); ++i) {
    const double expected = weights[i] / total * static_cast<double>(draws);
    if (weights[i] == 0) {
      CHECK(count[i] == 0);
    } else {
      chi2 += (count[i] - expected) * (count[i] - expected) / expected;
      ++freedom;
    }
  }
  CHECK(chi2 < freedom + 4 * std::sqrt(2 * freedom));
}

const std::vector<double> logits{std::log(2.), std::log(5.), -infinity,
                                 std::log(1.), std::log(8.), std::log(4.)};

TEST_CASE("tokens are drawn with the probabilities of the softmax") {
  check_distribution(logits, {}, {2, 5, 0, 1, 8, 4});
  check_distribution(logits, {.temperature = 0.5}, {4, 25, 0, 1, 64, 16});
  check_distribution(logits, {.temperature = 2}, {1.41421356, 2.23606798, 0, 1, 2.82842712, 2});
  check_distribution(logits, {.temperature = 1e300}, {1, 1, 0, 1, 1, 1});
}

TEST_CASE("top_k and top_p leave the most probable tokens") {
  check_distribution(logits, {.top_k = 3}, {0, 5, 0, 0, 8, 4});
  check_distribution(logits, {.top_k = 100}, {2, 5, 0, 1, 8, 4});
  check_distribution(logits, {.top_p = 0.64}, {0, 5, 0, 0, 8, 0});  // 13 of 20 are 0.65
  check_distribution(logits, {.top_p = 0.66}, {0, 5, 0, 0, 8, 4});
  check_distribution(logits, {.top_k = 3, .top_p = 0.76}, {0, 5, 0, 0, 8, 0});  // 13 of 17 are 0.765
  check_distribution(logits, {.temperature = 0.5, .top_p = 0.8},
                     {0, 25, 0, 0, 64, 0});  // 89 of 110 are 0.809
  CHECK(counts(logits, {.top_k = 1}, 3)[4] == draws);
  CHECK(counts(logits, {.top_p = 1e-9}, 3)[4] == draws);
}

TEST_CASE("min_p leaves the tokens with at least this part of the greatest probability") {
  check_distribution(logits, {.min_p = 0.5}, {0, 5, 0, 0, 8, 4});
  check_distribution(logits, {.min_p = 0.2}, {2, 5, 0, 0, 8, 4});
  check_distribution(logits, {.top_k = 2, .min_p = 0.1}, {0, 5, 0, 0, 8, 0});
  for (const SamplingOptions& one :
       {SamplingOptions{.temperature = 0.5, .min_p = 0.5}, {.min_p = 1}})  // 25 of 64
    CHECK(counts(logits, one, 17)[4] == draws);
}

TEST_CASE("a bias is added to logits") {
  check_distribution(logits, {.logit_bias = {{1, std::log(2.)}, {4, -infinity}, {3, std::log(3.)}}},
                     {2, 10, 0, 3, 0, 4});
  CHECK(sample(logits, {.temperature = 0, .logit_bias = {{0, 50}}}, 1, 1) == 0);
}

TEST_CASE(
    "a penalty of repetition divides positive logits and multiplies negative ones, once for each token") {
  // As torch: where(score < 0, score * 1.25, score / 1.25).
  const std::vector<float> scores{2.f, -1.f, 0.5f, 0.f, 1.7f};
  const auto greedy = [&](double penalty, const std::vector<std::int32_t>& before) {
    return sample(penalize_repetition(scores, before, penalty), {.temperature = 0}, 1, 1);
  };
  CHECK(greedy(1.25, {}) == 0);
  CHECK(greedy(1.25, {0}) == 4);              // 1.6
  CHECK(greedy(1.25, {0, 4, 4, 4, 1}) == 0);  // 1.6 and 1.36
  CHECK(greedy(1.25, {7, -1}) == 0);          // without logits
  CHECK(greedy(0.5, {2}) == 0);
  CHECK(greedy(0.25, {2}) == 0);  // both are 2
  CHECK(greedy(0.2, {2}) == 2);
  CHECK(penalize_repetition(std::vector<float>{-1, -2}, std::vector<std::int32_t>{0}, 1.5) ==
        std::vector<float>{-1.5, -2});
  CHECK_THROWS_WITH_AS(greedy(0, {}), "repetition penalty 0: expected a finite number above 0",
                       std::invalid_argument);
  CHECK_THROWS_WITH_AS(greedy(infinity, {}), doctest::Contains("penalty inf: expected"),
                       std::invalid_argument);
}

TEST_CASE("log-probabilities of tokens, and the most probable ones") {
  const std::vector<float> scores{0.f, 3.f, -std::numeric_limits<float>::infinity(), 3.f, 1.f};
  const double sum = std::log(1 + 2 * std::exp(3.) + std::exp(1.));
  CHECK(log_probability(scores, 1) == doctest::Approx(3 - sum));
  CHECK(log_probability(scores, 0) == doctest::Approx(-sum));
  CHECK(log_probability(scores, 2) == -infinity);
  const auto best = most_probable(scores, 3);
  REQUIRE(best.size() == 3);
  CHECK(best[0].id == 1);
  CHECK(best[1].id == 3);
  CHECK(best[2].id == 4);
  CHECK(best[2].logarithm == log_probability(scores, 4));
  CHECK(most_probable(scores, 0).empty());
  CHECK(most_probable(scores, 9).size() == 5);
  CHECK_THROWS_WITH_AS(log_probability(scores, 5), "token 5: expected one from 0 to 4",
                       std::invalid_argument);
  CHECK_THROWS_WITH_AS(log_probability(scores, -1), "token -1: expected one from 0 to 4",
                       std::invalid_argument);
  CHECK_THROWS_AS(most_probable(std::vector<float>{1, std::numeric_limits<float>::quiet_NaN()}, 1),
                  std::invalid_argument);
}

TEST_CASE("of equal logits the lowest ids come first") {
  const std::vector<double> ties{1, 3, 3, 2, 3};
  CHECK(sample(ties, {.temperature = 0}, 1, 2) == 1);
  CHECK(counts(ties, {.top_k = 1}, 3)[1] == draws);
  check_distribution(ties, {.top_k = 2}, {0, 1, 1, 0, 0});
  check_distribution(std::vector<double>(6, -4.), {.top_p = 0.5}, {1, 1, 1, 0, 0, 0});
}

TEST_CASE("temperature 0 is the limit of small temperatures") {
  const std::vector<float> narrow{1e30f, -3e38f, 3e38f, 2.9e38f};
  for (const double temperature : {0., 1e-320, 1e-30, 1e-3}) {
    CHECK(sample(narrow, {.temperature = temperature}, 5, 6) == 2);
  }
  CHECK(sample(std::vector<double>{-1e308, 1e308, -infinity}, {.temperature = 1e-300}, 5, 6) == 1);
}

TEST_CASE("a draw depends on the seed and the position, and on nothing else") {
  const std::vector<float> flat(1000, 0.f);
  std::set<std::int32_t> by_position, by_seed;
  for (std::uint64_t i = 0; i < 100; ++i) {
    by_position.insert(sample(flat, {}, 7, i));
    by_seed.insert(sample(flat, {}, i, 7));
    CHECK(sample(flat, {}, 7, i) == sample(std::vector<double>(1000, 0.), {}, 7, i));
  }
  CHECK(by_position.size() > 80);
  CHECK(by_seed.size() > 80);
  // The first word that Philox publishes for counter 0 and key 0, 0x6627e8d5, is 0.39904 · 2^32.
  CHECK(sample(flat, {}, 0, 0) == 399);
}

TEST_CASE("nonsense is an error") {
  const std::vector<double> two{1, 2};
  const double nan = std::numeric_limits<double>::quiet_NaN();
  auto refused = [&](const std::vector<double>& x, const SamplingOptions& options, const char* what) {
    CHECK_THROWS_WITH_AS(sample(x, options, 1, 2), doctest::Contains(what), std::invalid_argument);
  };
  refused(two, {.temperature = -1}, "temperature -1: expected");
  refused(two, {.temperature = nan}, "temperature nan: expected");
  refused(two, {.temperature = infinity}, "temperature inf: expected");
  refused(two, {.top_k = -1}, "top_k -1: expected");
  refused(two, {.top_p = 0}, "top_p 0: expected");
  refused(two, {.top_p = 1.5}, "top_p 1.5: expected");
  refused(two, {.top_p = nan}, "top_p nan: expected");
  refused(two, {.min_p = -0.1}, "min_p -0.1: expected 0 to 1");
  refused(two, {.min_p = nan}, "min_p nan: expected");
  refused(two, {.logit_bias = {{2, 1}}}, "logit_bias of token 2: expected a token from 0 to 1");
  refused(two, {.logit_bias = {{-1, 1}}}, "logit_bias of token -1: expected");
  refused(two, {.logit_bias = {{1, nan}}}, "logit_bias nan of token 1: expected");
  refused(two, {.logit_bias = {{1, infinity}}}, "logit_bias inf of token 1: expected");
  refused({1, nan}, {}, "logit 1 is nan");
  refused({1, nan}, {.temperature = 0}, "logit 1 is nan");
  refused({nan, 1}, {.temperature = 0}, "logit 0 is nan");
  refused({infinity, 1}, {}, "logit 0 is inf");
  refused({-infinity, -infinity}, {}, "all logits are -inf");
  refused({}, {}, "there are no logits");
}

}  // namespace

}  // namespace shardwise::testing::sampling
