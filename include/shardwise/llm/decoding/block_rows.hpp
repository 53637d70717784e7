// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Rows of x as the products with quantised weights take them (see block_product.hpp).

#include <numeric>

#include <shardwise/llm/decoding/weight_blocks.hpp>
#include <shardwise/llm/namespaces.hpp>

namespace shardwise::llm::kernel::detail {

/// Sixteen successive groups of a row of x. Beyond the end, all is zero. Instructions multiply unsigned by signed
/// bytes; so weights have a zero point added, and the corrections undo that.
struct alignas(64) SixteenGroups {
  std::int8_t values[16][numbers_per_block];  ///< x / scale, rounded, at most 127 in magnitude
  std::int32_t corrections[16];               ///< -zero point · the sum of the values
  float scales[16];
};

/// A group of a row of x for weights of 16 bits: numbers 0, 2, 4, … and 1, 3, 5, …
struct alignas(64) SplitGroup {
  float even[16], odd[16];
};

/// A row of x is an array of these for the product with such blocks; and the number of groups in each.
template <WeightBlock Block>
using Unit = std::conditional_t<std::is_same_v<Block, Block16>, SplitGroup, SixteenGroups>;
template <WeightBlock Block>
inline constexpr Index groups_in_unit = std::is_same_v<Block, Block16> ? 1 : 16;
template <WeightBlock Block>
constexpr Index units_of(Index groups) {
  return (groups + groups_in_unit<Block> - 1) / groups_in_unit<Block>;
}

/// Quantises x to [rows, units].
template <WeightBlock Block>
void quantise_rows(Index rows, Index groups, const float* x, Index ldx, SixteenGroups* units) {
  constexpr int zero_point = std::is_same_v<Block, Block8> ? 128 : 8;
  const Index in_row = units_of<Block>(groups);
  for (Index r = 0; r < rows; ++r) {
    if (groups % 16 != 0) units[(r + 1) * in_row - 1] = {};
    for (Index g = 0; g < groups; ++g) {
      SixteenGroups& unit = units[r * in_row + g / 16];
      std::int8_t* values = unit.values[g % 16];
      unit.scales[g % 16] = quantise_group(x + r * ldx + g * 32, values);
      unit.corrections[g % 16] = -zero_point * std::accumulate(values, values + 32, 0);
    }
  }
}

/// x as [rows, units], in scratch memory. Zeros follow, to a multiple of eight rows.
template <WeightBlock Block>
const Unit<Block>* prepare_rows(Index rows, Index groups, const float* x, Index ldx) {
  const Index in_row = units_of<Block>(groups), padded = (rows + 7) / 8 * 8;
  auto* units = scratch<Unit<Block>, Unit<Block>>(padded * in_row);
  if (rows > 1) std::fill(units + rows * in_row, units + padded * in_row, Unit<Block>{});
  if constexpr (std::is_same_v<Block, Block16>) {
    for (Index r = 0; r < rows; ++r) {
      for (Index i = 0; i < groups * 32; i += 2) {
        SplitGroup& unit = units[r * groups + i / 32];
        unit.even[i % 32 / 2] = x[r * ldx + i];
        unit.odd[i % 32 / 2] = x[r * ldx + i + 1];
      }
    }
  } else {
    quantise_rows<Block>(rows, groups, x, ldx, units);
  }
  return units;
}

/// The total of sixteen sums.
[[gnu::always_inline]] inline float total_of_sums(float* sums) {
  for (Index half = 8; half > 0; half /= 2) {
    for (Index l = 0; l < half; ++l) sums[l] += sums[l + half];
  }
  return sums[0];
}

}  // namespace shardwise::llm::kernel::detail
