// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// A request for a sequence, and the tokens of the sequence, for `ContinuousBatch`.

#include <shardwise/llm/bodies.hpp>
#include <shardwise/llm/text/sampling.hpp>

namespace shardwise::llm {

/// The ids that a sequence may have: those below `end`, except the `holes`, in ascending order. A model may have logits
/// for ids that its tokenizer does not know.
struct KnownIds {
  Index end;
  std::vector<std::int32_t> holes{};

  /// Whether a sequence may have this id.
  bool contains(std::int32_t id) const {
    return id >= 0 && id < end && !std::ranges::binary_search(holes, id);
  }
  Index count() const { return end - std::ssize(holes); }
};

/// A sequence to be generated. Its tokens are a function of the model, the request and nothing else.
struct GenerationRequest {
  std::vector<std::int32_t> prompt;
  SamplingOptions sampling{};
  double repetition_penalty = 1;  ///< of the tokens of the prompt and of the sequence
  std::uint64_t seed = 1;
  Index new_tokens = 200;            ///< at most
  std::vector<std::int32_t> ends{};  ///< the first of these tokens ends the sequence
  /// How many of the most probable tokens are given beside each new one. Negative: none, and no log-probability of the
  /// new one either, which saves a pass over the logits.
  Index most_probable = 0;

  /// Throws `std::invalid_argument` for a request that no cache makes possible: the model's tokens are below
  /// `vocabulary`, and those that a prompt may have and that may be drawn are `known`.
  void check(Index vocabulary, const KnownIds& known) const;
};

/// Why a sequence ends: with a token that ends it, with its last token, or because its logits are not finite.
enum class GenerationEnd : std::uint8_t { none, token, length, failed };

/// A new token of a sequence. The id is -1 if the sequence has failed instead.
struct GeneratedToken {
  std::size_t request;   ///< the number that `add` returned
  std::size_t position;  ///< in the sequence, from 0 on
  std::int32_t id;
  GenerationEnd end = GenerationEnd::none;  ///< why the sequence ends with this token, if it does
  double log_probability = 0;               ///< natural, among the known ids, before the options
  std::vector<TokenProbability> most_probable{};
  std::string problem{};  ///< why the sequence has failed, if it has
};

#ifdef SHARDWISE_LLM_BODIES

SHARDWISE_INLINE void GenerationRequest::check(Index vocabulary, const KnownIds& known) const {
  if (prompt.empty()) throw std::invalid_argument("the prompt is empty, expected one token or more");
  for (const std::int32_t id : prompt) {
    if (id < 0 || id >= vocabulary)
      detail::fail({"the prompt has token ", id, ", but those of the model are 0 to ", vocabulary - 1});
    if (!known.contains(id))
      detail::fail({"the prompt has token ", id, ", for which the tokenizer has no text"});
  }
  if (new_tokens < 1) detail::fail({new_tokens, " new tokens: expected 1 or more"});
  check_sampling(sampling, static_cast<std::size_t>(known.end));
  penalize_repetition({}, {}, repetition_penalty);  // throws for a wrong one
}

#endif

}  // namespace shardwise::llm
