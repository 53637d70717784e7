// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// What Shardwise costs the compiler: the translation units of compile_time/ are compiled in turn, and their
/// user CPU times compared. One has the includes that everybody needs, one trains an MLP with Shardwise, one
/// does the same by hand, and one also plans a training step of a 32-layer transformer inside the compiler.

#include <spawn.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <stdexcept>
#include <string>
#include <vector>

#include "median.hpp"

extern char** environ;

namespace {

/// Runs a program and returns the user CPU time, in seconds, of it and all that it started.
double user_seconds(std::vector<std::string> command) {
  std::vector<char*> arguments;
  for (auto& argument : command) arguments.push_back(argument.data());
  arguments.push_back(nullptr);
  pid_t child = 0;
  if (posix_spawnp(&child, arguments[0], nullptr, nullptr, arguments.data(), environ) != 0) {
    throw std::runtime_error(command[0] + " does not start");
  }
  int status = 0;
  rusage used{};
  if (wait4(child, &status, 0, &used) != child || !WIFEXITED(status) || WEXITSTATUS(status) != 0) {
    throw std::runtime_error(command[0] + " failed");
  }
  return static_cast<double>(used.ru_utime.tv_sec) + 1e-6 * static_cast<double>(used.ru_utime.tv_usec);
}

struct Unit {
  const char* name;
  const char* what;
  std::size_t beyond;  ///< the unit that it is compared with
  std::vector<double> seconds{};
};

void measure(const std::string& compiler, const std::vector<std::string>& options, int repetitions) {
  std::vector<Unit> units{{"bare_includes", "<mpi.h>, <Eigen/Core>", 0},
                          {"hand_mlp", "an MLP's training by hand", 0},
                          {"user_mlp", "the same with Shardwise", 0},
                          {"plan_transformer", "and 32 layers planned in the compiler", 2}};
  for (int i = 0; i < repetitions; ++i) {
    for (Unit& unit : units) {
      const std::string source = std::string(SHARDWISE_UNITS) + "/" + unit.name + ".cpp";
      std::vector<std::string> command{compiler, "-O0", "-c", source, "-o", "/dev/null"};
      command.insert(command.end(), options.begin(), options.end());
      unit.seconds.push_back(user_seconds(command));
    }
  }
  std::printf("compile time: %s -O0, user CPU seconds, medians of %d\n", compiler.c_str(), repetitions);
  for (const Unit& unit : units) {
    const Unit& base = units[unit.beyond];
    std::vector<double> more;
    for (std::size_t i = 0; i < unit.seconds.size(); ++i) more.push_back(unit.seconds[i] - base.seconds[i]);
    std::printf("%-18s %-40s %6.2f s", unit.name, unit.what, benchmarks::median(unit.seconds));
    if (&base != &unit) std::printf("  %6.2f s beyond %s", benchmarks::median(more), base.name);
    std::printf("\n");
  }
}

}  // namespace

int main(int argc, char** argv) {
  std::string compiler = SHARDWISE_COMPILER, flags = SHARDWISE_COMPILER_FLAGS;
  std::vector<std::string> more;
  int repetitions = 7;
  CLI::App app("Times the compilation of a user's translation unit.", "compile_time");
  app.option_defaults()->always_capture_default();
  app.add_option("--compiler", compiler, "the C++ compiler");
  app.add_option("--flags", flags, "a file with the library's flags")->check(CLI::ExistingFile);
  app.add_option("--repetitions", repetitions, "of each unit")->check(CLI::Range(1, 1000));
  app.add_option("options", more, "more options for the compiler, after --");
  CLI11_PARSE(app, argc, argv);
  try {
    more.insert(more.begin(), "@" + flags);
    measure(compiler, more, repetitions);
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "compile_time: %s\n", error.what());
    return 1;
  }
}
