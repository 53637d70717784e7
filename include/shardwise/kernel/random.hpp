// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Random numbers that depend only on a seed and a global index, so an element gets the same number on any mesh.
/// The number for index i is computed in `double` from word i mod 4 of `random_block` i / 4, and rounded to the
/// element type, so that `float` and `double` agree.
///
///     fill_normal(n, seed, first_index, 0., 0.02, y);   // y[j] = 0.02 · normal(seed, first_index + j)

#include <algorithm>

#include <shardwise/base/bodies.hpp>
#include <shardwise/kernel/element.hpp>
#include <shardwise/kernel/philox.hpp>

namespace shardwise::kernel {

namespace detail {

/// A multiple of 2^-24 in [0, 1): exact in float.
constexpr double unit_interval(std::uint32_t word) { return (word >> 8) * 0x1p-24; }

/// Elements whose words are below this are dropped.
inline std::uint64_t dropout_threshold(double p) { return static_cast<std::uint64_t>(p * 0x1p32); }

/// Box-Muller: each pair of words gives two independent normal numbers.
inline double box_muller(std::uint32_t first, std::uint32_t second, bool odd) {
  const double radius = std::sqrt(-2 * std::log((static_cast<double>(first) + 1) * 0x1p-32));
  const double angle = second * (0x1p-31 * 3.14159265358979323846);
  return radius * (odd ? std::sin(angle) : std::cos(angle));
}

/// Calls f(done, count, words) for successive runs; words[j] belongs to index first_index + done + j, for j < count.
template <class F>
void random_words(Index n, std::uint64_t seed, RandomStream stream, std::uint64_t first_index, F f) {
  constexpr Index blocks = 256;
  std::uint32_t words[4 * blocks];
  for (Index done = 0; done < n;) {
    const std::uint64_t index = first_index + static_cast<std::uint64_t>(done), first_block = index / 4;
    const Index skipped = static_cast<Index>(index % 4), count = std::min(n - done, 4 * blocks - skipped);
    const Index needed = (skipped + count + 3) / 4;
    for (Index b = 0; b < needed; ++b) {
      const auto four = random_block(seed, stream, first_block + static_cast<std::uint64_t>(b));
      words[4 * b] = four[0];
      words[4 * b + 1] = four[1];
      words[4 * b + 2] = four[2];
      words[4 * b + 3] = four[3];
    }
    f(done, count, words + skipped);
    done += count;
  }
}

}  // namespace detail

/// Uniform in [0, 1), a multiple of 2^-24.
constexpr double uniform(std::uint64_t seed, std::uint64_t index) {
  return detail::unit_interval(random_block(seed, RandomStream::uniform, index / 4)[index % 4]);
}

/// Normal with mean 0 and standard deviation 1; at most 6.66 in magnitude.
inline double normal(std::uint64_t seed, std::uint64_t index) {
  const auto words = random_block(seed, RandomStream::normal, index / 4);
  const std::uint64_t pair = index % 4 / 2 * 2;
  return detail::box_muller(words[pair], words[pair + 1], index % 2 == 1);
}

/// y[j] = low + (high - low) · uniform(seed, first_index + j)
template <class T>
void fill_uniform(Index n, std::uint64_t seed, std::uint64_t first_index, double low, double high, T* y) {
  const auto put = [=](Index done, Index count, const std::uint32_t* words) {
    for (Index j = 0; j < count; ++j) {
      const double value = low + (high - low) * detail::unit_interval(words[j]);
      y[done + j] = narrow<T>(static_cast<compute_t<T>>(value));
    }
  };
  detail::random_words(n, seed, RandomStream::uniform, first_index, put);
}
SHARDWISE_COMPILE_EACH(fill_uniform)

/// y[j] = mean + deviation · normal(seed, first_index + j)
template <class T>
void fill_normal(Index n, std::uint64_t seed, std::uint64_t first_index, double mean, double deviation,
                 T* y) {
  const auto put = [=](Index done, Index count, const std::uint32_t* words) {
    for (Index j = 0; j < count; ++j) {
      const bool odd = (first_index + static_cast<std::uint64_t>(done + j)) % 2 == 1;
      const std::uint32_t* pair = words + j - odd;
      const double value = mean + deviation * detail::box_muller(pair[0], pair[1], odd);
      y[done + j] = narrow<T>(static_cast<compute_t<T>>(value));
    }
  };
  detail::random_words(n, seed, RandomStream::normal, first_index, put);
}
SHARDWISE_COMPILE_EACH(fill_normal)

/// Whether dropout keeps an element; the probability is 1 - p.
inline bool dropout_keeps(double p, std::uint64_t seed, std::uint64_t index) {
  return random_block(seed, RandomStream::dropout, index / 4)[index % 4] >= detail::dropout_threshold(p);
}

/// y[j] = x[j] / (1 - p) if dropout_keeps(p, seed, first_index + j), else 0. y may be x; 0 ≤ p ≤ 1. The mask is
/// independent of the mesh and need not be saved: the backward pass applies the same function to the gradient.
template <class T>
void dropout(Index n, double p, std::uint64_t seed, std::uint64_t first_index, const T* x, T* y) {
  using C = compute_t<T>;
  const C factor = p < 1 ? static_cast<C>(1 / (1 - p)) : C{0};
  const std::uint64_t threshold = detail::dropout_threshold(p);
  const bool none = threshold >> 32;  // p == 1
  const auto first_kept = static_cast<std::uint32_t>(threshold);
  const auto put = [=](Index done, Index count, const std::uint32_t* words) {
    SHARDWISE_INDEPENDENT
    for (Index j = 0; j < count; ++j) {
      y[done + j] = narrow<T>(words[j] >= first_kept && !none ? widen(x[done + j]) * factor : C{0});
    }
  };
  detail::random_words(n, seed, RandomStream::dropout, first_index, put);
}
SHARDWISE_COMPILE_EACH(dropout)

/// x in `bfloat16`: rounded away from 0 with the probability that makes x the mean, by 16 random bits.
[[gnu::always_inline]] inline Eigen::bfloat16 round_stochastically(float x, std::uint32_t random) {
  const std::uint32_t rounded = (std::bit_cast<std::uint32_t>(x) + (random & 0xffffu)) >> 16;
  return Eigen::bfloat16_impl::raw_uint16_to_bfloat16(
      static_cast<std::uint16_t>(std::isnan(x) ? 0x7fc0u : rounded));
}
/// y[j] = x[j], stochastically rounded by half of the word of index first_index + j; and unless x2 is null,
/// y2[j] = x2[j], by the other half.
template <class C>
void round_stochastically(Index n, std::uint64_t seed, std::uint64_t first_index, const C* x,
                          Eigen::bfloat16* y, const C* x2 = nullptr, Eigen::bfloat16* y2 = nullptr) {
  const auto put = [=](Index done, Index count, const std::uint32_t* random) {
    const auto round = [=](const C* from, Eigen::bfloat16* to, int shift) {
      SHARDWISE_INDEPENDENT
      for (Index j = 0; j < count; ++j)
        to[done + j] = round_stochastically(static_cast<float>(from[done + j]), random[j] >> shift);
    };
    round(x, y, 0);
    if (x2) round(x2, y2, 16);
  };
  detail::random_words(n, seed, RandomStream::rounding, first_index, put);
}

}  // namespace shardwise::kernel
