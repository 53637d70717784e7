// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The command line of a program: its options, their help and errors, and a file with options.

#include <CLI/CLI.hpp>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>

/// The value of an option with the name of a file.
template <>
constexpr const char* CLI::detail::type_name<std::filesystem::path>() {
  return "PATH";
}

namespace tools {

/// A program's options, with those that all programs have: --help, --version, --config and --print-config. --config
/// reads a TOML file whose keys are the names of options; options of the command line take precedence.
class CommandLine : public CLI::App {
 public:
  /// `name` is that of the program.
  CommandLine(std::string description, std::string name);

  /// The end of a program that does not run: after --help, --version and --print-config, or an error.
  struct Ending {
    int code;
    std::function<int()> print;  ///< returns the exit code
  };
  /// Parses the options. Returns nothing if the program is to run.
  std::optional<Ending> read(int argc, char** argv);

  /// The same for a program that is one process. Returns its exit code if it does not run.
  std::optional<int> read_alone(int argc, char** argv);
  /// Answers --help or --version alone without MPI, if no launcher such as mpirun started the program.
  std::optional<int> answer_without_mpi(int argc, char** argv);
  /// Prints the note of `read` on a deprecated use, if there is one.
  void print_note() const;

 private:
  class ConfigFile;
  bool print_config_ = false;
  std::string note_;
};

/// The command that started the program, with its name alone for its path.
std::string command_of(int argc, char** argv);

/// The exit code of a program that ended with `code`: 1 if its output could not be written completely.
int after_output(int code);

/// A text from a file for a terminal, without control characters and limited in length.
std::string shown(std::string text);

}  // namespace tools
