// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The lifetime of MPI, and `run`, which ends the whole job when a rank throws.
///
/// @code
/// int main(int argc, char** argv) {
///   return sw::run(argc, argv, [] {
///     sw::Mesh<sw::dp, sw::tp> mesh(sw::world(), {2, sw::any});
///     ...
///   });
/// }
/// @endcode

#include <sys/resource.h>
#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <new>
#include <type_traits>

#include <shardwise/base/activity.hpp>
#include <shardwise/base/bodies.hpp>
#include <shardwise/comm/mpi.hpp>
#include <shardwise/comm/thread.hpp>

namespace shardwise {

/// The exit code of a job that ended because a rank did not respond: reported by a `Watchdog`, or as an MPI error.
inline constexpr int no_answer_code = 69;

namespace detail {

/// Writes `shardwise: rank R of N: MESSAGE` to stderr in one write, so that lines of different ranks do not
/// interleave. If memory is exhausted, it prints without formatting.
void report(std::string_view message);

/// States the request and the available memory, without allocating.
std::string_view out_of_memory_text(const char* asked);

/// During `run`: reports long waits of this rank on stderr, unless a `Watchdog` is active. Only the first eight
/// ranks report.
class WaitNotice {
 public:
  explicit WaitNotice(ThreadLevel level);
  ~WaitNotice();

 private:
  struct Watch;
  Watch* watch_ = nullptr;
};

/// Reports the message, unless another rank already reports one, and ends the whole job. With `failed` it returns if
/// all ranks call it, or reach the end, within two seconds.
int end_job(std::string_view message, int code, bool failed = false);

/// Throws `std::runtime_error` if MPI knows only this process although its innermost launcher started several, each
/// of which would do all the work. (A Slurm batch script outside a step may run one process.)
void check_alone();

/// Until the program ends, handles exceptions that cannot be caught, such as those from a destructor or a thread: if
/// memory is exhausted, the job ends as in `run`.
void handle_terminate();

/// The exit code to return when this rank's work has ended with `code`.
int ended(int code);

}  // namespace detail

/// Initialises MPI, and finalises it on destruction, unless other code has initialised it. Destruction by an
/// exception aborts the job, because `MPI_Finalize` would wait for the other ranks, and they for this one.
class Environment {
 public:
  /// Requests `MPI_THREAD_MULTIPLE`, which lets communication progress while a rank computes. Throws
  /// `std::runtime_error` if MPI is already finalised, grants less than `required`, or leaves each of several
  /// processes alone; `MpiError` if it cannot start. Removes MPI's own arguments from `argv`.
  Environment(int& argc, char**& argv, ThreadLevel required = ThreadLevel::funneled) {
    open(argc, argv, required);
  }

  Environment& operator=(Environment&&) = delete;

  ~Environment();

  /// The level that MPI grants, at least the required one.
  ThreadLevel thread_level() const noexcept { return provided_; }
  bool owns_mpi() const noexcept { return owner_; }

 private:
  void open(int& argc, char**& argv, ThreadLevel required);

  int exceptions_ = std::uncaught_exceptions();
  ThreadLevel provided_ = ThreadLevel::single;
  bool owner_ = false;
};

/// Runs `f()` under MPI; `f` returns nothing or the exit code. Return the result from `main`.
///
/// An exception on any rank ends the whole job: one line on stderr, `shardwise: rank R of N: MESSAGE`, and
/// `MPI_Abort` with 1, or `no_answer_code` for an `MpiError`. A non-zero exit code also ends it. If all ranks fail or
/// finish within two seconds, as they do for a wrong path, MPI is finalised instead. A rank that waits for others for
/// 60 s reports this on stderr and keeps waiting; SHARDWISE_WAIT_NOTICE sets the number of seconds (0: no reports).
template <class F>
int run(int argc, char** argv, F f) {
  detail::handle_terminate();
  try {
    Environment environment(argc, argv);
    try {
      const detail::WaitNotice notice(environment.thread_level());
      int code = 0;
      if constexpr (std::is_void_v<decltype(f())>) {
        f();
      } else {
        code = static_cast<int>(f());
      }
      return detail::ended(code);
    } catch (const std::bad_alloc& error) {
      return detail::end_job(detail::out_of_memory_text(error.what()), 1);
    } catch (const MpiError& error) {
      return detail::end_job(error.what(), no_answer_code);
    } catch (const std::exception& error) {
      return detail::end_job(error.what(), 1, true);
    } catch (...) {
      return detail::end_job("an exception of unknown type", 1);
    }
  } catch (const std::exception& error) {
    return detail::end_job(error.what(), 1);  // initialising MPI failed
  }
}

}  // namespace shardwise

