// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Replicas that are jobs of their own, each with its `mpirun`, and exchange by TCP: one that dies is left out of the
/// next exchange, and one that comes takes parameters and momentum from another.
///
/// ```
/// ReplicaGroup group(world(), {.quorum = "10.0.0.1:29400", .replica = 2, .token = "run.token", .interface = "eth0"});
/// DiLoCo diloco(group, {.inner_steps = 50});
/// for (Index step = diloco.join(model, adamw); step < steps; step = diloco.steps()) diloco.step(model, adamw);
/// ```
/// The program `shardwise-quorum` says who takes part in a round. In a round, first all members get the same state:
/// those that are behind take it from one that is not. Then all get the sum of what the members that have trained have
/// added to it. The round counts if every member that is still there has the sum; otherwise it is made again by those.

#include <shardwise/comm/communicator.hpp>
#include <shardwise/replicas/replica_exchange.hpp>
#include <shardwise/train/diloco.hpp>

namespace shardwise {

struct ReplicaGroupSettings {
  std::string quorum;           ///< "HOST:PORT", where `shardwise-quorum` listens
  int replica = 0;              ///< the number of this replica, which no other has
  std::filesystem::path token;  ///< a file that only its owner can read, the same on all hosts
  std::string interface;   ///< of each host, such as "eth0": ranks listen there for those of other replicas
  double silence = 10;     ///< seconds without a byte, after which a peer is lost
  double patience = 300;   ///< seconds in which the quorum must be reached, and in which a state must be sent
  std::uint64_t same = 0;  ///< whatever else must be equal in all replicas, as a number
};

/// The replicas of a run, as this one sees them: for `DiLoCo`, which makes their rounds.
class ReplicaGroup {
 public:
  /// `ranks`: all of this replica. All replicas have as many, on meshes of the same sizes. Collective. Throws
  /// `std::runtime_error` on all ranks if the token or the interface is not as it should be.
  ReplicaGroup(const Communicator& ranks, ReplicaGroupSettings settings);

  /// A round. `state`: this rank's blocks that are equal in all replicas, of `type`, f32 or f64. `trained`: whether
  /// this replica adds `terms`. After a round with `trained` above 0, `sum` is that of all; it has as many bytes as
  /// `terms`. `job`: a number of this rank that is equal in all replicas, or the quorum refuses this one. Throws
  /// `std::runtime_error` on all ranks if the quorum refuses, or is not reached in time. Collective.
  detail::ReplicaRound make_round(std::int64_t step, std::span<const std::span<char>> state, bool trained,
                                  std::span<const char> terms, std::span<char> sum, DataType type,
                                  std::uint64_t job);

 private:
  template <class F>
  std::string on_first_rank(F f) const;
  std::string answer(const std::string& message, std::string_view wanted, std::uint64_t job);
  std::uint64_t together(std::uint64_t number) const;

  Communicator ranks_;
  ReplicaGroupSettings settings_;
  std::string token_, addresses_;
  detail::TcpSocket listener_, quorum_;
};

}  // namespace shardwise

#ifdef SHARDWISE_BODIES

#include <shardwise/base/hash.hpp>
#include <shardwise/guard/agreement.hpp>

#include <optional>
#include <thread>

