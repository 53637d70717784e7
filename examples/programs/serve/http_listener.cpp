// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

#include "http_listener.hpp"

#include <array>
#include <atomic>
#include <list>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>

#include "start_thread.hpp"

namespace tools {

namespace {

namespace net = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
using net::ip::tcp;
using Error = beast::error_code;

constexpr std::size_t piece = 64 << 10;        // bytes of an answer that are sent at once
constexpr int kernel_bytes = 128 << 10;        // that wait in a socket, each way
constexpr std::size_t most_ignored = 1 << 20;  // bytes that a refused client still sends
constexpr std::chrono::seconds farewell{1};    // in which it may send them

class Connection;

/// Used in the listener's thread alone, except for what is atomic.
struct Connections {
  HttpLimits limits;
  HttpHandler& handler;
  std::atomic<std::size_t> body_bytes = 0;
  std::list<std::shared_ptr<Connection>>
      all{};  ///< those without a head of a request come first, the oldest at the front
  std::size_t without_head = 0;
  bool ends = false;
};

class Connection : public std::enable_shared_from_this<Connection> {
 public:
  Connection(tcp::socket socket, Connections& all) : stream_(std::move(socket)), all_(all) {}

  void start() {
    place_ = all_.all.insert(all_.all.end(), shared_from_this());
    Error ignored;
    stream_.socket().set_option(tcp::no_delay(true), ignored);
    read_head();
  }

  // ---- For replies, in the listener's thread ----
  void send(const HttpAnswer& answer) {
    begin(answer, false);
    end();
  }
  void begin(const HttpAnswer& answer, bool in_chunks) {
    if (closed_) return;
    waits_ = false;
    closes_ = closes_ || all_.ends || !parser_->is_done() || (in_chunks && version_ < 11);
    chunks_ = in_chunks && version_ >= 11;
    std::string head = "HTTP/1.1 " + std::to_string(answer.status) + " ";
    head += std::string(http::obsolete_reason(static_cast<http::status>(answer.status))) + "\r\n";
    const auto add = [&](const std::string& name, const std::string& value) {
      head += name + ": " + value + "\r\n";
    };
    if (answer.status != 204) add("Content-Type", answer.content_type);
    if (chunks_) add("Transfer-Encoding", "chunked");
    if (!in_chunks && answer.status != 204) add("Content-Length", std::to_string(answer.body.size()));
    for (const auto& [name, value] : answer.fields) add(name, value);
    if (!origin_.empty()) {
      add("Access-Control-Allow-Origin", origin_);
      add("Vary", "Origin");
    }
    if (closes_) {
      add("Connection", "close");
    } else if (version_ < 11) {
      add("Connection", "keep-alive");
    }
    push(head + "\r\n" + (only_head_ ? "" : answer.body));
  }
  void write(const std::string& some) {
    if (some.empty() || only_head_) return;
    if (!chunks_) return push(some);
    std::array<char, 32> size{};
    std::snprintf(size.data(), size.size(), "%zx\r\n", some.size());
    push(size.data() + some + "\r\n");
  }
  void end() {
    if (chunks_) push("0\r\n\r\n");
    complete_ = true;
    write_some();
  }
  void release_body() { all_.body_bytes -= body_bytes_.exchange(0); }
  bool gone() const { return closed_; }

  void close() {
    if (closed_.exchange(true)) return;
    stream_.close();
    release_body();
    held_.reset();
    leave_front();
    all_.all.erase(place_);
  }
  /// After the answer that is being sent, if there is one; `close` if the client is not waiting for an answer.
  void close_soon() {
    closes_ = true;
    if (!parser_ || without_head_) close();
  }

  /// Calls f(), and closes the connection if it throws.
  void guarded(auto f) {
    try {
      f();
    } catch (...) {  // for example std::bad_alloc
      close();
    }
  }
  auto executor() { return stream_.get_executor(); }

 private:
  auto then(auto method) {
    return [self = shared_from_this(), method](const Error& error, std::size_t) {
      self->guarded([&] { (self.get()->*method)(error); });
    };
  }

