// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// What moves data between ranks, and which of it the user wants.

#include <cstdlib>
#include <string_view>

#include <shardwise/layout/text.hpp>

namespace shardwise {

/// `node`: shared memory where all ranks of a communicator share a host, MPI elsewhere. `mpi`: MPI everywhere.
enum class Transport { node, mpi };

/// What the environment variable SHARDWISE_TRANSPORT says, `node` or `mpi`; `mpi` without it. Throws
/// `std::invalid_argument` for anything else.
inline Transport chosen_transport() {
  static const Transport chosen = [] {
    const char* text = std::getenv("SHARDWISE_TRANSPORT");
    const std::string_view name = text ? text : "mpi";
    if (name != "node" && name != "mpi")
      detail::fail({"SHARDWISE_TRANSPORT is '", name, "'; expected 'node' or 'mpi'"});
    return name == "node" ? Transport::node : Transport::mpi;
  }();
  return chosen;
}

}  // namespace shardwise
