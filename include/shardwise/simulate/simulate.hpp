// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Many ranks in one process, without MPI: for tests, for teaching, and to look at what goes wrong. Values are real, time is
/// not: each rank is a thread, one runs at a time, and a seed decides who goes on wherever ranks communicate.
///
/// @code
/// sw::simulate(64, [] {
///   sw::Mesh<sw::dp, sw::tp> mesh(sw::world(), {sw::any, 8});
///   …                                             // as under sw::run
/// }, {.seed = 7});
/// @endcode

#include <thread>

#include <shardwise/simulate/simulated_transport.hpp>

namespace shardwise {

struct SimulateOptions {
  std::uint64_t seed = 0;                ///< the same: the same turns, and late messages
  int ranks_per_host = 0;                ///< 0: all share one host
  std::vector<SimulatedFault> faults{};  ///< what shall go wrong
  /// Called on a rank when it goes on, with its number: to put back what others have changed in globals. Must not throw.
  std::function<void(int)> resumed{};
};

namespace detail::simulated {

/// What is wrong although all have come to their end; or nothing.
inline std::string left_over(Simulation& simulation) {
  for (std::size_t rank = 0; rank < simulation.ranks.size(); ++rank) {
    const std::string& death = simulation.ranks[rank].death;
    if (!death.empty()) return text({"rank ", rank, " ", death});
  }
  for (const SimulatedFault& fault : simulation.faults) {
    const Index made = simulation.of(fault.rank).calls;
    if (fault.call >= made)
      return text(
          {"the fault of rank ", fault.rank, " at its call ", fault.call, " never came: it makes ", made});
  }
  for (const auto& [key, group] : simulation.groups) {
    for (const auto& [ends, box] : group->mail) {
      if (box.sent.size() <= box.receivers) continue;
      const std::vector<int>& ranks = group->ranks;
      return text({"a message from rank ", ranks[static_cast<std::size_t>(ends.first)], " to rank ",
                   ranks[static_cast<std::size_t>(ends.second)], " was never received; it was sent at ",
                   box.sent[box.receivers].where.text()});
    }
  }
  return "";
}

inline void simulate_rank(const std::shared_ptr<Simulation>& simulation, int rank, int size,
                          const SimulateOptions& options, const std::function<void()>& f) {
  Scheduler& scheduler = simulation->scheduler;
  const std::string name = text({"rank ", rank, " of ", size, ": "});
  scheduler.begin(rank);
  try {
    std::vector<int> all, hosts;
    for (int r = 0; r < size; ++r) {
      all.push_back(r);
      hosts.push_back(options.ranks_per_host > 0 ? r / options.ranks_per_host : 0);
    }
    const Communicator world(
        std::make_shared<SimulatedTransport>(simulation, simulation->group(rank, all), rank, Hosts(hosts)));
    simulated_world = &world;
    f();
    const auto& under_way = simulation->of(rank).under_way;
    if (!under_way.empty())
      scheduler.fail(name + "came to its end and never waited for " + under_way.begin()->second->words());
  } catch (const RankEnds&) {
  } catch (const std::exception& error) {
    scheduler.fail(name + error.what());
  } catch (...) {
    scheduler.fail(name + "an exception of unknown type");
  }
  simulated_world = nullptr;
  scheduler.end(rank, simulation->of(rank).death);
}

}  // namespace detail::simulated

/// Runs `f()` on so many ranks, as `run` does on those of MPI: there `world()` is all of them. What `f` captures is the same
/// for all. Throws a `SimulationError`, with the seed, as soon as
/// - no rank can go on: it says who waits, where and for whom;
/// - ranks differ in a collective, or blocks of one do not fit;
/// - a rank throws;
/// - a rank ends and leaves a message that nobody received, or something under way that it never waited for; or has changed
///   the input of that meanwhile. (Until it is waited for, the bytes of a result are 0xff: NaN.)
/// - a fault never comes.
/// Places in the program are told with debug information (-g) and binutils. Sums are made in the order of the ranks; MPI's
/// own order, from three ranks on, is not told by it. Ranks share the process: its files, its globals, its memory pool. No
/// rank may hold a lock, or be amid the initialisation of a static, while it communicates; and destructors may communicate
/// only as they may under MPI: where that fails they end the program. Not within a simulation.
template <class F>
void simulate(int ranks, F f, const SimulateOptions& options = {}) {
  if (detail::simulated_world) throw std::logic_error("simulate: this is a rank of a simulation already");
  if (ranks < 1) detail::fail({"simulate: ", ranks, " ranks; expected at least 1"});
  for (const SimulatedFault& fault : options.faults) {
    if (fault.rank < 0 || fault.rank >= ranks || fault.call < 0)
      detail::fail({"simulate: a fault of rank ", fault.rank, " of ", ranks, ", at its call ", fault.call});
  }
  const auto simulation =
      std::make_shared<detail::simulated::Simulation>(ranks, options.seed, options.resumed, options.faults);
  detail::simulated::Scheduler& scheduler = simulation->scheduler;
  std::vector<std::thread> threads;
  try {
    for (int rank = 0; rank < ranks; ++rank)
      threads.emplace_back(
          [&, rank] { detail::simulated::simulate_rank(simulation, rank, ranks, options, [&] { f(); }); });
  } catch (const std::exception& error) {
    scheduler.fail(detail::text({"no thread for rank ", threads.size(), " of ", ranks, ": ", error.what()}));
    scheduler.without(static_cast<int>(threads.size()));
  }
  scheduler.run();
  for (std::thread& thread : threads) thread.join();
  simulation->over = true;
  if (!scheduler.failed()) scheduler.fail(detail::simulated::left_over(*simulation));
  if (scheduler.failed())
    throw SimulationError(scheduler.failure() + " (seed " + std::to_string(options.seed) + ")");
}

}  // namespace shardwise