  void read_head() {
    parser_.emplace();
    parser_->header_limit(static_cast<std::uint32_t>(all_.limits.head));
    parser_->body_limit(all_.limits.body);
    parser_->eager(true);
    closes_ = complete_ = chunks_ = only_head_ = false;
    origin_.clear();
    without_head_ = true;
    const auto first_with = std::next(all_.all.begin(), static_cast<std::ptrdiff_t>(all_.without_head));
    all_.all.splice(first_with, all_.all, place_);
    ++all_.without_head;
    stream_.expires_after(all_.limits.patience);
    http::async_read_header(stream_, buffer_, *parser_, then(&Connection::on_head));
  }
  void leave_front() {
    if (!std::exchange(without_head_, false)) return;
    --all_.without_head;
    all_.all.splice(all_.all.end(), all_.all, place_);
  }
  void on_head(const Error& error) {
    if (closed_) return;
    leave_front();
    if (error) return fail(error);
    const auto& message = parser_->get();
    const auto field = [&](http::field name) { return std::string(message[name]); };
    version_ = message.version();
    closes_ = !message.keep_alive();
    only_head_ = message.method() == http::verb::head;
    HttpHead head{.method = only_head_ ? "GET" : std::string(message.method_string()),
                  .path = std::string(message.target().substr(0, message.target().find('?'))),
                  .host = field(http::field::host),
                  .origin = field(http::field::origin),
                  .authorization = field(http::field::authorization),
                  .content_type = field(http::field::content_type),
                  .content_encoding = field(http::field::content_encoding)};
    const auto refusal = all_.handler.refuse(head);
    if (!refusal || refusal->status != 403) origin_ = head.origin;
    if (refusal) return send(*refusal);
    head_ = std::move(head);
    if (parser_->is_done()) return take();
    stream_.expires_after(all_.limits.patience);  // for all of the body
    if (beast::iequals(message[http::field::expect], "100-continue")) {
      static constexpr std::string_view proceed = "HTTP/1.1 100 Continue\r\n\r\n";
      return net::async_write(stream_, net::buffer(proceed), then(&Connection::read_body));
    }
    read_body(Error());
  }
  void read_body(const Error& error) {
    if (error) return fail(error);
    http::async_read_some(stream_, buffer_, *parser_, then(&Connection::on_body));
  }
  void on_body(const Error& error) {
    if (closed_) return;
    if (error) return fail(error);
    const std::size_t bytes = parser_->get().body().size();
    all_.body_bytes += bytes - body_bytes_.exchange(bytes);
    if (all_.body_bytes > all_.limits.bodies) {
      release_body();
      return send(all_.handler.error(503, "too many large requests are arriving"));
    }
    parser_->is_done() ? take() : read_body(Error());
  }
  void take();

  /// Notices that the client closes its side while it waits for an answer.
  void watch() {
    if (std::exchange(watches_, true)) return;
    stream_.socket().async_wait(tcp::socket::wait_read, [self = shared_from_this()](const Error& error) {
      self->watches_ = false;
      if (error || self->closed_ || !self->waits_) return;
      char byte = 0;
      Error ended;
      self->stream_.socket().receive(net::buffer(&byte, 1), tcp::socket::message_peek, ended);
      if (ended) self->close();
    });
  }

  void fail(const Error& error) {
    static const auto& of_http = http::make_error_code(http::error::bad_method).category();
    const bool overflow = error == http::error::buffer_overflow || error == http::error::header_limit;
    if (error == http::error::end_of_stream || error.category() != of_http) return close();
    closes_ = true;
    const int status = error == http::error::body_limit ? 413 : overflow ? 431 : 400;
    send(all_.handler.error(status, status == 413   ? "the body is too large"
                                    : status == 431 ? "the request's head is too large"
                                                    : "the request cannot be read: " + error.message()));
  }

  void push(std::string_view bytes) {
    if (closed_) return;
    if (unsent_.size() + bytes.size() > all_.limits.unsent) return close();
    unsent_ += bytes;
    write_some();
  }
  void write_some() {
    if (closed_ || !sent_now_.empty()) return;
    if (unsent_.empty()) return complete_ ? finish() : void();
    const std::size_t bytes = std::min(piece, unsent_.size());
    sent_now_ = bytes == unsent_.size() ? std::exchange(unsent_, {}) : unsent_.substr(0, bytes);
    if (!unsent_.empty()) unsent_.erase(0, bytes);
    stream_.expires_after(all_.limits.patience);
    net::async_write(stream_, net::buffer(sent_now_), then(&Connection::on_written));
  }
  void on_written(const Error& error) {
    if (error) return close();
    sent_now_.clear();
    write_some();
  }
  /// The answer is sent.
  void finish() {
    complete_ = false;
    release_body();
    held_.reset();
    if (!closes_ && !all_.ends) return read_head();
    // To close a socket with unread bytes would reset the connection, and the client might lose the answer.
    Error error;
    stream_.socket().shutdown(tcp::socket::shutdown_send, error);
    if (error) return close();
    stream_.expires_after(farewell);
    ignore(Error());
  }
  void ignore(const Error& error) {
    ignored_ += piece;
    if (error || ignored_ > most_ignored) return close();
    sent_now_.resize(piece);
    stream_.async_read_some(net::buffer(sent_now_), then(&Connection::ignore));
  }

