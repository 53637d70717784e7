// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Error messages of the programs for wrong options, and safe output of texts from files.

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <limits>
#include <string>
#include <string_view>
#include <utility>

#include <shardwise/base/name.hpp>
#include <shardwise/base/text.hpp>

namespace tools {

/// The exit code of a program that ended with `code`: 1 if its output could not be written completely.
inline int after_output(int code) {
  const bool written = std::fflush(stdout) == 0 && std::ferror(stdout) == 0;
  if (!written) std::fprintf(stderr, "the standard output cannot be written\n");
  return written || code != 0 ? code : 1;
}

/// Names of options in other programs, and their names here; without "--", and with "-" for "_".
inline constexpr std::pair<std::string_view, std::string_view> other_names[]{
    {"lr", "rate"},
    {"learning-rate", "rate"},
    {"max-lr", "rate"},
    {"min-lr", "floor"},
    {"lr-schedule", "rate-schedule"},
    {"lr-scheduler-type", "rate-schedule"},
    {"lr-decay-style", "rate-schedule"},
    {"warmup-steps", "warmup"},
    {"lr-warmup-iters", "warmup"},
    {"wd", "weight-decay"},
    {"eps", "epsilon"},
    {"adam-epsilon", "epsilon"},
    {"adam-eps", "epsilon"},
    {"max-grad-norm", "clip"},
    {"grad-clip", "clip"},
    {"clip-grad", "clip"},
    {"bs", "batch"},
    {"batch-size", "batch"},
    {"global-batch-size", "batch"},
    {"gradient-accumulation-steps", "micro-batches"},
    {"grad-accum", "micro-batches"},
    {"iters", "steps"},
    {"train-iters", "steps"},
    {"max-steps", "steps"},
    {"num-train-epochs", "epochs"},
    {"num-epochs", "epochs"},
    {"seq-len", "context"},
    {"seq-length", "context"},
    {"max-seq-length", "context"},
    {"block-size", "context"},
    {"dim", "features"},
    {"hidden-size", "features"},
    {"d-model", "features"},
    {"n-embd", "features"},
    {"intermediate-size", "hidden"},
    {"ffn-hidden-size", "hidden"},
    {"num-layers", "layers"},
    {"num-hidden-layers", "layers"},
    {"n-layer", "layers"},
    {"num-attention-heads", "heads"},
    {"n-head", "heads"},
    {"num-key-value-heads", "kv-heads"},
    {"num-query-groups", "kv-heads"},
    {"tensor-parallel", "tp"},
    {"tensor-parallel-size", "tp"},
    {"tensor-model-parallel-size", "tp"},
    {"pipeline-parallel", "pp"},
    {"pipeline-parallel-size", "pp"},
    {"pipeline-model-parallel-size", "pp"},
    {"context-parallel", "cp"},
    {"context-parallel-size", "cp"},
    {"data-parallel", "dp"},
    {"data-parallel-size", "dp"},
    {"zero-stage", "zero"},
    {"gradient-checkpointing", "recompute"},
    {"activation-checkpointing", "recompute"},
    {"train-file", "data"},
    {"dataset", "data"},
    {"data-path", "data"},
    {"probabilities", "mix"},
    {"data-weights", "mix"},
    {"blend", "mix"},
    {"out-dir", "export"},
    {"output-dir", "export"},
    {"output", "export"},
    {"checkpoint-dir", "save"},
    {"save-dir", "save"},
    {"save-interval", "save-every"},
    {"save-steps", "save-every"},
    {"save-total-limit", "keep"},
    {"eval-interval", "evaluate-every"},
    {"eval-steps", "evaluate-every"},
    {"resume-from-checkpoint", "resume"},
    {"model-name-or-path", "from"},
    {"model-path", "from"},
    {"checkpoint", "save"},
    {"checkpoint", "weights"},
    {"model", "weights"},
    {"max-new-tokens", "new-tokens"},
    {"max-tokens", "new-tokens"},
    {"temp", "temperature"},
};

/// The option of `app` that `word` may mean: by its name in other programs, or by similar spelling; or nothing.
inline std::string meant_option(const CLI::App& app, std::string word) {
  word.erase(0, word.find_first_not_of('-'));
  word.erase(std::min(word.find('='), word.size()));
  std::replace(word.begin(), word.end(), '_', '-');
  std::string nearest;
  // Up to a third of the letters may be wrong, or two swapped. Among equals, a common first letter decides.
  const std::size_t most = word.size() > 3 ? std::clamp<std::size_t>(word.size() / 3, 2, 3) : 1;
  std::size_t least = 2 * most + 2;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) {
      for (const auto& [other, ours] : other_names) {
        if (other == word && ours == name) return name;
      }
      const std::size_t distance =
          2 * shardwise::detail::edit_distance(word, name) + (word.substr(0, 1) == name.substr(0, 1) ? 0 : 1);
      if (distance < least) nearest = name, least = distance;
    }
  }
  return nearest;
}

/// The message begins with the program's name, and suggests an option. The largest `double`, a bound with 300
/// digits, is omitted.
inline std::string option_error(const CLI::App* app, const CLI::Error& error) {
  std::string text = app->get_name() + ": " + error.what();
  const std::string unbounded = " to " + std::to_string(std::numeric_limits<double>::max());
  if (const std::size_t bound = text.find(unbounded); bound != text.npos) {
    text.replace(bound, unbounded.size(), " on");
    const std::size_t range = text.find(" not in range ");
    if (range != text.npos) text.replace(range, 14, " not in the range from ");
  }
  for (const std::string& word : app->remaining()) {
    if (!word.starts_with('-')) continue;  // a value
    const std::string meant = meant_option(*app, word);
    if (!meant.empty()) text += "; did you mean --" + meant + "?";
  }
  return text + "\nRun with --help for more information.\n";
}

/// A text from a file for a terminal, without control characters and limited in length.
inline std::string shown(std::string text) {
  constexpr std::size_t longest = 1000;
  if (text.size() > longest) text.replace(longest, text.npos, " …");
  return shardwise::detail::without_controls(std::move(text));
}

}  // namespace tools
