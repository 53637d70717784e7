// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The options of the example programs.

#include <CLI/CLI.hpp>
#include <optional>

#include <shardwise/mesh/communicator.hpp>

namespace tools {

namespace sw = shardwise;

/// For an option that counts something.
inline CLI::Option* add_count(CLI::App& app, const char* name, auto& value, const char* text) {
  return app.add_option(name, value, text)->check(CLI::Range(1, 1 << 24));
}

/// Parses the options. Returns the exit code if the program is to end now: after --help, or after nonsense,
/// about which the first rank alone says a word.
inline std::optional<int> parse(CLI::App& app, int argc, char** argv) {
  try {
    app.parse(argc, argv);
    return std::nullopt;
  } catch (const CLI::ParseError& error) {
    return sw::world().rank() == 0 ? app.exit(error) : error.get_exit_code();
  }
}

}  // namespace tools
