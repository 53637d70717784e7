// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Samples the next token from the logits of a language model. The result depends only on the logits, the options,
/// a seed and a position, so all ranks, which have the same logits, draw the same token without communication.
///
/// ```
/// std::int32_t next = sample(logits, {.temperature = 0.8, .top_k = 40}, seed, position);
/// double probability = std::exp(log_probability(logits, next));          // before the options
/// auto others = penalize_repetition(logits, tokens_so_far, 1.2);         // logits for sample
/// ```

#include <algorithm>
#include <cmath>
#include <limits>

#include <shardwise/base/finite.hpp>
#include <shardwise/base/text.hpp>
#include <shardwise/kernel/philox.hpp>
#include <shardwise/llm/namespaces.hpp>

namespace shardwise::llm {

/// Which tokens may be drawn: applies `logit_bias`, the temperature, `top_k`, `top_p` and `min_p`, in this order.
struct SamplingOptions {
  double temperature = 1;  ///< divides the logits; 0: always the greatest
  Index top_k = 0;         ///< only the k most probable (Fan, Lewis and Dauphin, ACL 2018); 0: all
  /// Only the most probable ones whose probabilities first reach the sum p, of those that `top_k` leaves (Holtzman
  /// et al., "The curious case of neural text degeneration", ICLR 2020).
  double top_p = 1;
  /// Only those whose probability is at least this part of the greatest (Nguyen et al., "Turning up the heat: min-p
  /// sampling", ICLR 2025); 0: all.
  double min_p = 0;
  /// Is added to the logits of tokens; -inf: the token is not drawn.
  std::vector<std::pair<std::int32_t, double>> logit_bias{};
};

/// A token, and the natural logarithm of its probability.
struct TokenProbability {
  std::int32_t id;
  double logarithm;
};

/// Throws `std::invalid_argument` for options that `sample` refuses for so many logits.
inline void check_sampling(const SamplingOptions& options, std::size_t logits) {
  if (!(options.temperature >= 0) || detail::is_infinite(options.temperature)) {
    detail::fail({"temperature ", options.temperature, ": expected a finite number, 0 or more"});
  }
  if (options.top_k < 0) {
    detail::fail({"top_k ", options.top_k, ": expected 0 (all tokens) or more"});
  }
  if (!(options.top_p > 0 && options.top_p <= 1)) {
    detail::fail({"top_p ", options.top_p, ": expected more than 0 and at most 1"});
  }
  if (!(options.min_p >= 0 && options.min_p <= 1)) {
    detail::fail({"min_p ", options.min_p, ": expected 0 to 1"});
  }
  for (const auto& [id, bias] : options.logit_bias) {
    if (id < 0 || static_cast<std::size_t>(id) >= logits)
      detail::fail({"logit_bias of token ", id, ": expected a token from 0 to ", logits - 1});
    if (detail::is_nan(bias) || bias == std::numeric_limits<double>::infinity())
      detail::fail({"logit_bias ", bias, " of token ", id, ": expected a finite number, or -inf"});
  }
}

namespace detail {

/// Uniform in [0, 1), a multiple of 2^-53: a function of a seed and the number of the draw.
constexpr double uniform_draw(std::uint64_t seed, std::uint64_t draw) {
  const auto words = kernel::random_block(seed, kernel::RandomStream::uniform, draw);
  return static_cast<double>(std::uint64_t{words[0]} << 21 | words[1] >> 11) * 0x1p-53;
}

/// The position of the greatest logit, the first among equals.
template <class T>
std::size_t greatest(std::span<const T> logits) {
  if (logits.empty()) throw std::invalid_argument("there are no logits to draw from");
  std::size_t best = 0;
  for (std::size_t i = 0; i < logits.size(); ++i) {
    if (is_nan(logits[i]) || logits[i] == std::numeric_limits<T>::infinity()) {
      fail({"logit ", i, " is ", logits[i],
            ": expected a finite number, or -inf for a token that must not be drawn"});
    }
    if (logits[i] > logits[best]) best = i;
  }
  if (is_infinite(logits[best])) fail({"all logits are -inf: there is no token to draw"});
  return best;
}

struct WeightedToken {
  double weight;
  std::size_t id;
  /// More probable tokens compare greater; among equals those with lower ids.
  bool operator<(const WeightedToken& other) const {
    return weight != other.weight ? weight < other.weight : id > other.id;
  }
};

inline double sum_of_weights(const std::vector<WeightedToken>& tokens) {
  double sum = 0;
  for (const WeightedToken& token : tokens) sum += token.weight;
  return sum;
}

/// The most probable tokens, in order: as few as reach the sum `enough`, at most `count`. Takes O(n + m log n) for
/// m of n tokens.
inline std::vector<WeightedToken> most_probable(std::vector<WeightedToken> tokens, std::size_t count,
                                                double enough) {
  std::vector<WeightedToken> result;
  std::make_heap(tokens.begin(), tokens.end());
  for (double sum = 0; result.size() < count && sum < enough && !tokens.empty(); tokens.pop_back()) {
    std::pop_heap(tokens.begin(), tokens.end());
    result.push_back(tokens.back());
    sum += tokens.back().weight;
  }
  return result;
}

/// The logarithm of the sum of the exponentials.
template <class T>
double log_sum(std::span<const T> logits) {
  const auto most = static_cast<double>(logits[greatest(logits)]);
  double sum = 0;
  for (const T logit : logits) sum += std::exp(static_cast<double>(logit) - most);
  return most + std::log(sum);
}

template <class T>
std::int32_t sample(std::span<const T> logits, const SamplingOptions& options, std::uint64_t seed,
                    std::uint64_t position) {
  check_sampling(options, logits.size());
  std::vector<T> biased;
  if (!options.logit_bias.empty()) {
    biased.assign(logits.begin(), logits.end());
    for (const auto& [id, bias] : options.logit_bias)
      biased[static_cast<std::size_t>(id)] += static_cast<T>(bias);
    logits = biased;
  }
  const std::size_t best = greatest(logits);
  if (options.temperature == 0) return static_cast<std::int32_t>(best);
  std::vector<WeightedToken> tokens;
  tokens.reserve(logits.size());
  for (std::size_t i = 0; i < logits.size(); ++i) {
    const double below = static_cast<double>(logits[i]) - static_cast<double>(logits[best]);
    tokens.push_back({std::exp(below / options.temperature), i});
  }
  const auto k = static_cast<std::size_t>(options.top_k);
  if (k > 0 && k < tokens.size()) {
    tokens = most_probable(std::move(tokens), k, std::numeric_limits<double>::infinity());
  }
  if (options.top_p < 1) {
    const double enough = options.top_p * sum_of_weights(tokens);
    tokens = most_probable(std::move(tokens), logits.size(), enough);
  }
  std::erase_if(tokens, [&](const WeightedToken& token) { return token.weight < options.min_p; });
  const double target = uniform_draw(seed, position) * sum_of_weights(tokens);
  double sum = 0;
  for (const WeightedToken& token : tokens) {
    sum += token.weight;
    if (target < sum) return static_cast<std::int32_t>(token.id);
  }
  return static_cast<std::int32_t>(best);  // rounding may make the target equal to the total
}

}  // namespace detail

/// Draws a token: id i with probability softmax(logits / temperature)[i] among the tokens that the options allow.
/// `position` numbers the draws of one seed. Among equal logits, lower ids come first. Sums are in double and in a
/// fixed order. Throws `std::invalid_argument` for options out of range, for logits that are NaN, +inf or all -inf,
/// and without logits.
inline std::int32_t sample(std::span<const float> logits, const SamplingOptions& options, std::uint64_t seed,
                           std::uint64_t position) {
  return detail::sample(logits, options, seed, position);
}
inline std::int32_t sample(std::span<const double> logits, const SamplingOptions& options, std::uint64_t seed,
                           std::uint64_t position) {
  return detail::sample(logits, options, seed, position);
}

/// The logits, with those of the tokens in `before` divided by `penalty` if they are positive, multiplied by it if they
/// are negative: once for each token, as transformers does (Keskar et al., "CTRL", 2019). Tokens without a logit do not
/// matter. Throws `std::invalid_argument` unless the penalty is a finite number above 0, also in float.
inline std::vector<float> penalize_repetition(std::span<const float> logits,
                                              std::span<const std::int32_t> before, double penalty) {
  using Limits = std::numeric_limits<float>;
  if (!(penalty >= double{Limits::min()} && penalty <= double{Limits::max()}))
    detail::fail({"repetition penalty ", penalty, ": expected a finite number above 0"});
  const auto factor = static_cast<float>(penalty);
  std::vector<float> result(logits.begin(), logits.end());
  std::vector<bool> done(logits.size());
  for (const std::int32_t id : before) {
    const auto i = static_cast<std::size_t>(id);
    if (i >= done.size() || done[i]) continue;
    done[i] = true;
    result[i] = result[i] < 0 ? result[i] * factor : result[i] / factor;
  }
  return result;
}

/// The natural logarithm of softmax(logits)[id]. Throws `std::invalid_argument` if there is no such logit, and as
/// `sample` for the logits.
inline double log_probability(std::span<const float> logits, std::int32_t id) {
  const auto i = static_cast<std::size_t>(id);
  if (i >= logits.size()) detail::fail({"token ", id, ": expected one from 0 to ", std::ssize(logits) - 1});
  return static_cast<double>(logits[i]) - detail::log_sum(logits);
}

/// Those of the `count` most probable tokens, in order; among equals, lower ids come first.
inline std::vector<TokenProbability> most_probable(std::span<const float> logits, Index count) {
  const double sum = detail::log_sum(logits);
  std::vector<TokenProbability> all;
  for (std::size_t i = 0; i < logits.size(); ++i)
    all.push_back({static_cast<std::int32_t>(i), static_cast<double>(logits[i]) - sum});
  const Index kept = std::clamp<Index>(count, 0, std::ssize(all));
  std::partial_sort(all.begin(), all.begin() + kept, all.end(), [](const auto& a, const auto& b) {
    return a.logarithm != b.logarithm ? a.logarithm > b.logarithm : a.id < b.id;
  });
  all.resize(static_cast<std::size_t>(kept));
  return all;
}

}  // namespace shardwise::llm
