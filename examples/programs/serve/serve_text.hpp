// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// A server of texts.

#include <filesystem>
#include <optional>
#include <string>

#include "http_server.hpp"

namespace tools {

struct ServerOptions {
  std::filesystem::path weights;
  std::string name;
  HttpOptions http{};
  int pp = 1, weight_bits = 32, drain_timeout = 30;
  sw::Index rows = 8, queue = 64;
  std::optional<sw::Index> context{};
};

/// Serves the model of a folder until a signal of `StopSignal` arrives; see `write_text` for the ranks. Clients need
/// the key that the variable SHARDWISE_API_KEY of rank 0 has, if it is not empty. Collective over the whole job.
void serve(const ServerOptions& options);

}  // namespace tools
