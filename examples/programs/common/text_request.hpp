// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// A request for a text, and the tokens of the text, without a model.

#include <stdexcept>
#include <string>
#include <vector>

#include <shardwise/llm/decoding/generation_request.hpp>

namespace tools {

namespace sw = shardwise;

/// The ids that have a text.
using sw::llm::KnownIds;

struct TextRequest : sw::llm::GenerationRequest {
  std::vector<std::string> stops{};  ///< the text ends before the first of these

  /// Throws `std::invalid_argument` for a request that no cache makes possible; `has_text`: there is a tokenizer.
  void check(sw::Index vocabulary, const KnownIds& known, bool has_text) const {
    GenerationRequest::check(vocabulary, known);
    check_stops(has_text);
  }
  void check_stops(bool has_text) const {
    for (const std::string& stop : stops) {
      if (stop.empty()) throw std::invalid_argument("a text that ends texts is empty");
      if (!has_text)
        throw std::invalid_argument("without a tokenizer, no text ends a text: \"" + stop + "\"");
    }
  }
};

/// As `GenerationEnd`, and `text`: with a text that ends it.
enum class TextEnd { none, token, length, failed, text };

struct NewToken {
  std::size_t request;  ///< the number that `add` returned
  std::int32_t id;
  std::string text;            ///< the text that this token adds, see `TextStream`; or why the text failed
  TextEnd end;                 ///< why the text ends with this token, if it does
  double log_probability = 0;  ///< before the sampling options
  std::vector<sw::llm::TokenProbability> most_probable{};
};

}  // namespace tools
