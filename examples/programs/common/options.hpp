// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The options of the example programs.

#include <array>
#include <charconv>
#include <limits>
#include <optional>

#include <shardwise/guard/same_on_all_ranks.hpp>

#include "command_line.hpp"

namespace tools {

namespace sw = shardwise;

/// An option with a count.
inline CLI::Option* add_count(CLI::App& app, const char* name, auto& value, const char* text) {
  return app.add_option(name, value, text)->check(CLI::Range(1, 1 << 24));
}

/// An option with a natural number up to the largest `Number`. Rejects other values, which the parser would misread.
template <class Number>
CLI::Option* add_whole(CLI::App& app, const char* name, auto& value, const char* text) {
  return app.add_option(name, value, text)->check([](const std::string& word) -> std::string {
    Number number{};
    const char* const last = word.data() + word.size();
    const auto [end, error] = std::from_chars(word.data(), last, number);
    const bool decimal = word.size() == 1 || !word.starts_with('0');
    if (error == std::errc() && end == last && number >= 0 && decimal) return "";
    return word + " is not a number from 0 to " + std::to_string(std::numeric_limits<Number>::max());
  });
}

/// How a model for texts is split and stored, see `TextModel`.
inline void add_split(CLI::App& app, int& stages, int& weight_bits) {
  add_count(app, "--pp", stages, "pipeline stages; the ranks of a stage split its layers");
  app.add_option(
         "--weight-bits", weight_bits,
         "bits of a weight in memory: 32, in float; 16, 8 or 4, rounded while the files are read. Experts "
         "stay in float")
      ->check(CLI::IsMember({32, 16, 8, 4}));
}

/// The time that ranks wait for each other, see `sw::Watchdog`.
inline void add_timeout(CLI::App& app, double& seconds) {
  app.add_option("--timeout", seconds,
                 "seconds that a rank waits for others before it ends the job; 0: forever")
      ->check(CLI::NonNegativeNumber);
}

/// The value of an option in normal form for comparison: "1e-3" becomes "0.001". Other texts are unchanged.
inline std::string compared_value(const CLI::Option& option) {
  std::string all;
  for (std::string word : option.results()) {
    if (option.get_expected_max() == 0) {  // a flag
      word = option.as<bool>() ? "" : "false";
    } else if (const std::string type = option.get_type_name();
               type.find("INT") != type.npos || type.find("FLOAT") != type.npos) {
      std::uint64_t whole{};
      double number{};
      const auto all_of = [&](auto& value) {
        const char* const last = word.data() + word.size();
        const auto [end, error] = std::from_chars(word.data(), last, value);
        return error == std::errc() && end == last;
      };
      if (!all_of(whole) && all_of(number)) {  // doubles cannot tell large integers apart
        std::array<char, 32> digits{};
        word.assign(digits.data(), std::to_chars(digits.data(), digits.data() + digits.size(), number).ptr);
      }
    }
    all += (all.empty() ? "" : " ") + word;
  }
  return all;
}

/// Parses the options, which must be the same on all ranks, because they determine the communication and the files.
/// Their order and the notation of numbers do not matter. Returns the exit code if the program must end: after
/// --help, or after an error, which only the first rank prints. Throws `std::invalid_argument` if ranks differ.
inline std::optional<int> parse(CommandLine& app, int argc, char** argv) {
  const auto ending = app.read(argc, argv);
  const sw::Communicator world = sw::world();
  if (!world.agree(!ending)) {  // some ranks have nothing to compare
    sw::require_same(world, argc, argv);
    if (!ending) throw std::invalid_argument("another rank rejected its options");
    return world.rank() == 0 ? ending->print() : ending->code;
  }
  if (world.rank() == 0) app.print_note();
  const std::string_view path = argv[0];
  std::vector<sw::NamedText> mine{{"program", std::string(path.substr(path.rfind('/') + 1))},
                                  {"version", SHARDWISE_VERSION}};
  for (const CLI::Option* option : app.get_options()) {
    if (option->count() > 0) mine.push_back({option->get_name(), compared_value(*option)});
  }
  sw::require_same(world, mine, "programs differ");
  return std::nullopt;
}

}  // namespace tools
