// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The options of the example programs.

#include <array>
#include <charconv>
#include <functional>
#include <limits>
#include <optional>

#include <shardwise/guard/same_on_all_ranks.hpp>

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

/// The value of an option as it is compared: "1e-3" is "0.001". Other texts stay as they are.
inline std::string compared_value(const CLI::Option& option) {
  std::string all;
  for (std::string word : option.results()) {
    if (option.get_expected_max() == 0) {  // a flag
      word = option.as<bool>() ? "" : "false";
    } else if (option.get_type_name().find("TEXT") == std::string::npos) {
      std::uint64_t whole{};
      double number{};
      const auto all_of = [&](auto& value) {
        const char* const last = word.data() + word.size();
        const auto [end, error] = std::from_chars(word.data(), last, value);
        return error == std::errc() && end == last;
      };
      if (!all_of(whole) && all_of(number)) {  // as a double, large numbers that differ may be the same
        std::array<char, 32> digits{};
        word.assign(digits.data(), std::to_chars(digits.data(), digits.data() + digits.size(), number).ptr);
      }
    }
    all += (all.empty() ? "" : " ") + word;
  }
  return all;
}

/// Parses the options, which are the same on all ranks: none may differ, as all but those of files say what ranks do
/// together, and files are read and written by all. Their order, and how a number is written, do not matter. Returns the exit
/// code if the program is to end now: after --help, or after nonsense, about which the first rank alone says a word. Throws
/// `std::invalid_argument` where ranks differ.
inline std::optional<int> parse(CLI::App& app, int argc, char** argv) {
  app.failure_message(option_error);
  std::optional<int> code;
  std::function<int()> end;
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    code = error.get_exit_code();
    end = [&app, error] { return app.exit(error); };
  }
  const sw::Communicator world = sw::world();
  if (!world.agree(!code)) {  // on some ranks there is nothing else to compare
    sw::require_same(world, argc, argv);
    if (!code) throw std::invalid_argument("another rank refuses its options");
    return world.rank() == 0 ? end() : *code;
  }
  const std::string_view path = argv[0];
  std::vector<sw::NamedText> mine{
      {"program", std::string(path.substr(path.rfind('/') + 1))},
      {"version", sw::detail::text({SHARDWISE_VERSION_MAJOR, ".", SHARDWISE_VERSION_MINOR, ".",
                                    SHARDWISE_VERSION_PATCH})}};
  for (const CLI::Option* option : app.get_options()) {
    if (option->count() > 0) mine.push_back({option->get_name(), compared_value(*option)});
  }
  sw::require_same(world, mine, "programs differ");
  return std::nullopt;
}

}  // namespace tools
