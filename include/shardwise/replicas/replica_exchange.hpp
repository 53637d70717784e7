// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The exchange of one rank of a replica with the same rank of the others, in a round: see `ReplicaGroup`.

#include <shardwise/comm/reducible.hpp>
#include <shardwise/replicas/tcp.hpp>

namespace shardwise::detail {

/// A message of the quorum: "epoch NUMBER STEP DONOR", and for each member "REPLICA:ROLE:ADDRESS,ADDRESS…", with an
/// address of each rank.
struct ReplicaEpoch {
  struct Member {
    int replica = 0;
    char role = 'k';  ///< t: has trained; k: keeps its state; b: is behind, and takes the donor's
    std::vector<std::string> addresses;
  };
  std::int64_t number = 0, step = 0;
  int donor = 0;  ///< the number of a replica
  std::vector<Member> members;
  std::size_t own = 0;  ///< the place of this replica among them
  int trained = 0;      ///< how many have

  /// Throws `std::runtime_error` if the message is not as described, or does not name this replica.
  ReplicaEpoch(const std::string& message, int replica, int ranks);
};

/// Connections to the other members. All functions throw `PeerLost` with the number of a replica that does not respond
/// for `silence` seconds, or, where it may wait for a third one, for `patience`.
class ReplicaExchange {
 public:
  /// Each member connects to those before it, and says the token, the epoch's number, and its own.
  ReplicaExchange(const ReplicaEpoch& epoch, int rank, const TcpSocket& listener, const std::string& token,
                  double silence, double patience);
  /// The donor's state, if this replica is behind; otherwise nothing.
  std::vector<std::vector<char>> take_state(std::span<const std::span<char>> state);
  /// sum = the terms of all that have trained, added in the order of the members, so with the same bits on all. Each
  /// adds a part, and sends it to the others.
  void add(std::span<const char> terms, std::span<char> sum, DataType type);

 private:
  /// Waits until all have come here: so no member sends data to one that does not read yet.
  void wait_for_all();

  const ReplicaEpoch& epoch_;
  double silence_, patience_;
  std::vector<TcpSocket> to_;  ///< by place; none to itself
};

}  // namespace shardwise::detail

#ifdef SHARDWISE_BODIES

#include <list>
#include <sstream>

