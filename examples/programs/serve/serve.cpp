// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// Serves texts of a Llama that is split over all ranks, by OpenAI's routes. Rank 0 listens.

#include <shardwise/comm/environment.hpp>

#include <csignal>

#include "../common/model_in.hpp"
#include "../common/options.hpp"
#include "../common/watchdog.hpp"
#include "serve_text.hpp"

namespace {

using namespace tools;

void add_options(CLI::App& app, ServerOptions& options) {
  app.add_option("--weights", options.weights,
                 "a folder with config.json, model.safetensors and tokenizer.json; or a file, MODEL.gguf")
      ->transform(model_in)
      ->required();
  app.add_option("--host", options.http.host, "address to listen on; with 0.0.0.0, other hosts can connect");
  app.add_option("--port", options.http.port, "port to listen on; 0: one that is free")
      ->check(CLI::Range(0, 65535));
  app.add_option("--name", options.name,
                 "name of the model in requests; default: that of the folder or file");
  app.add_option(
         "--allow-host", options.http.allowed_hosts,
         "a name of this server in requests, or of a web page that may use it; may be given several times")
      ->allow_extra_args(false);
  add_count(app, "--rows", options.rows, "how many texts are written at once");
  add_count(app, "--queue", options.queue, "how many requests may wait for a row; more are refused");
  add_count(app, "--context", options.context,
            "tokens of a prompt and its text, at most; default: as config.json says");
  app.add_option("--max-body", options.http.max_body, "MiB of a request, at most")
      ->check(CLI::Range(1, 1 << 10));
  app.add_option("--client-timeout", options.http.client_timeout,
                 "seconds that a client may take to send a head, to send a body, and to receive 64 KiB")
      ->check(CLI::Range(1, 1 << 20));
  app.add_option("--request-timeout", options.http.request_timeout,
                 "seconds for an answer, from the arrival of its request on")
      ->check(CLI::Range(1, 1 << 20));
  app.add_option("--drain-timeout", options.drain_timeout,
                 "seconds for the texts that are being written when SIGTERM, SIGINT or SIGUSR1 arrives")
      ->check(CLI::Range(0, 1 << 20));
  add_split(app, options.pp, options.weight_bits);
}

}  // namespace

int main(int argc, char** argv) {
  std::signal(SIGPIPE, SIG_IGN);  // clients go away
  ServerOptions options;
  CommandLine app(
      "Serves texts of a Llama that is split over all ranks: OpenAI's /v1/completions, /v1/chat/completions "
      "and "
      "/v1/models over HTTP.",
      "shardwise-serve");
  add_options(app, options);
  double timeout = 600;
  add_timeout(app, timeout);
  if (const auto code = app.answer_without_mpi(argc, argv)) return *code;
  return sw::run(argc, argv, [&] {
    if (auto code = parse(app, argc, argv)) return *code;
    const auto watched = watchdog(timeout);
    serve(options);
    return 0;
  });
}
