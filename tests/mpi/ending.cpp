// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// Ends in the way that its argument names. Whatever one rank does, the job must end with its message or its
/// exit code while the other ranks wait in a barrier; how each way must end stands in tests/CMakeLists.txt.

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <shardwise/mesh/communicator.hpp>
#include <shardwise/mesh/environment.hpp>
#include <shardwise/mesh/watchdog.hpp>

namespace sw = shardwise;

namespace {
bool late_abort = false;
}

/// MPI's, through its profiling interface; late, as under load: long enough for all ranks to speak.
extern "C" int MPI_Abort(MPI_Comm comm, int code) {
  if (late_abort) std::this_thread::sleep_for(std::chrono::seconds(3));
  return PMPI_Abort(comm, code);
}

int main(int argc, char** argv) {
  const std::string way = argc > 1 ? argv[1] : "success";
  int provided = 0;
  if (way == "thread_level_too_low") MPI_Init_thread(&argc, &argv, MPI_THREAD_SINGLE, &provided);
  if (way == "initialised_before") MPI_Init(&argc, &argv);
  if (way == "initialised_before" && sw::detail::mpi_initialized()) {
    { sw::Environment environment(argc, argv, sw::ThreadLevel::single); }
    MPI_Barrier(MPI_COMM_WORLD);  // still there
    return MPI_Finalize();
  }
  if (way == "ranks_differ" || way == "blocks_do_not_fit") setenv("SHARDWISE_CHECK", "1", 1);
  late_abort = way == "all_throw" || way == "first_throws_late";
  return sw::run(argc, argv, [&]() -> int {
    const auto world = sw::world();
    const bool last = world.rank() == world.size() - 1;
    if (way == "one_throws" && last) throw std::runtime_error("out of luck");
    if (way == "first_throws_late" && world.rank() == 0) std::this_thread::sleep_for(std::chrono::seconds(2));
    if (way == "all_throw" || way == "first_throws_late") throw std::runtime_error("out of luck");
    if (way == "throws_an_int" && last) throw 3;
    if (way == "one_returns" && last) return 7;
    if (way == "all_return") return 7;
    const auto on_hosts = sw::world().on_hosts(world.rank());
    if (way == "throws_in_flight" && last) {
      std::vector<float> x(1 << 20);
      const auto request =
          on_hosts.all_reduce_async(x.data(), x.data(), 1 << 20, sw::DataType::f32, sw::ReduceOp::sum);
      throw std::runtime_error("out of luck");
    }
    if (way == "ranks_differ") {
      float terms[4]{}, sums[4]{};
      world.all_reduce(terms, sums, last ? 3 : 4, sw::DataType::f32, sw::ReduceOp::sum);
    }
    if (way == "blocks_do_not_fit") {  // rank 1 expects two elements of rank 0, which sends one
      const auto ranks = static_cast<std::size_t>(world.size());
      std::vector<sw::Index> sent(ranks, 1), expected(ranks, 1), places(ranks);
      for (std::size_t r = 0; r < ranks; ++r) places[r] = static_cast<sw::Index>(2 * r);
      if (world.rank() == 1) expected[0] = 2;
      std::vector<float> in(2 * ranks), out(2 * ranks);
      world.all_to_all(in.data(), sent, places, out.data(), expected, places, sw::DataType::f32);
    }
    const sw::Watchdog watchdog(world, way == "one_is_stuck" || way == "one_is_stopped" ? 1 : 0);
    if (way == "one_is_stuck" && last) std::this_thread::sleep_for(std::chrono::seconds(60));
    if (way == "one_is_stopped" && last) std::raise(SIGSTOP);
    world.barrier();
    return 0;
  });
}
