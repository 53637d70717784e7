// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

#include "http_server.hpp"

#include <algorithm>
#include <atomic>
#include <charconv>
#include <chrono>
#include <condition_variable>
#include <ctime>
#include <deque>
#include <map>
#include <mutex>
#include <random>

#include "http_listener.hpp"
#include "start_thread.hpp"

namespace tools {

namespace {

using OrderedJson = nlohmann::ordered_json;
using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds pause{100};  // between two looks whether clients are still there

HttpAnswer answer_of(const ApiError& error) {
  HttpAnswer answer{.status = error.status, .body = error.json()};
  if (error.status == 429) answer.fields.emplace_back("Retry-After", "1");
  return answer;
}
ApiError ending() { return {503, "the server ends", "server_error"}; }

/// In a time that does not depend on where they differ.
bool same_text(const std::string& a, const std::string& b) {
  unsigned difference = a.size() == b.size() ? 0 : 1;
  for (std::size_t i = 0; i < a.size(); ++i)
    difference |=
        static_cast<unsigned char>(a[i]) ^ static_cast<unsigned char>(b[b.empty() ? 0 : i % b.size()]);
  return difference == 0;
}

std::string in_small_letters(std::string_view text) {
  std::string result(text);
  for (char& letter : result) {
    if (letter >= 'A' && letter <= 'Z') letter = static_cast<char>(letter - 'A' + 'a');
  }
  return result;
}
/// "http://[::1]:80" and "[::1]:80" have the host "[::1]".
std::string host_of(std::string_view address) {
  if (const auto scheme = address.find("://"); scheme != address.npos) address.remove_prefix(scheme + 3);
  const auto bracket = address.find(']');
  return in_small_letters(address.substr(0, address.find(':', bracket == address.npos ? 0 : bracket)));
}

/// "a%2fb" is "a/b".
std::string unescaped(std::string_view path) {
  std::string text;
  for (std::size_t i = 0; i < path.size(); ++i) {
    unsigned char byte = 0;
    const char* const end = path.data() + std::min(i + 3, path.size());
    const bool escaped = path[i] == '%' && end - path.data() == static_cast<std::ptrdiff_t>(i + 3) &&
                         std::from_chars(path.data() + i + 1, end, byte, 16).ptr == end;
    text += escaped ? static_cast<char>(byte) : path[i];
    if (escaped) i += 2;
  }
  return text;
}

/// A request under way.
class Call {
 public:
  Call(const ServedModel& model, ServedRequest asked, std::string id, std::unique_ptr<HttpReply> reply,
       std::chrono::seconds time)
      : request_(std::move(asked)),
        answer_(model, request_, std::move(id), std::time(nullptr)),
        reply_(std::move(reply)),
        time_(time) {}
  Call(const Call&) = delete;

  void begin() {
    if (!request_.stream) return;
    reply_->begin({.content_type = "text/event-stream", .fields = {{"Cache-Control", "no-store"}}});
    write(answer_.first_event());
  }
  /// Throws `ApiError`, and what `Answer` throws.
  void add(const NewToken& token) {
    if (token.end == TextEnd::failed) throw ApiError(500, token.text, "server_error");
    write(answer_.add(token));
    if (!complete()) return;
    if (!request_.stream) return send_whole();
    for (const std::string& json : answer_.last_events()) write(json);
    reply_->end();
    ended_ = true;
  }
  void fail(const ApiError& error) {
    ended_ = true;
    if (!request_.stream) return reply_->send(answer_of(error));
    write(error.json());
    reply_->end();
  }
  bool ended() const { return ended_; }
  /// Whether the model has written its last token.
  bool complete() const { return answer_.complete(); }
  bool gone() const { return reply_->gone(); }
  void check_time() const {
    if (Clock::now() - begin_ <= time_) return;
    throw ApiError(
        504, "the answer takes more than the " + std::to_string(time_.count()) + " s that the server allows",
        "timeout");
  }

 private:
  void send_whole() {
    std::string body = answer_.whole();
    if (body.size() + (1 << 10) > HttpLimits().unsent)
      throw ApiError(500, "the answer has " + std::to_string(body.size()) + " bytes; use \"stream\": true");
    reply_->send({.body = std::move(body)});
    ended_ = true;
  }
  void write(const std::string& json) {
    if (!json.empty()) reply_->write("data: " + json + "\n\n");
  }

