// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// A random order of 0, 1, … n - 1 without a list of them: each place is computed alone, in O(1) time and memory.
///
/// ```
/// constexpr Permutation order(1000003, seed, epoch);
/// Index first = order(0);   // every number below 1000003 once
/// ```

#include <cstdint>
#include <stdexcept>
#include <string>

#include <shardwise/kernel/random.hpp>
#include <shardwise/layout/index.hpp>

namespace shardwise {

/// A permutation of [0, n), a function of `n`, `seed` and `number`. It is the generalised Feistel cipher of Black
/// and Rogaway ("Ciphers with arbitrary finite domains", CT-RSA 2002) on a pair of digits, with Philox as its round
/// function; a result outside [0, n) is enciphered again ("cycle walking"). Fewer than one in √n places needs that.
class Permutation {
 public:
  /// Throws `std::invalid_argument` unless n ≥ 0.
  constexpr explicit Permutation(Index n, std::uint64_t seed, std::uint64_t number = 0)
      : size_(n), seed_(seed), number_(number) {
    if (n < 0) throw std::invalid_argument("Permutation: " + std::to_string(n) + " elements");
    const auto count = static_cast<std::uint64_t>(n);
    low_ = ceiling_root(count);
    high_ = low_ > 0 ? (count + low_ - 1) / low_ : 0;
  }

  constexpr Index size() const { return size_; }

  /// The number at a place. Throws `std::out_of_range` unless 0 ≤ place < size().
  constexpr Index operator()(Index place) const {
    if (place < 0 || place >= size_) {
      throw std::out_of_range("Permutation: place " + std::to_string(place) + " of " + std::to_string(size_));
    }
    auto value = static_cast<std::uint64_t>(place);
    do value = encipher(value);
    while (value >= static_cast<std::uint64_t>(size_));
    return static_cast<Index>(value);
  }

 private:
  /// Even, so that the digits end where they began; with 8, the orders of five numbers differ by some 15 % in frequency.
  static constexpr std::uint32_t rounds = 16;

  /// The least r with r² ≥ n.
  static constexpr std::uint64_t ceiling_root(std::uint64_t n) {
    std::uint64_t root = 0;
    for (std::uint64_t bit = std::uint64_t{1} << 31; bit > 0; bit >>= 1) {
      if ((root | bit) * (root | bit) < n) root |= bit;
    }
    return n > 0 ? root + 1 : 0;
  }

  /// A bijection of [0, low · high), which has n numbers and fewer than √n + 1 others.
  constexpr std::uint64_t encipher(std::uint64_t value) const {
    std::uint64_t left = value % low_, right = value / low_;
    for (std::uint32_t round = 0; round < rounds; ++round) {
      const std::uint64_t mixed = (left + random(round, right)) % (round % 2 == 0 ? low_ : high_);
      left = right;
      right = mixed;
    }
    return right * low_ + left;
  }

  /// Digits are below 2^32, as n is below 2^63. The last counter word is 0 in all streams of kernel/random.hpp.
  constexpr std::uint64_t random(std::uint32_t round, std::uint64_t digit) const {
    const auto words =
        kernel::philox({static_cast<std::uint32_t>(digit), static_cast<std::uint32_t>(number_),
                        static_cast<std::uint32_t>(number_ >> 32), 1 + round},
                       {static_cast<std::uint32_t>(seed_), static_cast<std::uint32_t>(seed_ >> 32)});
    return (std::uint64_t{words[0]} << 31) ^ words[1];  // left + this does not overflow
  }

  Index size_;
  std::uint64_t seed_, number_;
  std::uint64_t low_ = 0, high_ = 0;  // the digits' radices
};

}  // namespace shardwise
