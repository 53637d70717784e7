// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// A locale whose decimal point is a comma, for C and for C++, whatever locales the machine has.

#include <doctest/doctest.h>

#include <array>
#include <clocale>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <locale>
#include <string>

#include <unistd.h>

namespace shardwise::testing {

/// While it lives, "%.1f" prints "0,5", and a stream 1.234,5.
class CommaLocale {
 public:
  CommaLocale() : folder_(std::filesystem::temp_directory_path() / ("comma" + std::to_string(::getpid()))) {
    write_numeric(folder_ / "comma" / "LC_NUMERIC");
    ::setenv("LOCPATH", folder_.c_str(), 1);
    const bool is_set = std::setlocale(LC_NUMERIC, "comma") != nullptr;
    ::unsetenv("LOCPATH");
    REQUIRE(is_set);
    std::array<char, 8> text{};
    std::snprintf(text.data(), text.size(), "%.1f", 0.5);
    REQUIRE(std::string(text.data()) == "0,5");
    before_ = std::locale::global(std::locale(std::locale::classic(), new Punctuation));
  }
  CommaLocale(const CommaLocale&) = delete;
  CommaLocale& operator=(const CommaLocale&) = delete;
  ~CommaLocale() {
    std::locale::global(before_);
    std::setlocale(LC_NUMERIC, "C");
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }

 private:
  class Punctuation : public std::numpunct<char> {
    char do_decimal_point() const override { return ','; }
    char do_thousands_sep() const override { return '.'; }
    std::string do_grouping() const override { return "\3"; }
  };

  /// glibc's format, locale/localeinfo.h: a magic number, the number of items, where each begins, and the items.
  static void write_numeric(const std::filesystem::path& path) {
    const std::string items[] = {{',', 0},       {'.', 0},       {3, 3, 0},
                                 {',', 0, 0, 0}, {'.', 0, 0, 0}, {'U', 'T', 'F', '-', '8', 0}};
    constexpr std::uint32_t count = 6;
    std::string data;
    std::array<std::uint32_t, 2 + count> head{0x20031115u ^ std::uint32_t{LC_NUMERIC}, count};
    for (std::uint32_t i = 0; i < count; ++i) {
      data.resize((data.size() + 3) / 4 * 4);  // some are words
      head[2 + i] = static_cast<std::uint32_t>(sizeof head + data.size());
      data += items[i];
    }
    std::filesystem::create_directories(path.parent_path());
    std::ofstream file(path, std::ios::binary);
    file.write(reinterpret_cast<const char*>(head.data()), sizeof head);
    file.write(data.data(), static_cast<std::streamsize>(data.size()));
  }

  std::filesystem::path folder_;
  std::locale before_;
};

}  // namespace shardwise::testing
