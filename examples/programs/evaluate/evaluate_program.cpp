// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// Measures a Llama in Hugging Face's format: its perplexity on a text, and its answers to multiple-choice questions.

#include "../common/model_in.hpp"
#include "../common/options.hpp"
#include "../common/programs.hpp"
#include "../common/watchdog.hpp"
#include "evaluate_text.hpp"

namespace tools {

namespace {

void add_options(CLI::App& app, EvaluationOptions& options) {
  app.add_option("--weights", options.weights,
                 "a folder with config.json, model.safetensors and tokenizer.json; or a file, MODEL.gguf")
      ->transform(model_in)
      ->required();
  app.add_option("--text", options.text, "a file of text, for the perplexity");
  app.add_option("--questions", options.questions,
                 "a file of questions, each a line of JSON with \"prompt\", \"choices\" and \"answer\"");
  add_count(app, "--context", options.context,
            "tokens of a window of the text; default: 2048, or fewer if config.json says so");
  add_split(app, options.pp, options.weight_bits);
}

}  // namespace

int evaluate_program(int argc, char** argv, const Start& start) {
  EvaluationOptions options;
  CommandLine app(
      "Measures the perplexity of a Llama, split over all ranks, on a text, and its answers to questions "
      "with choices.",
      "shardwise-evaluate");
  add_options(app, options);
  double timeout = 600;
  add_timeout(app, timeout);
  if (const auto code = app.answer_without_mpi(argc, argv)) return *code;
  return start(argc, argv, [&] {
    if (auto code = parse(app, argc, argv)) return *code;
    const auto watched = watchdog(timeout);
    evaluate(options);
    return after_output(0);
  });
}

}  // namespace tools
