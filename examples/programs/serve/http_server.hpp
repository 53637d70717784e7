// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// OpenAI's routes over HTTP, on one rank.

#include <memory>
#include <string>

#include "openai_request.hpp"
#include "request_queue.hpp"

namespace tools {

struct HttpOptions {
  std::string host = "127.0.0.1";
  int port = 8080;            ///< 0: one that is free
  std::string key;            ///< unless empty, what clients must send
  int threads = 32;           ///< requests that are read or answered at once
  sw::Index max_body = 8;     ///< MiB
  int client_timeout = 10;    ///< seconds that a client may take to send or receive more
  int request_timeout = 600;  ///< seconds for a request to be answered
};

/// Listens from its construction to its end, in threads of its own. In the end, requests that are under way fail, and
/// clients have `client_timeout` to read what there is for them.
class HttpServer {
 public:
  /// Throws `std::runtime_error` if it cannot listen. The model and the queue must live longer.
  HttpServer(const HttpOptions& options, const ServedModel& model, RequestQueue& queue);
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;

  int port() const;

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace tools
