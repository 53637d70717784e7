// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Products of a few rows with quantised weights, as in decoding, where reading the weights takes most of the time.
///
///     block_product(rows, out, groups, x, in, w, groups, y, out);   // y = x · wᵀ, with in = 32 · groups
///
/// Float additions have a fixed order: a result has the same bits with all instruction sets, and beside any other rows
/// and outputs. There are sixteen sums. For weights of 16 bits, sum l becomes fma(w, x, sum l) with numbers 2l and 2l +
/// 1 of each group. For weights of 8 and 4 bits, x is quantised, too, so that the product of a group is a sum of
/// integers, which is exact; for group g, sum g % 16 becomes fma(scale of w · scale of x, integer, that sum). At the
/// end, sums l and l + 8 are added for l < 8, then l and l + 4 for l < 4, and so on.
///
/// All rows of x, up to eight, take a group of w while it is in registers: w is read once. For one row of x, blocks
/// of 8 and 4 bits are taken several groups at a time. For more, those of several rows of w are interleaved, so that
/// a vector has the sums of as many outputs.

#include <shardwise/llm/bodies.hpp>
#include <shardwise/llm/decoding/block_product_x86.hpp>
#include <shardwise/llm/namespaces.hpp>

namespace shardwise::llm::kernel {

/// Instruction sets with a product of their own.
enum class Instructions { portable, avx2, avx512_vnni };

/// The best of those that this processor has.
inline Instructions best_instructions() {
#if defined(__x86_64__)
  const bool vnni = __builtin_cpu_supports("avx512vnni") && __builtin_cpu_supports("avx512vl");
  if (vnni && __builtin_cpu_supports("avx512bw")) return Instructions::avx512_vnni;
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return Instructions::avx2;  // has F16C
#endif
  return Instructions::portable;
}

namespace detail {

/// One number of y, of a row of x and a row of w.
inline float product_portable(Index groups, const SplitGroup* x, const Block16* w) {
  float sums[16] = {};
  for (Index g = 0; g < groups; ++g) {
    for (Index l = 0; l < 16; ++l) {
      sums[l] = std::fma(widen(w[g].values[2 * l]), x[g].even[l], sums[l]);
      sums[l] = std::fma(widen(w[g].values[2 * l + 1]), x[g].odd[l], sums[l]);
    }
  }
  return total_of_sums(sums);
}
template <WeightBlock Block>
float product_portable(Index groups, const SixteenGroups* x, const Block* w) {
  float sums[16] = {};
  std::int8_t left[32];
  for (Index g = 0; g < groups; ++g) {
    const SixteenGroups& unit = x[g / 16];
    int total = 0;
    unpack(w[g], left);
    for (Index i = 0; i < 32; ++i) total += left[i] * unit.values[g % 16][i];
    const float scale = static_cast<float>(w[g].scale) * unit.scales[g % 16];
    sums[g % 16] = std::fma(scale, static_cast<float>(total), sums[g % 16]);
  }
  return total_of_sums(sums);
}

/// Of the columns of y, computes the first so many that it has a faster way for, and returns their number.
template <WeightBlock Block>
Index first_columns([[maybe_unused]] Index rows, [[maybe_unused]] Index out, [[maybe_unused]] Index groups,
                    [[maybe_unused]] const Unit<Block>* x, [[maybe_unused]] const Block* w,
                    [[maybe_unused]] Index ldw, [[maybe_unused]] float* y, [[maybe_unused]] Index ldy,
                    [[maybe_unused]] Instructions set) {
  Index o = 0;
#if defined(__x86_64__)
  if constexpr (std::is_same_v<Block, Block16>) {
    for (; set == Instructions::avx2 && o < out; ++o)
      column_avx2<4>(rows, groups, x, w + o * ldw, y + o, ldy);
    if (set != Instructions::avx512_vnni) return o;
    if (rows > 1) {  // else w is read from front to back, which is what the processor prefetches best
      for (; o + 4 <= out; o += 4) columns_avx512<4, 4>(rows, groups, x, w + o * ldw, ldw, y + o, ldy);
    }
    for (; o < out; ++o) columns_avx512<4, 1>(rows, groups, x, w + o * ldw, ldw, y + o, ldy);
  } else if (rows > 1) {
    for (; set == Instructions::avx512_vnni && o + 16 <= out; o += 16) {
      const Block* at = w + o * ldw;
      const auto* ready = rows > 8 ? interleave_avx512(groups, at, ldw) : nullptr;
      columns_avx512<8>(rows, groups, x, at, ldw, ready, y + o, ldy);
    }
    for (; set != Instructions::portable && o + 8 <= out; o += 8) {
      const Block* at = w + o * ldw;
      const auto* ready = rows > 4 ? interleave_avx2(groups, at, ldw) : nullptr;
      columns_avx2<4>(rows, groups, x, at, ldw, ready, y + o, ldy);
    }
  }
#endif
  return o;
}

/// The product of at most 64 rows.
template <WeightBlock Block>
void product_of_rows(Index rows, Index out, Index groups, const float* x, Index ldx, const Block* w,
                     Index ldw, float* y, Index ldy, [[maybe_unused]] Instructions set) {
  const Unit<Block>* units = prepare_rows<Block>(rows, groups, x, ldx);
  float (*product)(Index, const Unit<Block>*, const Block*) = product_portable;
#if defined(__x86_64__)
  if constexpr (!std::is_same_v<Block, Block16>) {
    if (set == Instructions::avx2) product = product_avx2;
    if (set == Instructions::avx512_vnni) product = product_avx512;
  }
#endif
  for (Index o = first_columns(rows, out, groups, units, w, ldw, y, ldy, set); o < out; ++o) {
    for (Index r = 0; r < rows; ++r)
      y[r * ldy + o] = product(groups, units + r * units_of<Block>(groups), w + o * ldw);
  }
}

}  // namespace detail

/// y: [rows, out] = x · wᵀ with x: [rows, 32 · groups], w: [out, groups]; ldx, ldw and ldy are the distances between
/// the starts of rows, in elements. y overlaps neither. Unless weights have 16 bits, each group of x is rounded to
/// multiples of its largest magnitude / 127; magnitudes below 1.2e-35 in all of a group count as zero. NaN or infinity
/// in a row of x makes that row of y NaN; infinity may also give infinity beside weights of 16 bits. Reads w once for
/// each 64 rows, or 16 with weights of 16 bits. `set` is one that the processor has.
template <WeightBlock Block>
void block_product(Index rows, Index out, Index groups, const float* x, Index ldx, const Block* w, Index ldw,
                   float* y, Index ldy, Instructions set = best_instructions()) {
  constexpr Index most = std::is_same_v<Block, Block16> ? 16 : 64;
  for (; rows > 0; rows -= most, x += most * ldx, y += most * ldy)
    detail::product_of_rows(std::min(rows, most), out, groups, x, ldx, w, ldw, y, ldy, set);
}
SHARDWISE_LLM_COMPILE(block_product<Block16>)
SHARDWISE_LLM_COMPILE(block_product<Block8>)
SHARDWISE_LLM_COMPILE(block_product<Block4>)

}  // namespace shardwise::llm::kernel
