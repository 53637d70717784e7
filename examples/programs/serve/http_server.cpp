// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

#include "http_server.hpp"

#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <ctime>
#include <filesystem>
#include <mutex>
#include <random>
#include <thread>

#include <httplib.h>
#include <poll.h>

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

/// The host and the port, as numbers, of this side of a socket (`get`: getsockname) or of the other one (getpeername);
/// empty if it is not a socket of IP.
std::pair<std::string, int> address_of(int socket, auto get) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  auto* const any = reinterpret_cast<sockaddr*>(&address);
  std::array<char, NI_MAXHOST> host{};
  std::array<char, NI_MAXSERV> port{};
  if (get(socket, any, &size) != 0 || (any->sa_family != AF_INET && any->sa_family != AF_INET6) ||
      ::getnameinfo(any, size, host.data(), host.size(), port.data(), port.size(),
                    NI_NUMERICHOST | NI_NUMERICSERV) != 0)
    return {};
  return {host.data(), std::atoi(port.data())};
}

/// Calls f(socket) for the open files of this process, until it returns true.
void for_each_socket(auto f) {
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd", ignored)) {
    if (f(std::atoi(entry.path().filename().c_str()))) return;
  }
}

/// The socket of a request's client, which httplib does not give; -1 if it is not found.
int socket_of(const httplib::Request& http) {
  int found = -1;
  for_each_socket([&](int socket) {
    if (address_of(socket, ::getpeername) == std::pair(http.remote_addr, http.remote_port) &&
        address_of(socket, ::getsockname) == std::pair(http.local_addr, http.local_port))
      found = socket;
    return found >= 0;
  });
  return found;
}

/// Reads what a client still sends, for a second and a MiB at most: closing a socket with unread bytes would reset the
/// connection, and the client might lose the answer.
void end_gently(int socket) {
  if (socket < 0) return;
  ::shutdown(socket, SHUT_WR);
  std::array<char, 1 << 14> ignored;
  pollfd wanted{.fd = socket, .events = POLLIN, .revents = 0};
  for (int i = 0; i < 64 && ::poll(&wanted, 1, 1000) > 0; ++i) {
    if (::recv(socket, ignored.data(), ignored.size(), MSG_DONTWAIT) <= 0) return;
  }
}

/// Refuses a request whose body is not read. What follows on the connection would be taken for another request, so it
/// is closed: a provider that returns false has this effect.
void refuse_and_close(const httplib::Request& http, httplib::Response& response, const ApiError& error) {
  response.status = error.status;
  const std::string text = error.json();
  const int socket = socket_of(http);
  response.set_header("Connection", "close");
  response.set_content_provider(text.size(), "application/json",
                                [text, socket](std::size_t, std::size_t, httplib::DataSink& sink) {
                                  sink.write(text.data(), text.size());
                                  end_gently(socket);
                                  return false;
                                });
}

