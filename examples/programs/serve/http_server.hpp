// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// OpenAI's routes over HTTP, on one rank.

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "openai_request.hpp"
#include "request_queue.hpp"

namespace tools {

struct HttpOptions {
  std::string host = "127.0.0.1";
  int port = 8080;                           ///< 0: one that is free
  std::string key{};                         ///< unless empty, what clients must send
  std::vector<std::string> allowed_hosts{};  ///< by which clients may call this server
  int requests = 72;                         ///< that are not answered completely, at most
  sw::Index max_body = 8;                    ///< MiB
  int client_timeout = 10;                   ///< seconds: `HttpLimits::patience`
  int request_timeout = 600;                 ///< seconds for a request to be answered
};

/// Listens from its construction to its end. In the end, requests that are under way fail, and clients have
/// `client_timeout` to read what there is for them.
class HttpServer {
 public:
  /// Throws `std::runtime_error` if it cannot listen. The model and the queue must live longer. `problem` says, from
  /// any thread and at once, what is wrong with the ranks; empty: nothing.
  HttpServer(const HttpOptions& options, const ServedModel& model, RequestQueue& queue,
             std::function<std::string()> problem);
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;

  int port() const;

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace tools
