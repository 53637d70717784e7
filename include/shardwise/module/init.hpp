// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The distribution of a parameter's first value.

#include <cmath>
#include <cstdint>
#include <type_traits>

#include <shardwise/layout/index.hpp>

namespace shardwise {

/// The distribution of a parameter's first value.
struct Init {
  enum class Kind : std::uint8_t { constant, normal, uniform };
  Kind kind = Kind::constant;
  double scale = 0;

  static constexpr Init constant(double value) { return {Kind::constant, value}; }
  static constexpr Init normal(double deviation) { return {Kind::normal, deviation}; }
  /// Uniform in [-bound, bound).
  static constexpr Init uniform(double bound) { return {Kind::uniform, bound}; }
  /// Uniform with the bound 1/√fan_in, as PyTorch initialises its Linear layers.
  static constexpr Init fan_in(Index features) {
    if (std::is_constant_evaluated()) return uniform(1);
    return uniform(features > 0 ? 1 / std::sqrt(static_cast<double>(features)) : 0);
  }
};

}  // namespace shardwise
