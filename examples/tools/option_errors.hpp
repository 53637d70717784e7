// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// What the programs say of options that are none, and of what files say.

#include <CLI/CLI.hpp>
#include <cstdio>
#include <limits>
#include <string>

#include <shardwise/layout/name.hpp>
#include <shardwise/layout/text.hpp>

namespace tools {

/// The exit code of a program that has ended with `code`: 1 if not all that it printed was written.
inline int after_output(int code) {
  const bool written = std::fflush(stdout) == 0 && std::ferror(stdout) == 0;
  if (!written) std::fprintf(stderr, "the standard output cannot be written\n");
  return written || code != 0 ? code : 1;
}

/// Begins with the program's name, and names the option that may be meant. The largest `double`, a bound of 300 digits, is
/// left out.
inline std::string option_error(const CLI::App* app, const CLI::Error& error) {
  std::string text = app->get_name() + ": " + error.what();
  const std::string unbounded = " to " + std::to_string(std::numeric_limits<double>::max());
  if (const std::size_t bound = text.find(unbounded); bound != text.npos) {
    text.replace(bound, unbounded.size(), " on");
    const std::size_t range = text.find(" not in range ");
    if (range != text.npos) text.replace(range, 14, " not in the range from ");
  }
  for (const std::string& word : app->remaining()) {
    std::string nearest;
    std::size_t least = 4;  // letters
    for (const CLI::Option* option : app->get_options()) {
      for (const std::string& name : option->get_lnames()) {
        const std::size_t distance =
            shardwise::detail::edit_distance(word.substr(0, word.find('=')), "--" + name);
        if (distance < least) nearest = name, least = distance;
      }
    }
    if (!nearest.empty()) text += "; did you mean --" + nearest + "?";
  }
  return text + "\nRun with --help for more information.\n";
}

/// What a file says, for a terminal: it must neither steer it nor fill it.
inline std::string shown(std::string text) {
  constexpr std::size_t longest = 1000;
  if (text.size() > longest) text.replace(longest, text.npos, " …");
  return shardwise::detail::without_controls(std::move(text));
}

}  // namespace tools
