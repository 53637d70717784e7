// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Random words as functions of a seed and a number: Philox4x32-10 (Salmon, Moraes, Dror and Shaw, "Parallel random
/// numbers: as easy as 1, 2, 3", SC 2011), with the key `seed` and the counter (block, stream). Uniform numbers,
/// normal numbers, dropout masks and stochastic rounding use different streams.

#include <array>
#include <cstdint>

namespace shardwise::kernel {

/// The uses of random numbers; each has numbers of its own under one seed.
enum class RandomStream : std::uint32_t { uniform, normal, dropout, rounding };

/// Ten rounds of Philox on a counter of four words with a key of two.
[[gnu::always_inline]] constexpr inline std::array<std::uint32_t, 4> philox(
    std::array<std::uint32_t, 4> counter, std::array<std::uint32_t, 2> key) {
  std::uint32_t c0 = counter[0], c1 = counter[1], c2 = counter[2], c3 = counter[3], k0 = key[0], k1 = key[1];
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t p0 = std::uint64_t{0xD2511F53u} * c0, p1 = std::uint64_t{0xCD9E8D57u} * c2;
    c0 = static_cast<std::uint32_t>(p1 >> 32) ^ c1 ^ k0;
    c2 = static_cast<std::uint32_t>(p0 >> 32) ^ c3 ^ k1;
    c1 = static_cast<std::uint32_t>(p1);
    c3 = static_cast<std::uint32_t>(p0);
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return {c0, c1, c2, c3};
}

/// The four words for the indices 4 · block … 4 · block + 3.
[[gnu::always_inline]] constexpr inline std::array<std::uint32_t, 4> random_block(std::uint64_t seed,
                                                                                  RandomStream stream,
                                                                                  std::uint64_t block) {
  return philox({static_cast<std::uint32_t>(block), static_cast<std::uint32_t>(block >> 32),
                 static_cast<std::uint32_t>(stream), 0},
                {static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)});
}

}  // namespace shardwise::kernel
