// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Many ranks in one process, without MPI: for tests, for teaching, and to reproduce failures. Values are real,
/// time is not: each rank is a thread, one runs at a time, and whenever ranks communicate a seed selects the next.
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
  std::uint64_t seed = 0;                ///< the same seed gives the same turns and delays
  int ranks_per_host = 0;                ///< 0: all share one host
  std::vector<SimulatedFault> faults{};  ///< faults to inject
  /// Called on a rank when it resumes, with its number: to restore globals that other ranks have changed. Must not
  /// throw.
  std::function<void(int)> resumed{};
};

namespace detail::simulated {

/// A problem that remains although all ranks have ended; or empty.
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

/// Runs `f()` on `ranks` ranks, as `run` does under MPI: `world()` contains all of them. They share what `f`
/// captures. Throws a `SimulationError`, with the seed, as soon as
/// - no rank can continue: the error states which ranks wait, where and for whom;
/// - ranks differ in a collective, or blocks of one do not match;
/// - a rank throws;
/// - a rank ends and leaves a message that no rank received, or an operation that it never waited for, or whose
/// input it has changed meanwhile (until the wait, the bytes of a result are 0xff: NaN);
/// - an injected fault is never reached.
///
/// Debug information (-g) and binutils are needed for source lines in errors. Sums have the order, and so the bits, of
/// real ranks on such hosts, except those that MPI makes among three or more ranks: all with `SHARDWISE_TRANSPORT=mpi`;
/// else, on several hosts, in the foreground: reduce-scatters of less than 16 KiB, all-reduces of less than 16 KiB if
/// all ranks' terms are more, and those of a loss whose classes are sharded over hosts. Ranks share the process: its
/// files, its globals, its memory pool. While a rank communicates, it must not hold a lock or be inside the
/// initialisation of a static; and destructors may communicate only as they may under MPI: if that fails they end the
/// program. Cannot be nested.
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
