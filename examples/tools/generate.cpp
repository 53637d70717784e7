// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// Writes text with a Llama whose weights are in Hugging Face's form: those of `train --export`, or anybody's.

#include <csignal>

#include <shardwise/comm/environment.hpp>

#include "generate_text.hpp"
#include "options.hpp"
#include "watchdog.hpp"

namespace {

using namespace tools;

void add_options(CLI::App& app, TextOptions& text) {
  app.add_option("--weights", text.weights,
                 "a folder: config.json, model.safetensors, tokenizer.json if it has one")
      ->required();
  auto* prompt = app.add_option("--prompt", text.prompt, "how the text begins");
  app.add_option("--tokens", text.tokens, "how it begins: a file of token ids")->excludes(prompt);
  add_count(app, "--pp", text.pp, "stages, which have different layers; the ranks of each split these");
  app.add_option("--new-tokens", text.new_tokens, "to write")->check(CLI::Range(0, 1 << 24));
  app.add_option("--temperature", text.sampling.temperature, "0 takes the likeliest token")
      ->check(CLI::NonNegativeNumber);
  add_whole<sw::Index>(app, "--top-k", text.sampling.top_k,
                       "choose among the k likeliest tokens; 0: among all");
  app.add_option("--top-p", text.sampling.top_p,
                 "and among the likeliest that have this probability together")
      ->check(CLI::Range(1e-9, 1.0));
  app.add_option("--dump-logits", text.dump_logits, "a safetensors file for the logits of the prompt");
  add_whole<std::uint64_t>(app, "--seed", text.seed, "of what is drawn");
}

}  // namespace

int main(int argc, char** argv) {
  std::signal(SIGXFSZ, SIG_IGN);  // so that a limit on the size of files is an error with a name
  return sw::run(argc, argv, [&] {
    TextOptions text;
    CLI::App app("Writes text with a Llama that is split over all ranks.", "shardwise-generate");
    app.option_defaults()->always_capture_default();
    add_options(app, text);
    double timeout = 600;
    add_timeout(app, timeout);
    if (auto code = parse(app, argc, argv)) return *code;
    const auto watched = watchdog(timeout);
    write_text(text);
    return after_output(0);
  });
}