namespace shardwise::detail {

SHARDWISE_INLINE ReplicaEpoch::ReplicaEpoch(const std::string& message, int replica, int ranks) {
  std::istringstream words(message);
  std::string word;
  words >> word >> number >> step >> donor;
  bool is_member = false;
  while (words >> word) {
    std::string_view rest = word;
    Member member;
    const std::string_view named = take_part(rest, ':'), role = take_part(rest, ':');
    std::from_chars(named.data(), named.data() + named.size(), member.replica);
    member.role = role == "t" || role == "k" || role == "b" ? role[0] : '?';
    while (!rest.empty()) member.addresses.emplace_back(take_part(rest, ','));
    if (std::ssize(member.addresses) != ranks || member.role == '?')
      fail<std::runtime_error>({"the quorum's message '", excerpt(message), "' has a wrong member"});
    if (member.replica == replica) own = members.size();
    is_member = is_member || member.replica == replica;
    trained += member.role == 't' ? 1 : 0;
    members.push_back(std::move(member));
  }
  if (!is_member)
    fail<std::runtime_error>({"the quorum's message '", excerpt(message), "' does not name it"});
}

SHARDWISE_INLINE ReplicaExchange::ReplicaExchange(const ReplicaEpoch& epoch, int rank,
                                                  const TcpSocket& listener, const std::string& token,
                                                  double silence, double patience)
    : epoch_(epoch), silence_(silence), patience_(patience), to_(epoch.members.size()) {
  using Clock = std::chrono::steady_clock;
  const auto& members = epoch.members;
  const auto hello = [&](const ReplicaEpoch::Member& member) {
    return token + " " + std::to_string(epoch.number) + " " + std::to_string(member.replica);
  };
  for (std::size_t i = 0; i < epoch.own; ++i) {
    try {
      to_[i] = TcpSocket::connect(members[i].addresses[static_cast<std::size_t>(rank)], silence);
      to_[i].send_line(hello(members[epoch.own]), silence);
    } catch (const PeerLost& lost) {
      throw PeerLost(members[i].replica, lost.what());
    }
  }
  const auto end = Clock::now() + std::chrono::duration<double>(silence);
  std::list<TcpSocket> callers;  // also strangers: no member waits for these
  for (;;) {
    std::size_t missing = epoch.own + 1;
    while (missing < to_.size() && to_[missing]) ++missing;
    if (missing == to_.size()) break;
    if (Clock::now() > end) throw PeerLost(members[missing].replica, "it does not connect");
    try {
      callers.push_back(listener.accept(0.02));
      if (callers.size() > 64) callers.pop_front();
    } catch (const PeerLost&) {  // no caller yet
    }
    for (auto caller = callers.begin(); caller != callers.end();) {
      std::optional<std::string> said;
      try {
        said = caller->line_so_far(400);
      } catch (const PeerLost&) {
        said = "";
      }
      for (std::size_t i = epoch.own + 1; i < to_.size() && said; ++i)
        if (!to_[i] && same_token(*said, hello(members[i]))) to_[i] = std::move(*caller);
      caller = said ? callers.erase(caller) : std::next(caller);
    }
  }
}

SHARDWISE_INLINE void ReplicaExchange::wait_for_all() {
  const char out = 0;
  std::vector<char> in(to_.size());
  std::vector<TcpTransfer> transfers;
  for (std::size_t i = 0; i < to_.size(); ++i) {
    if (i == epoch_.own) continue;
    transfers.push_back(
        {.peer = epoch_.members[i].replica, .socket = &to_[i], .out = {&out, 1}, .in = {&in[i], 1}});
  }
  transfer(std::move(transfers), patience_);
}

SHARDWISE_INLINE std::vector<std::vector<char>> ReplicaExchange::take_state(
    std::span<const std::span<char>> state) {
  const auto& mine = epoch_.members[epoch_.own];
  std::vector<std::vector<char>> taken;
  for (const std::span<char> block : state) {
    std::vector<TcpTransfer> transfers;
    for (std::size_t i = 0; i < to_.size(); ++i) {
      const auto& other = epoch_.members[i];
      TcpTransfer transfer{.peer = other.replica, .socket = &to_[i]};
      if (mine.replica == epoch_.donor && other.role == 'b') transfer.out = block;
      if (mine.role == 'b' && other.replica == epoch_.donor) transfer.in = taken.emplace_back(block.size());
      transfers.push_back(transfer);
    }
    transfer(std::move(transfers), patience_);  // the donor may serve another, on a slower link
  }
  wait_for_all();
  return taken;
}

SHARDWISE_INLINE void ReplicaExchange::add(std::span<const char> terms, std::span<char> sum, DataType type) {
  const auto width = static_cast<std::size_t>(size_of(type));
  const auto part = [&](auto all, std::size_t i) {
    const std::size_t count = all.size() / width, first = count * i / to_.size();
    return all.subspan(first * width, (count * (i + 1) / to_.size() - first) * width);
  };
  const auto has_trained = [&](std::size_t i) { return epoch_.members[i].role == 't'; };
  const std::span<char> mine = part(sum, epoch_.own);
  std::vector<std::vector<char>> received(to_.size());
  std::vector<TcpTransfer> there, back;
  for (std::size_t i = 0; i < to_.size(); ++i) {
    if (i == epoch_.own) continue;
    const int peer = epoch_.members[i].replica;
    if (has_trained(i)) received[i].resize(mine.size());
    const std::span<const char> sent = has_trained(epoch_.own) ? part(terms, i) : terms.first(0);
    there.push_back({.peer = peer, .socket = &to_[i], .out = sent, .in = received[i]});
    back.push_back({.peer = peer, .socket = &to_[i], .out = mine, .in = part(sum, i)});
  }
  transfer(std::move(there), silence_);
  wait_for_all();
  std::ranges::fill(mine, 0);
  for (std::size_t i = 0; i < to_.size(); ++i) {
    if (!has_trained(i)) continue;
    const char* const from = i == epoch_.own ? part(terms, i).data() : received[i].data();
    const auto add = [&]<class T>(T) {
      for (std::size_t at = 0; at < mine.size(); at += sizeof(T)) {
        T value, term;
        std::memcpy(&value, mine.data() + at, sizeof(T));
        std::memcpy(&term, from + at, sizeof(T));
        value += term;
        std::memcpy(mine.data() + at, &value, sizeof(T));
      }
    };
    type == DataType::f64 ? add(0.) : add(0.f);
  }
  transfer(std::move(back), silence_);
}

}  // namespace shardwise::detail

#endif