  ServedRequest request_;
  Answer answer_;
  std::unique_ptr<HttpReply> reply_;
  std::chrono::seconds time_;
  Clock::time_point begin_ = Clock::now();
  bool ended_ = false;
};

}  // namespace

/// The listener's thread refuses requests, and answers all that need no model. One thread reads the other bodies, so
/// that their tokens take no more than one core; one writes all answers.
struct HttpServer::Parts final : HttpHandler {
  Parts(const HttpOptions& given, const ServedModel& served, RequestQueue& requests,
        std::function<std::string()> says)
      : options(given),
        model(served),
        queue(requests),
        problem(std::move(says)),
        listener(given.host, given.port, limits(given), *this) {
    checks_host = listener.is_local() || !options.allowed_hosts.empty();
    for (std::string& host : options.allowed_hosts) host = host_of(host);
    options.allowed_hosts.insert(options.allowed_hosts.end(),
                                 {"localhost", "127.0.0.1", "[::1]", options.host});
    reader = start_thread([this](const std::stop_token& stop) { read_bodies(stop); });
    writer = start_thread([this](const std::stop_token& stop) { write_answers(stop); });
    listener.start();
  }
  static HttpLimits limits(const HttpOptions& options) {
    HttpLimits limits;
    limits.body = static_cast<std::size_t>(options.max_body) << 20;
    limits.bodies = 8 * limits.body;
    limits.connections = static_cast<std::size_t>(options.requests) + 256;
    limits.patience = std::chrono::seconds(options.client_timeout);
    return limits;
  }

  // ---- In the listener's thread ----
  HttpAnswer error(int status, const std::string& why) override {
    return answer_of(ApiError(status, why, status < 500 ? "invalid_request_error" : "server_error"));
  }
  std::optional<HttpAnswer> refuse(const HttpHead& head) override {
    try {
      check(head);
      return std::nullopt;
    } catch (const ApiError& error) {
      return answer_of(error);
    }
  }
  void check(const HttpHead& head) const {
    check_origin(head);
    if (head.method == "OPTIONS") return;  // browsers send no key with it
    if (head.path != "/health" && !has_key(head))
      throw ApiError(401, "the API key is missing or wrong", "invalid_request_error", "", "invalid_api_key");
    if (!head.content_encoding.empty())
      throw ApiError(415, "the request has a Content-Encoding; expected plain JSON");
    const bool asks_for_text = head.path == completions || head.path == chat_completions;
    const bool reads = head.path == "/health" || head.path.starts_with(models);
    if (head.method != (asks_for_text ? "POST" : "GET") || !(asks_for_text || reads))
      throw ApiError(404, "there is no " + head.method + " " + head.path);
    const std::string type =
        in_small_letters(head.content_type.substr(0, head.content_type.find_first_of("; ")));
    if (asks_for_text && type != "application/json")
      throw ApiError(
          415, "the body has the Content-Type \"" + head.content_type + "\"; expected application/json");
  }
  /// A web page must not use the server that its reader may use, neither from its own origin nor by its own name for
  /// this host.
  void check_origin(const HttpHead& head) const {
    const auto allowed = [&](const std::string& host) {
      return std::ranges::count(options.allowed_hosts, host) > 0;
    };
    const std::string host = host_of(head.host), origin = host_of(head.origin);
    if (checks_host && !head.host.empty() && !allowed(host))
      throw ApiError(403, "the Host \"" + head.host + "\" is not one that --allow-host names");
    if (!head.origin.empty() && origin != host && !allowed(origin))
      throw ApiError(403, "the Origin \"" + head.origin + "\" is not one that --allow-host names");
  }
  bool has_key(const HttpHead& head) const {
    return options.key.empty() || same_text(head.authorization, "Bearer " + options.key);
  }
  std::shared_ptr<void> take(HttpHead head, std::string body, std::unique_ptr<HttpReply> reply) override {
    if (head.method == "OPTIONS") {
      reply->send({.status = 204,
                   .fields = {{"Access-Control-Allow-Methods", "GET, POST"},
                              {"Access-Control-Allow-Headers", "Authorization, Content-Type, *"}}});
    } else if (head.method == "GET") {
      reply->send(head.path == "/health" ? health() : listed(head.path));
    } else if (queue.ends()) {
      reply->send(answer_of(ending()));
    } else if (open_requests >= options.requests) {
      reply->send(
          answer_of(ApiError(429, "too many requests are waiting", "requests", "", "rate_limit_exceeded")));
    } else {
      ++open_requests;
      std::shared_ptr<void> place(&open_requests, [](std::atomic<int>* number) { --*number; });
      const std::lock_guard lock(mutex);
      bodies.push_back({head.path == chat_completions, std::move(body), std::move(reply)});
      bodies_changed.notify_one();
      return place;
    }
    return nullptr;
  }
  HttpAnswer health() const {
    const std::string status = queue.ends() ? "ending" : problem();
    const OrderedJson json{{"status", status.empty() ? "ok" : status}};
    return {.status = status.empty() ? 200 : 503, .body = json.dump()};
  }
  HttpAnswer listed(const std::string& path) const {
    const OrderedJson own{
        {"id", model.name}, {"object", "model"}, {"created", started}, {"owned_by", "shardwise"}};
    if (path == models) {
      return {.body = OrderedJson{{"object", "list"}, {"data", OrderedJson::array({own})}}.dump()};
    }
    const std::string name = unescaped(path.substr(models.size()));
    if (name == "/" + model.name) return {.body = own.dump()};
    return answer_of(ApiError(404, "this server has the model \"" + model.name + "\", not this one",
                              "invalid_request_error", "model", "model_not_found"));
  }