namespace shardwise {

SHARDWISE_INLINE ReplicaGroup::ReplicaGroup(const Communicator& ranks, ReplicaGroupSettings settings)
    : ranks_(ranks), settings_(std::move(settings)) {
  throw_on_all_ranks(ranks_, "ReplicaGroup", [&] {
    if (settings_.replica < 0) detail::fail({"replica is ", settings_.replica, ", which must be 0 or more"});
    token_ = detail::token_in(settings_.token);
    listener_ = detail::TcpSocket::listen(settings_.interface);
  });
  for (const std::string& address : ranks_.all_gather(listener_.address())) addresses_ += " " + address;
}

/// f() of rank 0, on every rank; if it throws, all throw.
template <class F>
std::string ReplicaGroup::on_first_rank(F f) const {
  std::string text;
  if (ranks_.rank() == 0) {
    try {
      text = "+" + f();
    } catch (const std::exception& error) {
      text = std::string("-") + error.what();
    }
  }
  ranks_.wait_for_first_rank();
  text = ranks_.broadcast(text);
  if (text.front() == '-')
    throw std::runtime_error("replica " + std::to_string(settings_.replica) + ": " + text.substr(1));
  return text.substr(1);
}

/// The answer of the quorum, which begins with one of the `wanted` words. If the connection ends, it connects again,
/// and the answer about a round is "again".
SHARDWISE_INLINE std::string ReplicaGroup::answer(const std::string& message, std::string_view wanted,
                                                  std::uint64_t job) {
  using Clock = std::chrono::steady_clock;
  auto connected_at = Clock::now();
  const auto since = [](Clock::time_point begin) {
    return std::chrono::duration<double>(Clock::now() - begin).count();
  };
  for (std::optional<Clock::time_point> lost_at;;) {
    try {
      if (!quorum_) {
        quorum_ = detail::TcpSocket::connect(settings_.quorum, settings_.silence);
        connected_at = Clock::now();
        quorum_.send_line(
            detail::text({"replica 1 ", token_, " ", settings_.replica, " ", ranks_.size(), " ", job}),
            settings_.silence);
        if (wanted != "epoch") return "again";
      }
      quorum_.send_line(message, settings_.silence);
      for (;;) {
        const std::string line = quorum_.read_line();
        if (line.starts_with("refused "))
          throw std::runtime_error("the quorum refuses it: " + line.substr(8));
        if (wanted.find(line.substr(0, line.find(' '))) != wanted.npos) return line;
      }
    } catch (const detail::PeerLost& lost) {
      const bool was_there = quorum_ && since(connected_at) > settings_.silence;
      quorum_ = {};
      if (!lost_at || was_there) lost_at = Clock::now();
      if (since(*lost_at) > settings_.patience) {
        detail::fail<std::runtime_error>({"the quorum at ", settings_.quorum, " was not reached for ",
                                          detail::fixed_text(settings_.patience, 0), " s: ", lost.what()});
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(200));
    }
  }
}

/// The numbers of all ranks as one.
SHARDWISE_INLINE std::uint64_t ReplicaGroup::together(std::uint64_t number) const {
  const Index mine[]{std::bit_cast<Index>(number)};
  detail::Fnv1a all;
  for (const Index each : ranks_.all_gather(mine)) all.add(std::bit_cast<std::uint64_t>(each));
  return all.value;
}

SHARDWISE_INLINE detail::ReplicaRound ReplicaGroup::make_round(std::int64_t step,
                                                               std::span<const std::span<char>> state,
                                                               bool trained, std::span<const char> terms,
                                                               std::span<char> sum, DataType type,
                                                               std::uint64_t job) {
  job = together(job ^ settings_.same);
  for (;;) {
    detail::Fnv1a bits;
    for (const std::span<char> block : state) {
      for (std::size_t at = 0; at < block.size(); at += 4) {
        std::uint32_t word = 0;
        std::memcpy(&word, block.data() + at, 4);
        bits.add(std::uint64_t{word});
      }
    }
    const std::string ready =
        detail::text({"ready ", step, " ", together(bits.value), trained ? " 1" : " 0", addresses_});
    const detail::ReplicaEpoch epoch(on_first_rank([&] { return answer(ready, "epoch", job); }),
                                     settings_.replica, ranks_.size());
    std::vector<std::vector<char>> taken;  // which counts only if the round does
    Index lost = -1;
    std::string why;
    throw_on_all_ranks(ranks_, "a round of replicas", [&] {
      try {
        detail::ReplicaExchange exchange(epoch, ranks_.rank(), listener_, token_, settings_.silence,
                                         settings_.patience);
        taken = exchange.take_state(state);
        if (epoch.trained > 0) exchange.add(terms, sum, type);
      } catch (const detail::PeerLost& peer) {
        lost = peer.peer;
        why = peer.what();
      }
    });
    const Index mine[]{lost};
    const std::vector<Index> lost_by = ranks_.all_gather(mine);
    const auto last = std::ranges::max_element(lost_by);
    why = ranks_.all_gather(why)[static_cast<std::size_t>(last - lost_by.begin())];
    const std::string done =
        *last < 0 ? detail::text({"done ", epoch.number})
                  : detail::text({"failed ", epoch.number, " ", *last, " ", detail::without_controls(why)});
    if (!on_first_rank([&] { return answer(done, "commit again", job); }).starts_with("commit")) continue;
    for (std::size_t i = 0; i < taken.size(); ++i) std::ranges::copy(taken[i], state[i].begin());
    return {.step = epoch.step, .trained = epoch.trained, .behind = epoch.members[epoch.own].role == 'b'};
  }
}

}  // namespace shardwise

#endif
