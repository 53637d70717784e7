// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Random numbers that are fine enough to choose among more than 2^24 things.

#include <cstdint>

#include <shardwise/kernel/random.hpp>

// Implementation details: not part of the interface.
namespace shardwise::detail {

/// Uniform in [0, 1), a multiple of 2^-53: a function of a seed and the number of the draw.
constexpr double uniform_draw(std::uint64_t seed, std::uint64_t draw) {
  const auto words = kernel::random_block(seed, kernel::RandomStream::uniform, draw);
  return static_cast<double>(std::uint64_t{words[0]} << 21 | words[1] >> 11) * 0x1p-53;
}

}  // namespace shardwise::detail
