// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Tests for NaN and infinity by their bits: under -fno-honor-nans, which no macro reveals, clang assumes that
/// std::isnan(x) is false.

#include <bit>
#include <cstdint>
#include <limits>

#include <shardwise/base/index.hpp>

namespace shardwise::detail {

/// The bits of |x|, as an integer that orders numbers as |x| does: infinity is above all numbers, and NaN above
/// infinity.
template <std::floating_point C>
constexpr auto magnitude_bits(C x) {
  using Bits = std::conditional_t<sizeof(C) == 8, std::int64_t, std::int32_t>;
  return std::bit_cast<Bits>(x) & std::numeric_limits<Bits>::max();
}
template <class C>
inline constexpr auto infinity = magnitude_bits(std::numeric_limits<C>::infinity());

constexpr bool is_nan(std::integral auto) { return false; }
constexpr bool is_nan(std::floating_point auto x) { return magnitude_bits(x) > infinity<decltype(x)>; }
constexpr bool is_infinite(std::floating_point auto x) { return magnitude_bits(x) == infinity<decltype(x)>; }
constexpr bool is_finite(std::floating_point auto x) { return magnitude_bits(x) < infinity<decltype(x)>; }

}  // namespace shardwise::detail
