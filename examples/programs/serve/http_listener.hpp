// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// HTTP for clients that are strangers: a limit bounds everything that they can make this process hold or wait for.

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace tools {

struct HttpLimits {
  std::size_t head = 16 << 10;        ///< bytes of a request's head
  std::size_t body = 8 << 20;         ///< bytes of a request's body
  std::size_t bodies = 64 << 20;      ///< bytes of all bodies that have arrived and are still in use
  std::size_t unsent = 4 << 20;       ///< bytes of an answer that the client has not received
  std::size_t connections = 256;      ///< a further one replaces the oldest that has not sent a head
  std::chrono::seconds patience{10};  ///< for a whole head, a whole body, and for each 64 KiB of an answer
};

/// A request without its body.
struct HttpHead {
  std::string method, path;  ///< HEAD counts as GET; the path lacks what follows "?"
  std::string host, origin, authorization, content_type, content_encoding;
};

struct HttpAnswer {
  int status = 200;
  std::string body{};
  std::string content_type = "application/json";
  std::vector<std::pair<std::string, std::string>> fields{};  ///< of the head, besides
};

/// Answers one request, from any thread: with `send`, or with `begin`, `write` and `end`. One that is destroyed before
/// closes the connection.
class HttpReply {
 public:
  virtual ~HttpReply() = default;
  virtual void send(HttpAnswer answer) = 0;
  virtual void begin(HttpAnswer without_body) = 0;
  virtual void write(std::string some) = 0;
  virtual void end() = 0;
  /// Whether the client has closed its side, or has been dropped because it did not read.
  virtual bool gone() const = 0;
  /// The body no longer counts among `HttpLimits::bodies`.
  virtual void release_body() = 0;
};

/// Both functions run in the listener's thread, so they must return at once.
class HttpHandler {
 public:
  virtual ~HttpHandler() = default;
  /// Before the body is read: the answer to a request that is refused. Status 403 also denies the answer to a web page
  /// of another origin.
  virtual std::optional<HttpAnswer> refuse(const HttpHead& head) = 0;
  /// A complete request. `held` of the result lives until the answer is sent, or the client is gone.
  virtual std::shared_ptr<void> take(HttpHead head, std::string body, std::unique_ptr<HttpReply> reply) = 0;
  /// The answer to a request that breaks HTTP or a limit.
  virtual HttpAnswer error(int status, const std::string& why) = 0;
};

/// Clients can connect from its construction on; one thread serves them from `start` to the end. Then answers that are
/// complete have `patience` to reach their clients.
class HttpListener {
 public:
  /// Port 0: one that is free. Throws `std::runtime_error` if it cannot listen. The handler must live longer.
  HttpListener(const std::string& host, int port, const HttpLimits& limits, HttpHandler& handler);
  ~HttpListener();
  HttpListener(const HttpListener&) = delete;

  void start();
  int port() const;
  /// Whether only programs of this host can connect.
  bool is_local() const;

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace tools