#ifdef SHARDWISE_BODIES
#include <chrono>
#include <memory>
#include <mutex>

namespace shardwise {
namespace detail {

SHARDWISE_INLINE void report(std::string_view message) {
  std::array<char, 40> rank{};
  if (mpi_initialized() && !mpi_finalized()) {
    std::snprintf(rank.data(), rank.size(), "rank %d of %d: ", rank_in(MPI_COMM_WORLD),
                  ranks_in(MPI_COMM_WORLD));
  }
  std::fflush(stdout);
  try {
    const std::string line = text({"shardwise: ", rank.data(), without_controls(std::string(message)), "\n"});
    std::fwrite(line.data(), 1, line.size(), stderr);
  } catch (const std::bad_alloc&) {
    std::fprintf(stderr, "shardwise: %s%.*s\n", rank.data(), static_cast<int>(message.size()),
                 message.data());
  }
  std::fflush(stderr);
}

SHARDWISE_INLINE std::string_view out_of_memory_text(const char* asked) {
  static std::array<char, 200> text;
  const auto mib = [](int pages) { return (::sysconf(pages) * (::sysconf(_SC_PAGESIZE) >> 10)) >> 10; };
  rusage used{};
  ::getrusage(RUSAGE_SELF, &used);
  std::snprintf(text.data(), text.size(),
                "out of memory: %s; this process had up to %ld MiB, of the host's %ld MiB %ld are free",
                asked, used.ru_maxrss >> 10, mib(_SC_PHYS_PAGES), mib(_SC_AVPHYS_PAGES));
  return text.data();
}

inline std::terminate_handler next_terminate = nullptr;
inline void on_terminate() {
  try {
    if (std::current_exception()) throw;
  } catch (const std::bad_alloc& error) {
    std::_Exit(end_job(out_of_memory_text(error.what()), 1));
  } catch (...) {  // left to the next handler
  }
  next_terminate();
}
SHARDWISE_INLINE void handle_terminate() {
  if (std::get_terminate() != on_terminate) next_terminate = std::set_terminate(on_terminate);
}

struct WaitNotice::Watch {
  void run();