/// Whether the client has closed its side of the connection.
bool is_gone(int socket) {
  if (socket < 0) return false;
  char byte = 0;
  const ssize_t read = ::recv(socket, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
  return read == 0 || (read < 0 && errno != EAGAIN && errno != EINTR);
}

/// A request under way.
class Call {
 public:
  Call(const ServedModel& model, ServedRequest asked, std::string id, RequestQueue& queue,
       std::shared_ptr<Reply> reply, int socket, std::chrono::seconds time)
      : request_(std::move(asked)),
        answer_(model, request_, std::move(id), std::time(nullptr)),
        queue_(queue),
        reply_(std::move(reply)),
        socket_(socket),
        time_(time) {}
  Call(const Call&) = delete;
  ~Call() { queue_.cancel(reply_); }  // does nothing after its end

  /// The whole answer. Throws `ApiError` if there is none.
  std::string whole() {
    if (!run([](const std::string&) { return true; })) throw ApiError(499, "the client is gone");
    return answer_.whole();
  }
  /// Sends the answer as it is written. False if the client is gone.
  bool stream(httplib::DataSink& sink) {
    const auto send = [&](const std::string& json) {
      const std::string event = "data: " + json + "\n\n";
      return json.empty() || sink.write(event.data(), event.size());
    };
    const auto send_in_time = [&](const std::string& json) {
      check_time();  // a client may read slowly
      return send(json);
    };
    try {
      if (!send(answer_.first_event()) || !run(send_in_time)) return false;
      for (const std::string& json : answer_.last_events()) {
        if (!send_in_time(json)) return false;
      }
    } catch (const ApiError& error) {
      if (!send(error.json())) return false;
    } catch (const std::exception& error) {
      if (!send(ApiError(500, error.what(), "server_error").json())) return false;
    }
    sink.done();
    return true;
  }

 private:
  /// Calls send(event) until the end of the text; false if the client is gone.
  bool run(auto send) {
    for (;;) {
      const Reply::Next next = reply_->wait(pause);
      for (const NewToken& token : next.tokens) {
        if (!send(answer_.add(token))) return false;
      }
      if (answer_.complete()) return true;
      if (!next.failure.empty()) throw ApiError(503, next.failure, "server_error");
      if (is_gone(socket_)) return false;
      check_time();
    }
  }
  void check_time() const {
    if (std::chrono::steady_clock::now() - begin_ <= time_) return;
    throw ApiError(
        504, "the answer takes more than the " + std::to_string(time_.count()) + " s that the server allows",
        "timeout");
  }

  ServedRequest request_;
  Answer answer_;
  RequestQueue& queue_;
  std::shared_ptr<Reply> reply_;
  int socket_;
  std::chrono::seconds time_;
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

}  // namespace

struct HttpServer::Parts {
  Parts(const HttpOptions& given, const ServedModel& served, RequestQueue& requests)
      : options(given), model(served), queue(requests) {}

  void answer(bool chat, const httplib::Request& http, httplib::Response& response) {
    const std::uint64_t seed = draw();
    ServedRequest request = parse_request(chat, http.body, model, seed);
    std::shared_ptr<Reply> reply = queue.submit(request.text);
    if (!reply && queue.ends()) throw ApiError(503, "the server ends", "server_error");
    if (!reply) {
      response.set_header("Retry-After", "1");
      throw ApiError(429, "too many requests are waiting", "requests", "", "rate_limit_exceeded");
    }
    const bool stream = request.stream;
    const std::string id = (chat ? "chatcmpl-" : "cmpl-") + std::to_string(seed);
    const auto call = std::make_shared<Call>(model, std::move(request), id, queue, std::move(reply),
                                             socket_of(http), std::chrono::seconds(options.request_timeout));
    if (!stream) return response.set_content(call->whole(), "application/json");
    // One call sends everything: at its end, the server does not call providers again.
    response.set_chunked_content_provider(
        "text/event-stream", [call](std::size_t, httplib::DataSink& sink) { return call->stream(sink); });
  }
  std::uint64_t draw() {
    const std::lock_guard lock(mutex);
    return random() >> 1;  // as large as a seed can be
  }
  bool has_key(const httplib::Request& http) const {
    return options.key.empty() || same_text(http.get_header_value("Authorization"), "Bearer " + options.key);
  }
  /// A handler whose errors are JSON.
  static auto guarded(auto f) {
    return [f](const httplib::Request& http, httplib::Response& response) {
      try {
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
      if (response.has_header("Content-Type")) return;  // it has an answer
      const std::string what = response.status == 404   ? "there is no " + http.method + " " + http.path
                               : response.status == 413 ? "the body is too large"
                                                        : "the request cannot be read";
      refuse(response, ApiError(response.status, what));
    });
  }
  /// Bodies whose size is not known before they are read have no limit in httplib, so they are refused; and bodies from
  /// clients without the key.
  void refuse_before_reading() {
    server.set_pre_routing_handler([this](const httplib::Request& http, httplib::Response& response) {
      if (http.path != "/health" && !has_key(http)) {
        refuse_and_close(
            http, response,
            ApiError(401, "the API key is missing or wrong", "invalid_request_error", "", "invalid_api_key"));
      } else if (http.has_header("Transfer-Encoding")) {
        refuse_and_close(http, response,
                         ApiError(411, "the request has a Transfer-Encoding; expected Content-Length"));
      } else if (http.has_header("Content-Encoding")) {
        refuse_and_close(http, response,
                         ApiError(415, "the request has a Content-Encoding; expected plain JSON"));
      } else {
        return httplib::Server::HandlerResponse::Unhandled;
      }
      return httplib::Server::HandlerResponse::Handled;
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
    server.set_keep_alive_timeout(1);                    // a connection holds a thread
    server.set_socket_options([this](socket_t socket) {  // httplib's own let two servers share a port
      const int yes = 1;
      ::setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
      listening = socket;
    });
    refuse_before_reading();
    add_routes();
    port = options.port;
    if (port == 0) port = server.bind_to_any_port(options.host);
    if (port < 0 || (options.port != 0 && !server.bind_to_port(options.host, port))) {
      throw std::runtime_error("cannot listen on " + options.host + ", port " + std::to_string(options.port) +
                               ": the address is not this host's, or the port is in use or not allowed");
    }
    ::listen(listening, 128);  // more clients at once than httplib lets wait
    thread = std::thread([this] {
      server.listen_after_bind();
      ended = true;
    });
    while (!server.is_running() && !ended) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }

  HttpOptions options;
  const ServedModel& model;
  RequestQueue& queue;
  httplib::Server server;
  std::mutex mutex;
  std::mt19937_64 random{std::random_device()()};
  std::int64_t started = std::time(nullptr);
  int port = 0;
  socket_t listening = INVALID_SOCKET;
  std::atomic<bool> ended = false;
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
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(parts_->options.client_timeout);
  while (!parts_->ended && std::chrono::steady_clock::now() < end) std::this_thread::sleep_for(pause / 10);
  if (!parts_->ended) {  // clients that read slowly
    for_each_socket([&](int socket) {
      if (address_of(socket, ::getsockname).second == parts_->port) ::shutdown(socket, SHUT_RDWR);
      return false;
    });
  }
  parts_->thread.join();
}
int HttpServer::port() const { return parts_->port; }

}  // namespace tools
