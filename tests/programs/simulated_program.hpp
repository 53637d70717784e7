// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// A program of several ranks that are simulated, and how each of them ends.

#include <iostream>
#include <sstream>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <shardwise/simulate/simulate.hpp>

#include "../../examples/programs/common/programs.hpp"

/// What a rank ends with.
struct End {
  int code = 0;
  std::string error;
};

struct Ends {
  std::vector<End> of_ranks;
  std::string printed;  ///< to std::cout and std::cerr: --help, and errors of the command line
};

using Program = int(int, char**, const tools::Start&);

/// Runs a program; each rank has options of its own, in which blanks separate words. If one rank waits for another that
/// has ended, a check fails.
inline Ends ends_of(Program& program, const std::vector<std::string>& options_of_ranks) {
  std::ostringstream printed;
  std::streambuf *const out = std::cout.rdbuf(printed.rdbuf()), *const err = std::cerr.rdbuf(printed.rdbuf());
  Ends ends{std::vector<End>(options_of_ranks.size()), {}};
  std::string failure;
  try {
    shardwise::simulate(static_cast<int>(options_of_ranks.size()), [&] {
      const auto rank = static_cast<std::size_t>(shardwise::world().rank());
      std::istringstream options("program " + options_of_ranks[rank]);
      std::vector<std::string> words;
      for (std::string word; options >> word;) words.push_back(word);
      std::vector<char*> arguments;
      for (std::string& word : words) arguments.push_back(word.data());
      arguments.push_back(nullptr);
      End& own = ends.of_ranks[rank];
      own.code = program(static_cast<int>(words.size()), arguments.data(),
                         [&](int, char**, const std::function<int()>& on_each_rank) {
                           try {
                             return on_each_rank();
                           } catch (const std::exception& error) {
                             own.error = error.what();
                             return 1;
                           }
                         });
    });
  } catch (const shardwise::SimulationError& error) {
    failure = error.what();
  }
  std::cout.rdbuf(out);
  std::cerr.rdbuf(err);
  CHECK(failure == "");
  ends.printed = printed.str();
  return ends;
}
/// The same options on all ranks.
inline Ends ends_of(Program& program, const std::string& options, int ranks) {
  return ends_of(program, std::vector(static_cast<std::size_t>(ranks), options));
}

/// Runs a program to its end, without an error.
inline void succeeds(Program& program, const std::vector<std::string>& options_of_ranks) {
  const Ends ends = ends_of(program, options_of_ranks);
  CAPTURE(options_of_ranks.front());
  CAPTURE(ends.printed);
  for (const End& end : ends.of_ranks) {
    CHECK(end.error == "");
    REQUIRE(end.code == 0);
  }
}
