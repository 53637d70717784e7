// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// Ends in the way that its argument names. Whatever one rank does, the job must end with its message or its
/// exit code while the other ranks wait in a barrier; ending.cmake has how each way must end.

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <new>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <unistd.h>

#include <shardwise/comm/communicator.hpp>
#include <shardwise/comm/environment.hpp>
#include <shardwise/guard/watchdog.hpp>
#include <shardwise/io/file.hpp>

namespace sw = shardwise;

namespace {
bool late_abort = false, fails_new = false;
std::chrono::milliseconds slow_sync{0};

void sleep(int seconds) { std::this_thread::sleep_for(std::chrono::seconds(seconds)); }

void take_memory() { (void)std::string(100, 'x'); }
void take_more_than_there_is() { (void)sw::memory_pool().allocate(sw::Index{1} << 60); }

/// Some files on a slow device, for longer than the watchdog of a second lets ranks wait.
void write_slowly() {
  slow_sync = std::chrono::milliseconds(1500);
  const std::string path = "ending-" + std::to_string(::getpid());
  sw::write_file_atomically(path, "written slowly");
  ::unlink(path.c_str());
}
}  // namespace

/// The system's, on a slow device.
extern "C" int fsync(int) {
  std::this_thread::sleep_for(slow_sync);
  return 0;
}

/// The library's, or none.
void* operator new(std::size_t bytes) {
  void* memory = fails_new ? nullptr : std::malloc(bytes);
  return memory ? memory : throw std::bad_alloc();
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

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
    if (way == "memory_is_out" && last) take_more_than_there_is();
    if (way == "memory_of_all_is_out") {  // also for what an error would need
      fails_new = true;
      take_memory();
    }
    if (way == "memory_is_out_uncaught" && last)
      [&]() noexcept {
        fails_new = true;
        take_memory();
      }();
    if (way == "memory_is_out_in_a_thread" && last) std::thread(take_more_than_there_is).join();
    const bool watched = way.starts_with("one_") && way != "one_is_late";
    const sw::Watchdog watchdog(world, watched ? 1 : 0);
    if (way == "one_is_late" && last) sleep(3);
    if (way == "one_is_stuck" && last) sleep(60);
    if (way == "one_is_stopped" && last) std::raise(SIGSTOP);
    if (way == "one_writes" && last) write_slowly();
    if (way == "one_writes_beside" &&
        last) {  // as a checkpoint is written, while its rank sends another file
      std::thread writer(write_slowly);
      sw::write_file_atomically("ending-beside-" + std::to_string(::getpid()), "");
      writer.join();
      ::unlink(("ending-beside-" + std::to_string(::getpid())).c_str());
    }
    if (way == "one_tokenizes" && last) {
      const sw::detail::FileWork here("tokenizes", "long.txt");
      sleep(4);
    }
    if (way == "one_write_is_stuck" && last) {
      slow_sync = std::chrono::hours(1);
      sw::write_file_atomically("/tmp/ending", "");
    }
    if (way == "one_is_stuck_and_wrote" && last) {
      write_slowly();
      sleep(60);
    }
    world.barrier();
    return 0;
  });
}
