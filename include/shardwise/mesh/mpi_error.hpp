// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// MPI's error codes as exceptions that name the call and carry MPI's own words.

#include <stdexcept>
#include <string>

#include <shardwise/mesh/mpi.hpp>

namespace shardwise {

/// An MPI call failed. `what()` reads `MPI_Allreduce: MPI_ERR_COUNT: invalid count argument`.
class MpiError : public std::runtime_error {
 public:
  MpiError(const char* call, int code)
      : std::runtime_error(std::string(call) + ": " + text_of(code)), call_(call), code_(code) {}

  /// The MPI function that failed, a string literal.
  const char* call() const noexcept { return call_; }
  /// The code it returned.
  int code() const noexcept { return code_; }

 private:
  static std::string text_of(int code) {
    char text[MPI_MAX_ERROR_STRING] = {};
    int length = 0;
    if (MPI_Error_string(code, text, &length) != MPI_SUCCESS) return "error " + std::to_string(code);
    return std::string(text, static_cast<std::size_t>(length));
  }

  const char* call_;
  int code_;
};

// Implementation details: not part of the interface.
namespace detail {

inline void check_mpi(int code, const char* call) {
  if (code != MPI_SUCCESS) throw MpiError(call, code);
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

}  // namespace detail
}  // namespace shardwise
