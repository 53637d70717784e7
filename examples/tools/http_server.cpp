// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

#include "http_server.hpp"

#include <atomic>
#include <ctime>
#include <random>
#include <thread>

#ifndef CPPHTTPLIB_LISTEN_BACKLOG
#define CPPHTTPLIB_LISTEN_BACKLOG 128
#endif
#include <httplib.h>

namespace tools {

namespace {

constexpr std::chrono::milliseconds pause{100};  // between two looks whether a client is still there

void refuse(httplib::Response& response, const ApiError& error) {
  response.status = error.status;
  response.set_content(error.json(), "application/json");
}

/// In a time that does not depend on where they differ.
bool same_text(const std::string& a, const std::string& b) {
  unsigned difference = a.size() == b.size() ? 0 : 1;
  for (std::size_t i = 0; i < a.size(); ++i)
    difference |=
        static_cast<unsigned char>(a[i]) ^ static_cast<unsigned char>(b[b.empty() ? 0 : i % b.size()]);
  return difference == 0;
}

/// A request under way, and what its thread sends.
struct Call {
  Call(const ServedModel& model, ServedRequest asked, std::string id, RequestQueue& all,
       std::shared_ptr<Reply> own)
      : request(std::move(asked)),
        answer(model, request, std::move(id), std::time(nullptr)),
        queue(all),
        reply(std::move(own)) {}
  Call(const Call&) = delete;
  ~Call() { queue.cancel(reply); }  // does nothing after its end

  /// Sends what there is; false if the client is gone or the server ends.
  bool send(httplib::DataSink& sink) {
    if (!begun) {
      begun = true;
      if (request.stream && !event(sink, answer.first_event())) return false;
    }
    const Reply::Next next = reply->wait(pause);
    for (const NewToken& token : next.tokens) {
      if (!event(sink, answer.add(token))) return false;
    }
    if (answer.complete()) return finish(sink);
    if (next.failure.empty()) return sink.is_writable();
    const std::string error = ApiError(503, next.failure, "server_error").json();
    if (request.stream ? event(sink, error) : write(sink, error)) sink.done();
    return true;
  }

 private:
  static bool write(httplib::DataSink& sink, const std::string& text) {
    return sink.is_writable() && sink.write(text.data(), text.size());
  }
  static bool event(httplib::DataSink& sink, const std::string& json) {
    return json.empty() || write(sink, "data: " + json + "\n\n");
  }
  bool finish(httplib::DataSink& sink) {
    if (request.stream) {
      for (const std::string& json : answer.last_events()) {
        if (!event(sink, json)) return false;
      }
    } else if (!write(sink, answer.whole())) {
      return false;
    }
    sink.done();
    return true;
  }

  ServedRequest request;
  Answer answer;
  RequestQueue& queue;
  std::shared_ptr<Reply> reply;
  bool begun = false;
};

}  // namespace

struct HttpServer::Parts {
  Parts(const HttpOptions& given, const ServedModel& served, RequestQueue& requests)
      : options(given), model(served), queue(requests) {}

  void answer(bool chat, const httplib::Request& http, httplib::Response& response) {
    const std::uint64_t seed = draw();
    ServedRequest request = parse_request(chat, http.body, model, seed);
    std::shared_ptr<Reply> reply = queue.submit({chat, seed, http.body});
    if (!reply && queue.ends()) throw ApiError(503, "the server ends", "server_error");
    if (!reply) {
      response.set_header("Retry-After", "1");
      throw ApiError(429, "too many requests are waiting", "requests", "", "rate_limit_exceeded");
    }
    const bool stream = request.stream;
    const std::string id = (chat ? "chatcmpl-" : "cmpl-") + std::to_string(seed);
    auto call = std::make_shared<Call>(model, std::move(request), id, queue, std::move(reply));
    response.set_chunked_content_provider(
        stream ? "text/event-stream" : "application/json",
        [call](std::size_t, httplib::DataSink& sink) { return call->send(sink); });
  }
  std::uint64_t draw() {
    const std::lock_guard lock(mutex);
    return random() >> 1;  // as large as a seed can be
  }
  void check_key(const httplib::Request& http) const {
    if (options.key.empty()) return;
    if (!same_text(http.get_header_value("Authorization"), "Bearer " + options.key))
      throw ApiError(401, "the API key is missing or wrong", "invalid_request_error", "", "invalid_api_key");
  }
  /// A handler whose errors are JSON.
  auto guarded(auto f) {
    return [this, f](const httplib::Request& http, httplib::Response& response) {
      try {
        check_key(http);
        f(http, response);
      } catch (const ApiError& error) {
        refuse(response, error);
      } catch (const std::exception& error) {
        refuse(response, ApiError(500, error.what(), "server_error"));
      }
    };
  }
  void add_routes() {
    for (const bool chat : {false, true}) {
      server.Post(chat ? "/v1/chat/completions" : "/v1/completions",
                  guarded([this, chat](const auto& http, auto& response) { answer(chat, http, response); }));
    }
    server.Get(
        "/v1/models", guarded([this](const auto&, auto& response) {
          const nlohmann::ordered_json own{
              {"id", model.name}, {"object", "model"}, {"created", started}, {"owned_by", "shardwise"}};
          const nlohmann::ordered_json list{{"object", "list"},
                                            {"data", nlohmann::ordered_json::array({own})}};
          response.set_content(list.dump(), "application/json");
        }));
    server.Get("/health", [this](const auto&, auto& response) {
      response.status = queue.ends() ? 503 : 200;
      response.set_content(queue.ends() ? R"({"status":"ending"})" : R"({"status":"ok"})",
                           "application/json");
    });
    server.set_error_handler([](const httplib::Request& http, httplib::Response& response) {
      if (!response.body.empty()) return;
      const std::string what = response.status == 404   ? "there is no " + http.method + " " + http.path
                               : response.status == 413 ? "the body is too large"
                                                        : "the request cannot be read";
      refuse(response, ApiError(response.status, what));
    });
  }
  void listen() {
    server.new_task_queue = [this] {
      return new httplib::ThreadPool(static_cast<std::size_t>(options.threads));
    };
    server.set_payload_max_length(static_cast<std::size_t>(options.max_body) << 20);
    server.set_read_timeout(options.client_timeout);
    server.set_write_timeout(options.client_timeout);
    server.set_tcp_nodelay(true);
    add_routes();
    port = options.port;
    if (port == 0) port = server.bind_to_any_port(options.host);
    if (port < 0 || (options.port != 0 && !server.bind_to_port(options.host, port))) {
      throw std::runtime_error("cannot listen on " + options.host + ", port " + std::to_string(options.port) +
                               ": the address is not this host's, or the port is in use or not allowed");
    }
    thread = std::thread([this] { server.listen_after_bind(); });
  }

  HttpOptions options;
  const ServedModel& model;
  RequestQueue& queue;
  httplib::Server server;
  std::mutex mutex;
  std::mt19937_64 random{std::random_device()()};
  std::int64_t started = std::time(nullptr);
  int port = 0;
  std::thread thread;
};

HttpServer::HttpServer(const HttpOptions& options, const ServedModel& model, RequestQueue& queue)
    : parts_(std::make_unique<Parts>(options, model, queue)) {
  parts_->listen();
}
HttpServer::~HttpServer() {
  parts_->queue.end(true);
  parts_->queue.fail("the server ends");
  parts_->server.stop();
  parts_->thread.join();
}
int HttpServer::port() const { return parts_->port; }

}  // namespace tools
