// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// A request for a text, and the tokens of the text, without a model.

#include <algorithm>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include <shardwise/llm/text/sampling.hpp>

namespace tools {

namespace sw = shardwise;

/// The ids that have a text: those below `end`, except the `holes` of a tokenizer, in ascending order.
struct KnownIds {
  sw::Index end;
  std::vector<std::int32_t> holes{};
  bool contains(std::int32_t id) const {
    return id >= 0 && id < end && !std::ranges::binary_search(holes, id);
  }
  sw::Index count() const { return end - std::ssize(holes); }
};

struct TextRequest {
  std::vector<std::int32_t> prompt;
  sw::llm::SamplingOptions sampling{};
  double repetition_penalty = 1;  ///< of the tokens of the prompt and of the text
  std::uint64_t seed = 1;
  sw::Index new_tokens = 200;        ///< at most
  std::vector<std::int32_t> ends{};  ///< the first of these tokens ends the text, and does not belong to it
  std::vector<std::string> stops{};  ///< the text ends before the first of these
  /// Unless negative: log-probabilities of the new tokens are wanted, and those of the most probable ones, so many.
  sw::Index most_probable = -1;

  /// Throws `std::invalid_argument` for what no cache makes possible: the model's tokens are below `vocabulary`, and
  /// those that a prompt may have and that may be drawn are `known`; `has_text`: there is a tokenizer.
  void check(sw::Index vocabulary, const KnownIds& known, bool has_text) const {
    if (prompt.empty()) throw std::invalid_argument("the prompt is empty, expected one token or more");
    for (const std::int32_t id : prompt) {
      if (id < 0 || id >= vocabulary)
        throw std::invalid_argument("the prompt has token " + std::to_string(id) +
                                    ", but those of the model are 0 to " + std::to_string(vocabulary - 1));
      if (!known.contains(id))
        throw std::invalid_argument("the prompt has token " + std::to_string(id) +
                                    ", for which the tokenizer has no text");
    }
    if (new_tokens < 1)
      throw std::invalid_argument(std::to_string(new_tokens) + " new tokens: expected 1 or more");
    for (const std::string& stop : stops) {
      if (stop.empty()) throw std::invalid_argument("a text that ends texts is empty");
      if (!has_text)
        throw std::invalid_argument("without a tokenizer, no text ends a text: \"" + stop + "\"");
    }
    sw::llm::check_sampling(sampling, static_cast<std::size_t>(known.end));
    sw::llm::penalize_repetition({}, {}, repetition_penalty);  // throws for a wrong one
  }
};

enum class TextEnd { none, token, text, length, failed };

struct NewToken {
  std::size_t request;  ///< the number that `add` returned
  std::int32_t id;
  std::string text;            ///< the text that this token adds, see `TextStream`; or why the text failed
  TextEnd end;                 ///< why the text ends with this token, if it does
  double log_probability = 0;  ///< before the sampling options
  std::vector<sw::llm::TokenProbability> most_probable{};
};

}  // namespace tools
