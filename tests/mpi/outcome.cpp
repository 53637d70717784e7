// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// Compiled once for all programs.

#include "outcome.hpp"

#include "ops_check.hpp"

namespace shardwise::testing {

Numbers whole(const detail::AnyTensor& x) { return gather(x).values; }
Outcome whole(const NamedTensors& tensors) {
  Outcome all;
  for (const auto& [name, tensor] : tensors) all[name] = whole(tensor);
  return all;
}

Outcome values_of(const std::vector<detail::NamedParameter>& parameters) {
  Outcome all;
  for (const auto& [name, cell] : parameters) all[name] = whole(cell->stored);
  return all;
}
Outcome gradients_of(const std::vector<detail::NamedParameter>& parameters) {
  Outcome all;
  for (const auto& [name, cell] : parameters) {
    if (!cell->layouts.frozen) all[name] = whole(cell->finished_gradient());
  }
  return all;
}

double error(const Numbers& found, const Numbers& expected) {
  if (found.size() != expected.size() || found.empty()) return HUGE_VAL;
  double difference = 0, largest = 1;
  for (std::size_t i = 0; i < found.size(); ++i) {
    const double d = std::abs(found[i] - expected[i]);
    difference = std::isfinite(d) ? std::max(difference, d) : HUGE_VAL;
    largest = std::max(largest, std::abs(expected[i]));
  }
  return difference / largest;
}

double relative_error(const detail::AnyTensor& found, const detail::AnyTensor& expected) {
  const Numbers right = whole(expected);
  double largest = 1e-300;
  for (const double x : right) largest = std::max(largest, std::abs(x));
  return error(whole(found), right) * std::max(1., largest) / largest;
}

void check_outcome(const Outcome& found, const Outcome& expected) {
  CHECK(found.size() == expected.size());
  for (const auto& entry : found) {
    INFO(entry.first);
    REQUIRE(expected.count(entry.first) == 1);
    CHECK(error(entry.second, expected.at(entry.first)) < 1e-13);
  }
}

}  // namespace shardwise::testing
