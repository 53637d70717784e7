// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Connections between jobs: TCP with IPv4. Everything has a limit of time; a peer that has sent and taken no byte for
/// so long is lost. Peers prove themselves by a token, a line of a file that only its owner can read. Data are not
/// encrypted.

#include <chrono>
#include <filesystem>
#include <memory>
#include <optional>

#include <shardwise/base/bodies.hpp>
#include <shardwise/base/text.hpp>

namespace shardwise::detail {

/// A peer does not respond, or not as it should. `peer`: the caller's number for it.
struct PeerLost : std::runtime_error {
  PeerLost(int who, const std::string& why) : std::runtime_error(why), peer(who) {}
  int peer;
};

/// A connection, or a listener. All errors are `PeerLost` of peer -1, unless stated otherwise.
class TcpSocket {
 public:
  TcpSocket() = default;
  TcpSocket(TcpSocket&& other) noexcept
      : file_(std::exchange(other.file_, -1)), rest_(std::move(other.rest_)) {}
  TcpSocket& operator=(TcpSocket&& other) noexcept {
    std::swap(file_, other.file_);
    rest_.swap(other.rest_);
    return *this;
  }
  ~TcpSocket();

  /// To "HOST:PORT". It fails at once if nothing listens there.
  static TcpSocket connect(const std::string& address, double seconds);
  /// On a free port of this host's network interface, such as "eth0". Throws `std::invalid_argument` with the names of
  /// all that have an address, if it has none.
  static TcpSocket listen(const std::string& interface);

  explicit operator bool() const { return file_ >= 0; }
  int file() const { return file_; }
  std::string address() const;  ///< this side's
  TcpSocket accept(double seconds) const;
  void send_line(std::string line, double seconds);
  /// Without its end. Waits for it as long as the other side's host responds.
  std::string read_line();
  /// The same without waiting; none if it has not arrived yet.
  std::optional<std::string> line_so_far(std::size_t longest = 1 << 24);
  /// Moves bytes that arrived behind a line; returns how many.
  std::size_t take_rest(std::span<char> to);

 private:
  explicit TcpSocket(int file);
  bool wait(short events, double seconds) const;

  int file_ = -1;
  std::string rest_;  ///< that follows the last line
};

/// Bytes to and from a peer at the same time; either may be none.
struct TcpTransfer {
  int peer = 0;
  TcpSocket* socket = nullptr;
  std::span<const char> out{};
  std::span<char> in{};
};
/// Transfers all of them. Throws `PeerLost` with the number of a peer whose connection ends, or moves no byte for
/// `seconds`.
void transfer(std::vector<TcpTransfer> transfers, double seconds);

/// The token in a file. Throws `std::runtime_error` if it has fewer than 16 characters, or if others than this user may
/// read it.
std::string token_in(const std::filesystem::path& file);
/// Compares two tokens in a time that does not depend on where they differ.
bool same_token(std::string_view a, std::string_view b);

}  // namespace shardwise::detail

#ifdef SHARDWISE_BODIES

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>

