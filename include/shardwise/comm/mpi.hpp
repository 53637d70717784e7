// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The only include of `<mpi.h>`, without the C++ bindings that MPI removed in 2012, which cost half a second per
/// compilation. MPI's error codes become exceptions with the name of the call and MPI's message.

#ifndef OMPI_SKIP_MPICXX
#define OMPI_SKIP_MPICXX 1
#endif
#ifndef MPICH_SKIP_MPICXX
#define MPICH_SKIP_MPICXX 1
#endif
#include <mpi.h>

#include <ctime>

#include <shardwise/base/bodies.hpp>
#include <shardwise/base/text.hpp>

namespace shardwise {

/// An MPI call failed. `what()` reads `MPI_Allreduce: MPI_ERR_COUNT: invalid count argument`.
class MpiError : public std::runtime_error {
 public:
  /// `call`: the name of the function of MPI; `code`: the error that it returned.
  MpiError(const char* call, int code)
      : std::runtime_error(std::string(call) + ": " + text_of(code)), call_(call), code_(code) {}

  /// The MPI function that failed, a string literal.
  const char* call() const noexcept { return call_; }
  int code() const noexcept { return code_; }

 private:
  static std::string text_of(int code) {
    char text[MPI_MAX_ERROR_STRING] = {};
    int length = 0, running = 0;
    MPI_Initialized(&running);
    if (running == 0 || MPI_Error_string(code, text, &length) != MPI_SUCCESS)
      return "error " + std::to_string(code);
    return std::string(text, static_cast<std::size_t>(length));
  }

  const char* call_;
  int code_;
};

/// Which threads may call MPI: the only one; the main thread; one at a time; any.
enum class ThreadLevel : int {
  single = MPI_THREAD_SINGLE,
  funneled = MPI_THREAD_FUNNELED,
  serialized = MPI_THREAD_SERIALIZED,
  multiple = MPI_THREAD_MULTIPLE
};

namespace detail {

constexpr const char* name_of(ThreadLevel level) {
  if (level <= ThreadLevel::single) return "MPI_THREAD_SINGLE";
  if (level == ThreadLevel::funneled) return "MPI_THREAD_FUNNELED";
  return level == ThreadLevel::serialized ? "MPI_THREAD_SERIALIZED" : "MPI_THREAD_MULTIPLE";
}

[[noreturn]] void fail_mpi(int code, const char* call);
inline void check_mpi(int code, const char* call) {
  if (code != MPI_SUCCESS) fail_mpi(code, call);
}

inline bool mpi_initialized() {
  int flag = 0;
  MPI_Initialized(&flag);
  return flag != 0;
}

inline bool mpi_finalized() {
  int flag = 0;
  MPI_Finalized(&flag);
  return flag != 0;
}

inline int rank_in(MPI_Comm comm) {
  int rank = 0;
  MPI_Comm_rank(comm, &rank);
  return rank;
}

inline int ranks_in(MPI_Comm comm) {
  int ranks = 0;
  MPI_Comm_size(comm, &ranks);
  return ranks;
}

/// (<thread> and <chrono> would cost g++ a third of a second per translation unit.)
inline void sleep_for(double seconds) {
  const auto whole = static_cast<std::time_t>(seconds);
  timespec left{whole, static_cast<long>(1e9 * (seconds - static_cast<double>(whole)))};
  while (nanosleep(&left, &left) != 0) {  // interrupted by a signal
  }
}

}  // namespace detail
}  // namespace shardwise

#ifdef SHARDWISE_BODIES
namespace shardwise::detail {

SHARDWISE_INLINE void fail_mpi(int code, const char* call) { throw MpiError(call, code); }

}  // namespace shardwise::detail
#endif
