// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Dropout whose mask is a function of the seed and the global index, so that it neither depends on the mesh
/// nor needs to be saved: the backward pass is the same function of the gradient.

#include <cstdint>

#include <shardwise/kernel/element.hpp>
#include <shardwise/kernel/random.hpp>

namespace shardwise::kernel {

namespace detail {
/// Words below it are dropped.
inline std::uint64_t dropout_threshold(double p) { return static_cast<std::uint64_t>(p * 0x1p32); }
}  // namespace detail

/// Whether the element survives; with probability 1 - p.
inline bool dropout_keeps(double p, std::uint64_t seed, std::uint64_t index) {
  return random_block(seed, RandomStream::dropout, index / 4)[index % 4] >= detail::dropout_threshold(p);
}

/// y[j] = x[j] / (1 - p) if dropout_keeps(p, seed, first_index + j), else 0. y may be x; 0 ≤ p ≤ 1.
template <class T>
void dropout(Index n, double p, std::uint64_t seed, std::uint64_t first_index, const T* x, T* y) {
  using C = compute_t<T>;
  const C factor = p < 1 ? static_cast<C>(1 / (1 - p)) : C{0};
  const std::uint64_t threshold = detail::dropout_threshold(p);
  const bool none = threshold >> 32;  // p == 1
  const auto first_kept = static_cast<std::uint32_t>(threshold);
  detail::random_words(n, seed, RandomStream::dropout, first_index,
                       [=](Index offset, const std::uint32_t* words, Index skipped, Index count) {
                         const T* in = x + offset;
                         T* out = y + offset;
                         words += skipped;
                         SHARDWISE_INDEPENDENT
                         for (Index j = 0; j < count; ++j) {
                           const C kept = widen(in[j]) * factor;
                           out[j] = narrow<T>(words[j] >= first_kept && !none ? kept : C{0});
                         }
                       });
}

}  // namespace shardwise::kernel
