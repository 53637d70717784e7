// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// Generates text with a Llama in Hugging Face's format, such as from `train --export`.

#include <csignal>

#include "../common/model_in.hpp"
#include "../common/options.hpp"
#include "../common/programs.hpp"
#include "../common/watchdog.hpp"
#include "generate_text.hpp"

namespace tools {

namespace {

void add_options(CLI::App& app, TextOptions& text) {
  app.add_option(
         "--weights", text.weights,
         "a folder with config.json, model.safetensors and optionally tokenizer.json; or a file, MODEL.gguf")
      ->transform(model_in)
      ->required();
  auto* prompt = app.add_option("--prompt", text.prompt, "the text to continue");
  auto* tokens =
      app.add_option("--tokens", text.tokens, "a file of token ids to continue, instead of --prompt")
          ->excludes(prompt);
  auto* prompts = app.add_option("--prompts", text.prompts,
                                 "continue many prompts, each a line of this file of JSON lines")
                      ->excludes(prompt)
                      ->excludes(tokens);
  app.add_option("--to", text.to, "write the texts of --prompts to this file, not to the standard output")
      ->needs(prompts);
  add_count(app, "--rows", text.rows, "how many texts of --prompts are written at once")->needs(prompts);
  app.add_flag("--chat", text.chat, "a dialogue on the terminal, by the model's chat template")
      ->excludes(prompt)
      ->excludes(tokens)
      ->excludes(prompts);
  add_split(app, text.pp, text.weight_bits);
  app.add_option("--new-tokens", text.new_tokens, "number of tokens to generate")
      ->check(CLI::Range(0, 1 << 24));
  app.add_option("--temperature", text.sampling.temperature,
                 "sampling temperature; 0: always the most likely token")
      ->check(CLI::NonNegativeNumber);
  add_whole<sw::Index>(app, "--top-k", text.sampling.top_k,
                       "sample from the k most likely tokens; 0: from all");
  app.add_option("--top-p", text.sampling.top_p,
                 "sample from the most likely tokens that reach this total probability")
      ->check(CLI::Range(1e-9, 1.0));
  app.add_option("--min-p", text.sampling.min_p,
                 "sample from the tokens with at least this part of the greatest probability; 0: from all")
      ->check(CLI::Range(0.0, 1.0));
  app.add_option("--repetition-penalty", text.repetition_penalty,
                 "divides the positive logits of the tokens so far, multiplies the negative ones; 1: none")
      ->check(CLI::Range(1e-9, 1e9));
  app.add_option("--stop", text.stops, "end a text before this text; may be given several times")
      ->allow_extra_args(false);
  app.add_option("--dump-logits", text.dump_logits, "write the logits of the prompt to this safetensors file")
      ->check([](const std::string& path) {
        return path.ends_with(".safetensors") ? "" : path + ", expected a name that ends in .safetensors";
      })
      ->excludes("--prompts")
      ->excludes("--chat");
  add_whole<std::uint64_t>(app, "--seed", text.seed, "seed of the sampling");
}

}  // namespace

int generate_program(int argc, char** argv, const Start& start) {
  std::signal(SIGXFSZ, SIG_IGN);  // so that a file-size limit is an error with a file name
  TextOptions text;
  CommandLine app("Generates text with a Llama that is split over all ranks.", "shardwise-generate");
  add_options(app, text);
  double timeout = 600;
  add_timeout(app, timeout);
  if (const auto code = app.answer_without_mpi(argc, argv)) return *code;
  return start(argc, argv, [&] {
    if (auto code = parse(app, argc, argv)) return *code;
    if (text.chat && app.count("--timeout") == 0) timeout = 0;  // ranks wait for what a person writes
    const auto watched = watchdog(timeout);
    return after_output(write_text(text) ? 0 : 1);
  });
}

}  // namespace tools
