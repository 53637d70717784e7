// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// The `main` of every MPI test: doctest under `shardwise::run`, or with `--simulate=RANKS` and `--seed=N` in a simulation,
/// without the test suite "MPI". Every rank runs every test case; a rank's report is printed in one piece under its number, rank 0's always and the
/// others' where they failed, and one failing rank fails the whole job.

#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>
#include <shardwise/comm/communicator.hpp>
#include <shardwise/comm/environment.hpp>
#include <shardwise/simulate/simulate.hpp>

#include <sched.h>

#include <cstdio>
#include <cstdlib>
#include <sstream>
#include <string>

namespace {

int run_tests(int argc, char** argv) {
  const shardwise::Communicator world = shardwise::world();
  std::ostringstream report;
  doctest::Context context(argc, argv);
  context.setOption("no-colors", true);
  context.setCout(&report);
  if (!shardwise::detail::mpi_initialized()) context.addFilter("test-suite-exclude", "MPI");
  const int failed = context.run();
  const std::string text = report.str();
  if (world.rank() == 0 || failed != 0) {
    const std::string title =
        "---- rank " + std::to_string(world.rank()) + " of " + std::to_string(world.size());
    std::fputs((title + "\n" + text).c_str(), stdout);
    std::fflush(stdout);
  }
  int any = 0;
  world.all_reduce(&failed, &any, 1, shardwise::DataType::i32, shardwise::ReduceOp::max);
  return any;
}

/// The number after `--NAME=`; `otherwise` if it is not there.
int number(int argc, char** argv, const std::string& name, int otherwise) {
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    if (argument.rfind("--" + name + "=", 0) == 0) return std::atoi(argument.c_str() + name.size() + 3);
  }
  return otherwise;
}

}  // namespace

int main(int argc, char** argv) {
  const int ranks = number(argc, argv, "simulate", 0);
  if (ranks == 0) return shardwise::run(argc, argv, [&] { return run_tests(argc, argv); });

  // One rank runs at a time: on one core their threads take turns in little more than half the time.
  cpu_set_t here;
  CPU_ZERO(&here);
  CPU_SET(static_cast<std::size_t>(sched_getcpu()), &here);
  sched_setaffinity(0, sizeof here, &here);

  // What doctest knows of a run is in a global: each rank has its own.
  std::vector<doctest::detail::ContextState*> states(static_cast<std::size_t>(ranks));
  std::size_t current = 0;
  const auto resumed = [&](int rank) {
    states[current] = std::exchange(doctest::detail::g_cs, states[static_cast<std::size_t>(rank)]);
    current = static_cast<std::size_t>(rank);
  };
  try {
    int failed = 0;
    const auto seed = static_cast<std::uint64_t>(number(argc, argv, "seed", 0));
    shardwise::simulate(ranks, [&] { failed = run_tests(argc, argv); }, {.seed = seed, .resumed = resumed});
    return failed;
  } catch (const shardwise::SimulationError& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
