// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Command lines that a program refuses, what it must say, and the files that they name.

#include <regex.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

struct Refusal {
  std::string options;   ///< without quotes: blanks separate words
  std::string expected;  ///< an extended regular expression
  int ranks = 2;
};

/// Whether the regular expression matches somewhere. As in CMake, "." is any character.
inline bool matches(const std::string& text, const std::string& expression) {
  regex_t compiled;
  REQUIRE_MESSAGE(::regcomp(&compiled, expression.c_str(), REG_EXTENDED | REG_NOSUB) == 0, expression);
  const bool found = ::regexec(&compiled, text.c_str(), 0, nullptr, 0) == 0;
  ::regfree(&compiled);
  return found;
}

/// A folder with files while a test runs.
class TestFiles {
 public:
  TestFiles()
      : folder_(std::filesystem::temp_directory_path() /
                ("shardwise-refusals-" + std::to_string(::getpid()))) {
    std::filesystem::create_directories(folder_);
  }
  ~TestFiles() { std::filesystem::remove_all(folder_); }
  TestFiles(const TestFiles&) = delete;
  TestFiles& operator=(const TestFiles&) = delete;

  std::string path(const std::string& name) const { return folder_ / name; }
  /// Writes a file; returns its path.
  std::string write(const std::string& name, const std::string& text) const {
    std::ofstream(folder_ / name) << text;
    return path(name);
  }

 private:
  std::filesystem::path folder_;
};

/// A file of speeds, with these too.
inline std::string speeds_text(const std::string& further) {
  return R"({"flops_float32": 1e11, "flops_bfloat16": 2e11, "attention_float32": 5e10, "attention_bfloat16": 6e10,)"
         R"( "memory_float32": 1e10, "memory_bfloat16": 1e10, "latency_within": 1e-5)" +
         further + "}";
}