  double seconds;
  std::timed_mutex ends;  // locked until the notice ends
  pthread_t thread{};
};

SHARDWISE_INLINE WaitNotice::WaitNotice(ThreadLevel level) {
  double seconds = 60;
  if (const char* given = std::getenv("SHARDWISE_WAIT_NOTICE")) {
    char* end = nullptr;
    seconds = std::strtod(given, &end);
    if (end == given || *end != 0 || !(seconds >= 0))
      fail({"SHARDWISE_WAIT_NOTICE is '", given, "'; expected seconds, 0 or more"});
  }
  const int rank = rank_in(MPI_COMM_WORLD), size = ranks_in(MPI_COMM_WORLD);
  if (seconds == 0 || size == 1 || rank >= 8 || level < ThreadLevel::multiple) return;
  auto watch = std::make_unique<Watch>();
  watch->seconds = seconds;
  watch->ends.lock();
  watch->thread = start_thread<&Watch::run>(*watch, "run");
  watch_ = watch.release();
  ++activity_watchers;
}

SHARDWISE_INLINE WaitNotice::~WaitNotice() {
  if (!watch_) return;
  --activity_watchers;
  watch_->ends.unlock();
  pthread_join(watch_->thread, nullptr);
  delete watch_;
}

SHARDWISE_INLINE void WaitNotice::Watch::run() {
  double next = seconds;
  while (!ends.try_lock_for(std::chrono::duration<double>(std::min(1.0, seconds / 4)))) {
    const auto wait = waits_board.look(MPI_Wtime());
    const double waited = MPI_Wtime() - wait.since;
    if (waited < seconds) next = seconds;
    if (!wait.active || waited < next || activity_watchers.load() > 1) continue;
    next = 2 * waited;
    report(
        text({"has waited for ", std::lround(waited), " s at ", wait.what, wait.object[0] ? " over " : "",
              wait.object, " (its call ", wait.calls, "), and still waits: do all ranks make this call?"}));
  }
}

/// Elects one of the failing ranks to report: the first to speak notifies the others. Rank 0 speaks after a short
/// check whether another rank has spoken; other ranks wait longer.
inline bool speaks_first() {
  constexpr int tag = 32767;  // the largest tag that every MPI supports
  const int rank = rank_in(MPI_COMM_WORLD), size = ranks_in(MPI_COMM_WORLD);
  const double turn = rank == 0 ? 0.01 : 0.5 + 0.05 * (rank < 10 ? rank : 10);  // seconds
  const double begin = MPI_Wtime();
  for (int spoken = 0; MPI_Wtime() - begin < turn;) {
    MPI_Iprobe(MPI_ANY_SOURCE, tag, MPI_COMM_WORLD, &spoken, MPI_STATUS_IGNORE);
    if (spoken != 0) return false;
    sleep_for(0.001);
  }
  for (int other = 0; other < size; ++other) {
    if (other == rank) continue;
    MPI_Request request = MPI_REQUEST_NULL;  // never received: the job ends
    MPI_Isend(nullptr, 0, MPI_BYTE, other, tag, MPI_COMM_WORLD, &request);
  }
  return true;
}

/// Whether all ranks reach the end. A successful rank waits for the others indefinitely; a failed one waits two
/// seconds, because they may be waiting for it.
inline bool all_ranks_end(bool succeeded) {
  const Waiting here("the end of the program", 0, "", false);
  MPI_Request request = MPI_REQUEST_NULL;
  if (MPI_Ibarrier(MPI_COMM_WORLD, &request) != MPI_SUCCESS) return false;
  if (succeeded) return MPI_Wait(&request, MPI_STATUS_IGNORE) == MPI_SUCCESS;
  for (const double end = MPI_Wtime() + 2; MPI_Wtime() < end; sleep_for(0.001)) {
    int done = 0;
    if (MPI_Test(&request, &done, MPI_STATUS_IGNORE) != MPI_SUCCESS) return false;
    if (done != 0) return true;
  }
  return false;
}

SHARDWISE_INLINE int end_job(std::string_view message, int code, bool failed) {
  if (!mpi_initialized() || mpi_finalized()) {
    report(message);
    return code;
  }
  const bool speaks = speaks_first();
  if (speaks) report(message);
  if (failed && all_ranks_end(false)) return code;
  // MPICH's launcher may lose what a rank prints just before it aborts. Other ranks wait for the reporting rank's
  // MPI_Abort to end them.
  sleep_for(speaks ? 0.05 : 10);
  MPI_Abort(MPI_COMM_WORLD, code);
  return code;
}

SHARDWISE_INLINE void check_alone() {
  const auto is = [](const char* name, std::string_view expected) {
    return std::getenv(name) && std::getenv(name) == expected;
  };
  for (const std::string_view name :
       {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MV2_COMM_WORLD_SIZE", "JSM_NAMESPACE_SIZE", "FLUX_JOB_SIZE",
        "SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"}) {
    const char* value = std::getenv(name.data());
    if (!value || (name == "SLURM_NTASKS" && is("SLURM_PROCID", "0") && is("ENVIRONMENT", "BATCH"))) continue;
    if (std::atoi(value) < 2 || (name == "SLURM_NTASKS" && !std::getenv("SLURM_PROCID"))) return;
    fail<std::runtime_error>({"MPI knows 1 process, but ", name, " says that the launcher started ", value,
                              ": use the mpirun of the MPI that the program was built with, or srun ",
                              "--mpi=pmix; to run one process alone, unset ", name});
  }
}

SHARDWISE_INLINE int ended(int code) {
  if (mpi_finalized()) return code;
  std::fflush(stdout);
  if (all_ranks_end(code == 0)) return code;
  return end_job("ended with exit code " + std::to_string(code) + " while other ranks are at work",
                 code == 0 ? 1 : code);
}

}  // namespace detail

SHARDWISE_INLINE Environment::~Environment() {
  if (!owner_ || detail::mpi_finalized()) return;
  if (std::uncaught_exceptions() > exceptions_)
    detail::end_job("an exception left the scope of shardwise::Environment", 1);
  MPI_Finalize();
}

SHARDWISE_INLINE void Environment::open(int& argc, char**& argv, ThreadLevel required) {
  if (detail::mpi_finalized())
    throw std::runtime_error("MPI is finalised already and cannot be initialised a second time");
  int provided = MPI_THREAD_SINGLE;
  if (detail::mpi_initialized()) {
    detail::check_mpi(MPI_Query_thread(&provided), "MPI_Query_thread");
  } else {
    detail::check_mpi(MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided), "MPI_Init_thread");
    owner_ = true;
#ifdef MPICH_VERSION  // it reports the failure of a request to this handler, whatever its own communicator has
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
#endif
    if (detail::ranks_in(MPI_COMM_WORLD) == 1) detail::check_alone();
  }
  provided_ = static_cast<ThreadLevel>(provided);
  if (provided_ >= required) return;
  if (owner_) MPI_Finalize();
  detail::fail<std::runtime_error>(
      {"MPI provides ", detail::name_of(provided_), " where ", detail::name_of(required), " is required",
       owner_ ? "" : ": the code that initialised MPI must request it from MPI_Init_thread"});
}

}  // namespace shardwise
#endif
