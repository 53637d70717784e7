// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The options of the example programs.

#include <charconv>
#include <limits>
#include <optional>

#include <shardwise/mesh/same_on_all_ranks.hpp>

#include "option_errors.hpp"

namespace tools {

namespace sw = shardwise;

/// For an option that counts something.
inline CLI::Option* add_count(CLI::App& app, const char* name, auto& value, const char* text) {
  return app.add_option(name, value, text)->check(CLI::Range(1, 1 << 24));
}

/// For a natural number that may be as large as a `Number`. What is none is refused, where the parser would take another.
template <class Number>
CLI::Option* add_whole(CLI::App& app, const char* name, auto& value, const char* text) {
  return app.add_option(name, value, text)->check([](const std::string& word) -> std::string {
    Number number{};
    const char* const last = word.data() + word.size();
    const auto [end, error] = std::from_chars(word.data(), last, number);
    const bool decimal = word.size() == 1 || !word.starts_with('0');
    if (error == std::errc() && end == last && number >= 0 && decimal) return "";
    return word + " is no number from 0 to " + std::to_string(std::numeric_limits<Number>::max());
  });
}

/// How long ranks wait for each other, see `sw::Watchdog`.
inline void add_timeout(CLI::App& app, double& seconds) {
  app.add_option("--timeout", seconds,
                 "seconds after which a rank that waits for others ends the job; 0: never")
      ->check(CLI::NonNegativeNumber);
}

/// Parses the options, which are the same on all ranks: none may differ, as all but those of files say what ranks do
/// together, and files are read and written by all. Returns the exit code if the program is to end now: after --help, or
/// after nonsense, about which the first rank alone says a word. Throws `std::invalid_argument` where ranks differ.
inline std::optional<int> parse(CLI::App& app, int argc, char** argv) {
  sw::require_same(sw::world(), argc, argv);
  app.failure_message(option_error);
  try {
    app.parse(argc, argv);
    return std::nullopt;
  } catch (const CLI::ParseError& error) {
    return sw::world().rank() == 0 ? app.exit(error) : error.get_exit_code();
  }
}

}  // namespace tools