  beast::tcp_stream stream_;
  Connections& all_;
  std::list<std::shared_ptr<Connection>>::iterator place_;
  beast::flat_buffer buffer_{piece};
  std::optional<http::request_parser<http::string_body>> parser_;
  HttpHead head_;
  std::string origin_, unsent_, sent_now_;
  std::shared_ptr<void> held_;
  std::atomic<std::size_t> body_bytes_ = 0;
  std::size_t ignored_ = 0;
  unsigned version_ = 11;
  bool without_head_ = false, waits_ = false, watches_ = false;
  bool closes_ = false;  ///< after the answer
  bool only_head_ = false, chunks_ = false, complete_ = false;
  std::atomic<bool> closed_ = false;
};

class Reply final : public HttpReply {
 public:
  explicit Reply(std::shared_ptr<Connection> connection) : connection_(std::move(connection)) {}
  ~Reply() override {
    if (!complete_) post([](Connection& connection) { connection.close(); });
  }
  void send(HttpAnswer answer) override {
    complete_ = true;
    post([answer = std::move(answer)](Connection& connection) { connection.send(answer); });
  }
  void begin(HttpAnswer answer) override {
    post([answer = std::move(answer)](Connection& connection) { connection.begin(answer, true); });
  }
  void write(std::string some) override {
    post([some = std::move(some)](Connection& connection) { connection.write(some); });
  }
  void end() override {
    complete_ = true;
    post([](Connection& connection) { connection.end(); });
  }
  bool gone() const override { return connection_->gone(); }
  void release_body() override { connection_->release_body(); }

 private:
  void post(auto f) {
    net::post(connection_->executor(),
              [connection = connection_, f = std::move(f)] { connection->guarded([&] { f(*connection); }); });
  }
  std::shared_ptr<Connection> connection_;
  bool complete_ = false;
};

void Connection::take() {
  waits_ = true;
  stream_.expires_never();
  watch();
  held_ = all_.handler.take(std::move(head_), std::move(parser_->get().body()),
                            std::make_unique<Reply>(shared_from_this()));
}

}  // namespace

struct HttpListener::Parts {
  Parts(const std::string& host, int wanted, const HttpLimits& limits, HttpHandler& handler)
      : connections{.limits = limits, .handler = handler} {
    try {
      const auto found = tcp::resolver(io).resolve(host, std::to_string(wanted), tcp::resolver::passive);
      const tcp::endpoint where = found.begin()->endpoint();
      local = where.address().is_loopback();
      acceptor.open(where.protocol());
      acceptor.set_option(tcp::acceptor::reuse_address(true));
      acceptor.set_option(net::socket_base::send_buffer_size(kernel_bytes));  // those of connections, too
      acceptor.set_option(net::socket_base::receive_buffer_size(kernel_bytes));
      acceptor.bind(where);
      acceptor.listen(net::socket_base::max_listen_connections);
      port = acceptor.local_endpoint().port();
    } catch (const boost::system::system_error& error) {
      throw std::runtime_error("cannot listen on " + host + ", port " + std::to_string(wanted) +
                               ": the address is not this host's, or the port is in use or not allowed (" +
                               error.code().message() + ")");
    }
    accept();
  }
  ~Parts() {
    if (!thread.joinable()) return;
    net::post(io, [this] {
      connections.ends = true;
      Error ignored;
      acceptor.close(ignored);
      pause.cancel();
      for (const auto& each : std::list(connections.all)) each->close_soon();
      limit.expires_after(connections.limits.patience);
      limit.async_wait([this](const Error& error) {
        if (!error) io.stop();
      });
      wait_for_last();
    });
    thread.join();
  }
  void wait_for_last() {
    if (connections.all.empty()) return io.stop();
    pause.expires_after(std::chrono::milliseconds(10));
    pause.async_wait([this](const Error&) { wait_for_last(); });
  }

  void accept() {
    acceptor.async_accept([this](const Error& error, tcp::socket socket) {
      if (!acceptor.is_open()) return;
      auto& all = connections;
      if (error || all.all.size() >= all.limits.connections) {
        if (all.without_head > 0) {
          auto oldest = all.all.front();
          oldest->close();
        } else {
          Error ignored;
          socket.close(ignored);
        }
      }
      if (error) {  // such as too many open files
        pause.expires_after(std::chrono::milliseconds(100));
        return pause.async_wait([this](const Error& cancelled) {
          if (!cancelled) accept();
        });
      }
      if (socket.is_open()) {
        try {
          std::make_shared<Connection>(std::move(socket), all)->start();
        } catch (const std::bad_alloc&) {  // this client is dropped
        }
      }
      accept();
    });
  }

  net::io_context io{1};
  Connections connections;
  tcp::acceptor acceptor{io};
  net::steady_timer pause{io}, limit{io};
  bool local = false;
  int port = 0;
  std::jthread thread;
};

HttpListener::HttpListener(const std::string& host, int port, const HttpLimits& limits, HttpHandler& handler)
    : parts_(std::make_unique<Parts>(host, port, limits, handler)) {}
HttpListener::~HttpListener() = default;
void HttpListener::start() {
  parts_->thread = start_thread([this] { parts_->io.run(); });
}
int HttpListener::port() const { return parts_->port; }
bool HttpListener::is_local() const { return parts_->local; }

}  // namespace tools