namespace shardwise::detail {

[[noreturn]] inline void lose_peer(const std::string& doing, int error = errno) {
  throw PeerLost(-1, doing + ": " + std::strerror(error));
}
inline std::string address_text(const sockaddr_in& at) {
  char text[INET_ADDRSTRLEN]{};
  ::inet_ntop(AF_INET, &at.sin_addr, text, sizeof(text));
  return std::string(text) + ":" + std::to_string(ntohs(at.sin_port));
}
inline int milliseconds(double seconds) { return seconds < 0 ? -1 : static_cast<int>(seconds * 1000) + 1; }

SHARDWISE_INLINE TcpSocket::TcpSocket(int file) : file_(file) {
  if (file_ < 0) lose_peer("a socket");
  // A host that does not respond for about 11 seconds is lost, also while nothing is sent.
  const auto set = [&](int level, int option, int value) {
    ::setsockopt(file_, level, option, &value, sizeof(value));
  };
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
  set(IPPROTO_TCP, TCP_KEEPIDLE, 5);
  set(IPPROTO_TCP, TCP_KEEPINTVL, 2);
  set(IPPROTO_TCP, TCP_KEEPCNT, 3);
  set(IPPROTO_TCP, TCP_USER_TIMEOUT, 11000);
  set(IPPROTO_TCP, TCP_NODELAY, 1);
}
SHARDWISE_INLINE TcpSocket::~TcpSocket() {
  if (file_ >= 0) ::close(file_);
}

SHARDWISE_INLINE bool TcpSocket::wait(short events, double seconds) const {
  pollfd one{file_, events, 0};
  int ready = 0;
  do ready = ::poll(&one, 1, milliseconds(seconds));
  while (ready < 0 && errno == EINTR);
  return ready > 0;
}

SHARDWISE_INLINE TcpSocket TcpSocket::connect(const std::string& address, double seconds) {
  const std::size_t colon = address.rfind(':');
  addrinfo hints{};
  hints.ai_family = AF_INET;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int code = colon == address.npos ? EAI_NONAME
                                         : ::getaddrinfo(address.substr(0, colon).c_str(),
                                                         address.c_str() + colon + 1, &hints, &found);
  if (code != 0) throw PeerLost(-1, "'" + address + "' as HOST:PORT: " + ::gai_strerror(code));
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> list(found, ::freeaddrinfo);
  TcpSocket made(::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (::connect(made.file_, list->ai_addr, list->ai_addrlen) != 0) {
    if (errno != EINPROGRESS) lose_peer(address);
    if (!made.wait(POLLOUT, seconds)) lose_peer(address, ETIMEDOUT);
    int error = 0;
    socklen_t bytes = sizeof(error);
    ::getsockopt(made.file_, SOL_SOCKET, SO_ERROR, &error, &bytes);
    if (error != 0) lose_peer(address, error);
  }
  return made;
}

SHARDWISE_INLINE TcpSocket TcpSocket::listen(const std::string& interface) {
  ifaddrs* first = nullptr;
  if (::getifaddrs(&first) != 0) lose_peer("the network interfaces");
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> all(first, ::freeifaddrs);
  std::string names;
  for (const ifaddrs* each = first; each; each = each->ifa_next) {
    if (!each->ifa_addr || each->ifa_addr->sa_family != AF_INET) continue;
    if (each->ifa_name != interface) {
      names += (names.empty() ? "" : ", ") + std::string(each->ifa_name);
      continue;
    }
    sockaddr_in at{};
    std::memcpy(&at, each->ifa_addr, sizeof(at));
    at.sin_port = 0;
    TcpSocket made(::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    if (::bind(made.file_, reinterpret_cast<const sockaddr*>(&at), sizeof(at)) != 0 ||
        ::listen(made.file_, 128) != 0)
      lose_peer("listen on " + interface);
    return made;
  }
  fail({"no network interface ", interface, " with an IPv4 address: this host has ", names});
}

SHARDWISE_INLINE std::string TcpSocket::address() const {
  sockaddr_in at{};
  socklen_t bytes = sizeof(at);
  ::getsockname(file_, reinterpret_cast<sockaddr*>(&at), &bytes);
  return address_text(at);
}

SHARDWISE_INLINE TcpSocket TcpSocket::accept(double seconds) const {
  if (!wait(POLLIN, std::max(0., seconds))) lose_peer("accept", ETIMEDOUT);
  return TcpSocket(::accept4(file_, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
}

SHARDWISE_INLINE void TcpSocket::send_line(std::string line, double seconds) {
  line += '\n';
  transfer({{.peer = -1, .socket = this, .out = line}}, seconds);
}

SHARDWISE_INLINE std::optional<std::string> TcpSocket::line_so_far(std::size_t longest) {
  for (std::size_t end = rest_.find('\n');; end = rest_.find('\n')) {
    if (end != rest_.npos) {
      std::string line = rest_.substr(0, end);
      rest_.erase(0, end + 1);
      return line;
    }
    if (rest_.size() > longest) throw PeerLost(-1, "a line is too long");
    char part[4096];
    const ssize_t count = ::recv(file_, part, sizeof(part), 0);
    if (count == 0) throw PeerLost(-1, "the connection has ended");
    if (count < 0 && errno == EAGAIN) return std::nullopt;
    if (count < 0 && errno != EINTR) lose_peer("read");
    if (count > 0) rest_.append(part, static_cast<std::size_t>(count));
  }
}

SHARDWISE_INLINE std::string TcpSocket::read_line() {
  for (;;) {
    if (std::optional<std::string> line = line_so_far()) return *std::move(line);
    wait(POLLIN, -1);
  }
}

SHARDWISE_INLINE std::size_t TcpSocket::take_rest(std::span<char> to) {
  const std::size_t count = rest_.copy(to.data(), to.size());
  rest_.erase(0, count);
  return count;
}

SHARDWISE_INLINE void transfer(std::vector<TcpTransfer> transfers, double seconds) {
  using Clock = std::chrono::steady_clock;
  std::vector<Clock::time_point> moved(transfers.size(), Clock::now());
  std::vector<pollfd> files(transfers.size());
  for (TcpTransfer& each : transfers)
    if (!each.in.empty()) each.in = each.in.subspan(each.socket->take_rest(each.in));
  for (;;) {
    bool is_complete = true;
    for (std::size_t i = 0; i < transfers.size(); ++i) {
      const TcpTransfer& each = transfers[i];
      const int events = (each.out.empty() ? 0 : POLLOUT) | (each.in.empty() ? 0 : POLLIN);
      files[i] = {events != 0 ? each.socket->file() : -1, static_cast<short>(events), 0};
      is_complete = is_complete && events == 0;
    }
    if (is_complete) return;
    ::poll(files.data(), files.size(), milliseconds(std::min(seconds, 1.)));
    const auto now = Clock::now();
    for (std::size_t i = 0; i < transfers.size(); ++i) {
      TcpTransfer& each = transfers[i];
      if (files[i].fd < 0) continue;
      const auto done = [&](ssize_t count, const char* doing) {
        if (count < 0 && (errno == EAGAIN || errno == EINTR)) return std::size_t{0};
        if (count <= 0)
          throw PeerLost(each.peer, std::string(doing) + ": " +
                                        (count < 0 ? std::strerror(errno) : "the connection has ended"));
        moved[i] = now;
        return static_cast<std::size_t>(count);
      };
      if (!each.out.empty() && (files[i].revents & (POLLOUT | POLLERR | POLLHUP)) != 0)
        each.out = each.out.subspan(
            done(::send(each.socket->file(), each.out.data(), each.out.size(), MSG_NOSIGNAL), "send"));
      if (!each.in.empty() && (files[i].revents & (POLLIN | POLLERR | POLLHUP)) != 0)
        each.in =
            each.in.subspan(done(::recv(each.socket->file(), each.in.data(), each.in.size(), 0), "receive"));
      if ((!each.out.empty() || !each.in.empty()) &&
          std::chrono::duration<double>(now - moved[i]).count() > seconds)
        throw PeerLost(each.peer, "no byte for " + fixed_text(seconds, 0) + " s");
    }
  }
}

SHARDWISE_INLINE std::string token_in(const std::filesystem::path& file) {
  struct ::stat facts {};
  if (::stat(file.c_str(), &facts) != 0)
    fail<std::runtime_error>({"the token in ", file.string(), ": ", std::strerror(errno)});
  if (facts.st_uid != ::geteuid() || (facts.st_mode & 077) != 0)
    fail<std::runtime_error>(
        {"the token in ", file.string(), ": others than its owner may read it; chmod 600"});
  std::string token;
  std::ifstream(file) >> token;
  if (token.size() < 16 || token.size() > 256)
    fail<std::runtime_error>(
        {"the token in ", file.string(), " has ", token.size(), " characters, expected 16 to 256"});
  return token;
}

SHARDWISE_INLINE bool same_token(std::string_view a, std::string_view b) {
  unsigned difference = a.size() == b.size() ? 0 : 1;
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i)
    difference |= static_cast<unsigned char>(a[i]) ^ static_cast<unsigned char>(b[i]);
  return difference == 0;
}

}  // namespace shardwise::detail

#endif