  // ---- In threads of their own ----
  struct Body {
    bool chat;
    std::string text;
    std::unique_ptr<HttpReply> reply;
  };
  void read_bodies(const std::stop_token& stop) {
    for (std::unique_lock lock(mutex);;) {
      if (!bodies_changed.wait(lock, stop, [&] { return !bodies.empty(); })) return;
      Body body = std::move(bodies.front());
      bodies.pop_front();
      lock.unlock();
      if (!body.reply->gone()) read(std::move(body));
      lock.lock();
    }
  }
  void read(Body body) {
    try {
      const std::uint64_t seed = random() >> 1;  // as large as a seed can be
      ServedRequest request = parse_request(body.chat, body.text, model, seed);
      body.text = {};
      body.reply->release_body();
      TextRequest text = request.text;
      const std::string id = (body.chat ? "chatcmpl-" : "cmpl-") + std::to_string(seed);
      auto call = std::make_unique<Call>(model, std::move(request), id, std::move(body.reply),
                                         std::chrono::seconds(options.request_timeout));
      const std::lock_guard lock(mutex);
      const auto number = queue.submit(std::move(text));
      if (!number) return call->fail(ending());
      call->begin();
      calls.emplace(*number, std::move(call));
    } catch (const ApiError& error) {
      if (body.reply) body.reply->send(answer_of(error));
    } catch (const std::exception& error) {
      if (body.reply) body.reply->send(answer_of(ApiError(500, error.what(), "server_error")));
    }
  }
  void write_answers(const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      const Results results = queue.wait_for_results(pause);
      const std::lock_guard lock(mutex);
      for (const NewToken& token : results.tokens) {
        if (const auto call = calls.find(token.request); call != calls.end())
          guarded(*call->second, [&] { call->second->add(token); });
      }
      for (auto& [number, call] : calls) {
        if (call->ended()) continue;
        guarded(*call, [&, &one = *call] {
          if (!results.failure.empty()) throw ApiError(503, results.failure, "server_error");
          one.check_time();
        });
      }
      std::erase_if(calls, [&](const auto& each) {
        const auto& [number, call] = each;
        const bool ends = call->ended() || call->gone();
        if (ends && !call->complete()) queue.cancel(number);
        return ends;
      });
      if (!results.failure.empty() && results.tokens.empty()) std::this_thread::sleep_for(pause / 10);
    }
  }
  static void guarded(Call& call, auto f) {
    if (call.ended() || call.gone()) return;
    try {
      f();
    } catch (const ApiError& error) {
      call.fail(error);
    } catch (const std::exception& error) {
      call.fail(ApiError(500, error.what(), "server_error"));
    }
  }
  bool answered() {
    const std::lock_guard lock(mutex);
    return calls.empty() && bodies.empty();
  }

  static constexpr std::string_view completions = "/v1/completions",
                                    chat_completions = "/v1/chat/completions", models = "/v1/models";
  HttpOptions options;
  const ServedModel& model;
  RequestQueue& queue;
  std::function<std::string()> problem;
  std::mt19937_64 random{std::random_device()()};
  std::int64_t started = std::time(nullptr);
  bool checks_host = true;
  std::atomic<int> open_requests = 0;
  HttpListener listener;
  std::mutex mutex;  ///< of what follows
  std::condition_variable_any bodies_changed;
  std::deque<Body> bodies;
  std::map<std::size_t, std::unique_ptr<Call>> calls;  ///< by the numbers of the queue
  std::jthread reader, writer;
};

HttpServer::HttpServer(const HttpOptions& options, const ServedModel& model, RequestQueue& queue,
                       std::function<std::string()> problem)
    : parts_(std::make_unique<Parts>(options, model, queue, std::move(problem))) {}
HttpServer::~HttpServer() {
  parts_->queue.end(true);
  parts_->queue.fail("the server ends");
  const auto end = Clock::now() + std::chrono::seconds(parts_->options.client_timeout);
  while (!parts_->answered() && Clock::now() < end) std::this_thread::sleep_for(pause / 10);
}
int HttpServer::port() const { return parts_->listener.port(); }

}  // namespace tools
