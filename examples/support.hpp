// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// What the example programs share: options, plans beside recordings, and comparison with a dense
/// computation.

#include <CLI/CLI.hpp>
#include <cstdio>
#include <optional>
#include <string>

#include <shardwise/shardwise.hpp>

namespace examples {

namespace sw = shardwise;
using Dense = sw::RowMajorMatrix<double>;

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

/// The whole tensor on every rank, in double. Collective.
template <class X>
Dense dense(const X& tensor) {
  return sw::full_tensor(tensor).template cast<double>();
}

/// "[2, 3, 4]"
template <std::size_t Rank>
std::string shape_text(const std::array<sw::Index, Rank>& shape) {
  std::string text;
  for (sw::Index extent : shape) text += (text.empty() ? "[" : ", ") + std::to_string(extent);
  return text + "]";
}

/// Prints what was planned beside what was recorded; false if the communication differs.
template <class Plan>
bool report(bool prints, const char* title, const Plan& planned, const Plan& recorded) {
  if (prints) std::printf("%s", sw::plan_table(title, planned, "recorded", recorded).c_str());
  if (same_communication(planned, recorded)) return true;
  if (prints) std::printf("the recorded communication DIFFERS from the plan\n");
  return false;
}

/// Collects and prints errors relative to the largest element, and says whether all are within the tolerance.
class Comparison {
 public:
  Comparison(bool prints, double tolerance) : prints_(prints), tolerance_(tolerance) {
    if (prints_) std::printf("largest relative errors against a dense computation in double\n");
  }
  void add(const char* what, const Dense& found, const Dense& expected) {
    const double error = (found - expected).cwiseAbs().maxCoeff() / expected.cwiseAbs().maxCoeff();
    const bool good = error <= tolerance_;  // false for NaN
    within_ = within_ && good;
    if (prints_) std::printf("  %-28s %.2e%s\n", what, error, good ? "" : "   TOO LARGE");
  }
  bool within() const {
    if (prints_)
      std::printf("%s the tolerance of %.0e\n", within_ ? "all within" : "NOT all within", tolerance_);
    return within_;
  }

 private:
  bool prints_;
  double tolerance_;
  bool within_ = true;
};

}  // namespace examples
