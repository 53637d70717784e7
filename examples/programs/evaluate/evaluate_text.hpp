// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Perplexity and multiple-choice questions.

#include <filesystem>
#include <optional>

namespace tools {

struct EvaluationOptions {
  std::filesystem::path weights, text, questions;
  std::optional<long> context;  ///< by default 2048, or that of the model if it is smaller
  int pp = 1, weight_bits = 32;
};

/// Prints, on rank 0, the perplexity on `text` and the accuracy on `questions`, as far as they are given. The text is
/// cut into windows of `context` tokens; the tokens of a window do not see those of the one before, and the first token
/// of the text is not predicted. The answer to a question is the choice that is most likely after the prompt; it is
/// counted a second time with the logarithm divided by the choice's bytes. Each accuracy has its standard error. Both
/// files must be the same on all ranks. Collective over the whole job. Throws `std::runtime_error` if nothing is given,
/// for a line that is not a question, for a model without a tokenizer, and for logits that are not finite.
void evaluate(const EvaluationOptions& options);

}  // namespace tools
