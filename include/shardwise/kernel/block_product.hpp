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
/// 1 of each group. For weights of 8 and 4 bits, x is quantised, too, so that products within a group are sums of
/// integers, which are exact. Numbers 4l to 4l + 3 of every even group are multiplied and added up as integers, and sum
/// l becomes fma(scale of w · scale of x, integer, sum l); odd groups use sum 8 + l. At the end, sums l and l + 8 are
/// added for l < 8, then l and l + 4 for l < 4, and so on.

#include <shardwise/base/bodies.hpp>
#include <shardwise/kernel/weight_blocks.hpp>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace shardwise::kernel {

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

/// Two successive groups of a row of x. Beyond the end, all is zero. Instructions multiply unsigned by signed bytes; so
/// weights have a zero point added, and the corrections undo that.
struct alignas(64) GroupPair {
  std::int8_t values[64];        ///< x / scale, rounded, at most 127 in magnitude
  std::int32_t corrections[16];  ///< -zero point · the sum of four values
  float scales[16];              ///< that of the first group eight times, then that of the second
};

/// A group of a row of x for weights of 16 bits: numbers 0, 2, 4, … and 1, 3, 5, …
struct alignas(64) SplitGroup {
  float even[16], odd[16];
};

/// A row of x is an array of these for the product with such blocks; and the number of groups in each.
template <WeightBlock Block>
using Unit = std::conditional_t<std::is_same_v<Block, Block16>, SplitGroup, GroupPair>;
template <WeightBlock Block>
inline constexpr Index groups_in_unit = std::is_same_v<Block, Block16> ? 1 : 2;
template <WeightBlock Block>
constexpr Index units_of(Index groups) {
  return (groups + groups_in_unit<Block> - 1) / groups_in_unit<Block>;
}

/// Quantises x to [rows, (groups + 1) / 2].
template <WeightBlock Block>
void quantise_rows(Index rows, Index groups, const float* x, Index ldx, GroupPair* quantised) {
  constexpr int zero_point = std::is_same_v<Block, Block8> ? 128 : 8;
  const Index pairs = (groups + 1) / 2;
  for (Index r = 0; r < rows; ++r) {
    if (groups % 2 != 0) quantised[(r + 1) * pairs - 1] = {};
    for (Index g = 0; g < groups; ++g) {
      GroupPair& pair = quantised[r * pairs + g / 2];
      std::int8_t* values = pair.values + g % 2 * 32;
      const float scale = quantise_group(x + r * ldx + g * 32, values);
      for (Index l = 0; l < 8; ++l) {
        const std::int8_t* four = values + 4 * l;
        pair.corrections[g % 2 * 8 + l] = -zero_point * (four[0] + four[1] + four[2] + four[3]);
        pair.scales[g % 2 * 8 + l] = scale;
      }
    }
  }
}

/// x as [rows, units], in scratch memory.
template <WeightBlock Block>
const Unit<Block>* prepare_rows(Index rows, Index groups, const float* x, Index ldx) {
  auto* units = scratch<Unit<Block>, Unit<Block>>(rows * units_of<Block>(groups));
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
float product_portable(Index groups, const GroupPair* x, const Block* w) {
  float sums[16] = {};
  std::int8_t left[32];
  int products[32];
  for (Index g = 0; g < groups; ++g) {
    const std::int8_t* right = x[g / 2].values + g % 2 * 32;
    float* to = sums + g % 2 * 8;
    const float scale = static_cast<float>(w[g].scale) * x[g / 2].scales[g % 2 * 8];
    unpack(w[g], left);
    for (Index i = 0; i < 32; ++i) products[i] = left[i] * right[i];
    for (Index l = 0; l < 8; ++l) {
      const int* four = products + 4 * l;
      to[l] = std::fma(scale, static_cast<float>(four[0] + four[1] + four[2] + four[3]), to[l]);
    }
  }
  return total_of_sums(sums);
}

#if defined(__x86_64__)
#define SHARDWISE_AVX2 gnu::target("avx2,fma,f16c")
#define SHARDWISE_AVX512 gnu::target("avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512vnni")

/// The total of sixteen sums, in the same order.
[[SHARDWISE_AVX2, gnu::always_inline]] inline float total_of_sums(__m256 first, __m256 second) {
  const __m256 eight = _mm256_add_ps(first, second);
  const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1)),
               two = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}

/// The eight sums of a group. maddubs adds two products in 16 bits: at most 2 · 128 · 127.
[[SHARDWISE_AVX2, gnu::always_inline]] inline __m256i group_products(const Block8& w, __m256i x, __m256i) {
  const __m256i left = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(w.values));
  const __m256i twos = _mm256_maddubs_epi16(_mm256_abs_epi8(left), _mm256_sign_epi8(x, left));
  return _mm256_madd_epi16(twos, _mm256_set1_epi16(1));
}
[[SHARDWISE_AVX2, gnu::always_inline]] inline __m256i group_products(const Block4& w, __m256i x,
                                                                     __m256i corrections) {
  const __m128i pairs = _mm_loadu_si128(reinterpret_cast<const __m128i*>(w.pairs));
  const __m256i left = _mm256_set_m128i(_mm_srli_epi16(pairs, 4), pairs);
  const __m256i twos = _mm256_maddubs_epi16(_mm256_and_si256(left, _mm256_set1_epi8(15)), x);
  return _mm256_add_epi32(_mm256_madd_epi16(twos, _mm256_set1_epi16(1)), corrections);
}

[[SHARDWISE_AVX2]] inline float product_avx2(Index groups, const SplitGroup* x, const Block16* w) {
  __m256 sums[2] = {};
  for (Index g = 0; g < groups; ++g) {
    __builtin_prefetch(w + g + 8192 / sizeof(Block16));
#pragma GCC unroll 2
    for (Index half = 0; half < 2; ++half) {
      const __m256i twos = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(w[g].values) + half);
      const __m256 even = _mm256_castsi256_ps(_mm256_slli_epi32(twos, 16)),
                   odd = _mm256_castsi256_ps(_mm256_and_si256(twos, _mm256_set1_epi32(-65536)));
      sums[half] = _mm256_fmadd_ps(even, _mm256_load_ps(x[g].even + 8 * half), sums[half]);
      sums[half] = _mm256_fmadd_ps(odd, _mm256_load_ps(x[g].odd + 8 * half), sums[half]);
    }
  }
  return total_of_sums(sums[0], sums[1]);
}
template <WeightBlock Block>
[[SHARDWISE_AVX2]] float product_avx2(Index groups, const GroupPair* x, const Block* w) {
  __m256 sums[2] = {};
  for (Index g = 0; g < groups; g += 2) {
    __builtin_prefetch(w + g + 8192 / sizeof(Block));
#pragma GCC unroll 2
    for (Index odd = 0; odd < 2; ++odd) {
      if (g + odd == groups) break;
      const GroupPair& pair = x[g / 2];
      const auto* values = reinterpret_cast<const __m256i*>(pair.values) + odd;
      const auto* corrections = reinterpret_cast<const __m256i*>(pair.corrections) + odd;
      const __m256 scale = _mm256_cvtph_ps(_mm_set1_epi16(std::bit_cast<std::int16_t>(w[g + odd].scale)));
      const __m256 both = _mm256_mul_ps(scale, _mm256_load_ps(pair.scales + 8 * odd));
      sums[odd] = _mm256_fmadd_ps(both, _mm256_cvtepi32_ps(group_products(w[g + odd], *values, *corrections)),
                                  sums[odd]);
    }
  }
  return total_of_sums(sums[0], sums[1]);
}

/// Two successive blocks as unsigned bytes, plus the zero point; and the first scale eight times, then the second.
/// Blocks are sequences of 16 bits. (g++ 12 warns of intrinsics without a mask.)
struct TwoBlocks {
  __m512i bytes;
  __m512 scales;
};
[[SHARDWISE_AVX512, gnu::always_inline]] inline __m512 scales_of(__m512i words, __m512i places) {
  const __m512i scales = _mm512_maskz_permutexvar_epi16(~0u, places, words);
  return _mm512_maskz_cvtph_ps(0xffff, _mm512_maskz_extracti64x4_epi64(0xf, scales, 0));
}
[[SHARDWISE_AVX512, gnu::always_inline]] inline TwoBlocks two_blocks(const Block8* w) {
  const __m512i first = _mm512_castsi256_si512(_mm256_loadu_epi8(w[0].values));
  const __m512i both = _mm512_mask_broadcast_i64x4(first, 0xf0, _mm256_loadu_epi8(w[1].values));
  const __m512i places = _mm512_castsi256_si512(_mm256_set_m128i(_mm_set1_epi16(17), _mm_setzero_si128()));
  return {_mm512_xor_si512(both, _mm512_set1_epi8(-128)), scales_of(_mm512_loadu_epi8(w), places)};
}
[[SHARDWISE_AVX512, gnu::always_inline]] inline TwoBlocks two_blocks(const Block4* w) {
  const __m512i words = _mm512_maskz_loadu_epi16((1u << 18) - 1, w);
  const __m512i places = _mm512_set_epi16(17, 16, 15, 14, 13, 12, 11, 10, 17, 16, 15, 14, 13, 12, 11, 10,  //
                                          8, 7, 6, 5, 4, 3, 2, 1, 8, 7, 6, 5, 4, 3, 2, 1);
  const __m512i pairs = _mm512_maskz_permutexvar_epi16(~0u, places, words);
  const __m512i shifts = _mm512_setr_epi64(0, 0, 4, 4, 0, 0, 4, 4);
  const __m512i scales = _mm512_castsi256_si512(_mm256_set_m128i(_mm_set1_epi16(9), _mm_setzero_si128()));
  return {_mm512_and_si512(_mm512_maskz_srlv_epi64(0xff, pairs, shifts), _mm512_set1_epi8(15)),
          scales_of(words, scales)};
}

[[SHARDWISE_AVX512, gnu::always_inline]] inline float total_of_sums(__m512 sums) {
  const __m512d halves = _mm512_castps_pd(sums);
  return total_of_sums(_mm256_castpd_ps(_mm512_maskz_extractf64x4_pd(0xf, halves, 0)),
                       _mm256_castpd_ps(_mm512_maskz_extractf64x4_pd(0xf, halves, 1)));
}

/// Adds a unit of R rows of x, and C rows of w.
template <int R, int C>
[[SHARDWISE_AVX512, gnu::always_inline]] inline void add_unit(__m512 (&sums)[R][C], const SplitGroup* x,
                                                              Index ldx, const Block16* w, Index ldw) {
#pragma GCC unroll 4
  for (int c = 0; c < C; ++c) {
    const __m512i twos = _mm512_loadu_si512(w[c * ldw].values);
    const __m512 even = _mm512_castsi512_ps(_mm512_maskz_slli_epi32(0xffff, twos, 16)),
                 odd = _mm512_castsi512_ps(_mm512_and_si512(twos, _mm512_set1_epi32(-65536)));
#pragma GCC unroll 4
    for (int r = 0; r < R; ++r) {
      sums[r][c] = _mm512_fmadd_ps(even, _mm512_load_ps(x[r * ldx].even), sums[r][c]);
      sums[r][c] = _mm512_fmadd_ps(odd, _mm512_load_ps(x[r * ldx].odd), sums[r][c]);
    }
  }
}
template <int R, int C, WeightBlock Block>
[[SHARDWISE_AVX512, gnu::always_inline]] inline void add_unit(__m512 (&sums)[R][C], const GroupPair* x,
                                                              Index ldx, const Block* w, Index ldw) {
  __m512i values[R], corrections[R];
  __m512 scales[R];
#pragma GCC unroll 4
  for (int r = 0; r < R; ++r) {
    values[r] = _mm512_load_si512(x[r * ldx].values);
    corrections[r] = _mm512_load_si512(x[r * ldx].corrections);
    scales[r] = _mm512_load_ps(x[r * ldx].scales);
  }
#pragma GCC unroll 4
  for (int c = 0; c < C; ++c) {
    const TwoBlocks left = two_blocks(w + c * ldw);
#pragma GCC unroll 4
    for (int r = 0; r < R; ++r) {
      const __m512i dot = _mm512_dpbusd_epi32(corrections[r], left.bytes, values[r]);
      sums[r][c] = _mm512_fmadd_ps(_mm512_mul_ps(left.scales, scales[r]),
                                   _mm512_maskz_cvtepi32_ps(0xffff, dot), sums[r][c]);
    }
  }
}

/// y: [rows, C] of w: [C, groups], R rows at a time.
template <int R, int C, WeightBlock Block>
[[SHARDWISE_AVX512]] void columns_avx512(Index rows, Index groups, const Unit<Block>* x, const Block* w,
                                         Index ldw, float* y, Index ldy) {
  const Index ldx = units_of<Block>(groups);
  constexpr Index ahead = 8192 / sizeof(Block), each = groups_in_unit<Block>;
  for (; rows >= R; rows -= R, x += R * ldx, y += R * ldy) {
    __m512 sums[R][C] = {};
    for (Index unit = 0; unit < groups / each; ++unit) {
#pragma GCC unroll 4
      for (int c = 0; c < C; ++c) __builtin_prefetch(w + c * ldw + each * unit + ahead);
      add_unit(sums, x + unit, ldx, w + each * unit, ldw);
    }
    if (groups % each != 0) {
      Block last[C][2] = {};
      for (int c = 0; c < C; ++c) last[c][0] = w[c * ldw + groups - 1];
      add_unit(sums, x + groups / each, ldx, last[0], 2);
    }
#pragma GCC unroll 4
    for (int r = 0; r < R; ++r) {
#pragma GCC unroll 4
      for (int c = 0; c < C; ++c) y[r * ldy + c] = total_of_sums(sums[r][c]);
    }
  }
  if constexpr (R > 1) columns_avx512<R / 2, C>(rows, groups, x, w, ldw, y, ldy);
}
#undef SHARDWISE_AVX2
#undef SHARDWISE_AVX512
#endif

/// The product of rows that fit into a cache beside the weights.
template <WeightBlock Block>
void product_of_rows(Index rows, Index out, Index groups, const float* x, Index ldx, const Block* w,
                     Index ldw, float* y, Index ldy, [[maybe_unused]] Instructions set) {
  const Unit<Block>* units = prepare_rows<Block>(rows, groups, x, ldx);
  float (*product)(Index, const Unit<Block>*, const Block*) = product_portable;
#if defined(__x86_64__)
  if (set == Instructions::avx512_vnni) {
    Index o = 0;
    if (rows > 1) {  // else w is read from front to back, which is what the processor prefetches best
      for (; o + 4 <= out; o += 4) columns_avx512<4, 4>(rows, groups, units, w + o * ldw, ldw, y + o, ldy);
    }
    for (; o < out; ++o) columns_avx512<4, 1>(rows, groups, units, w + o * ldw, ldw, y + o, ldy);
    return;
  }
  if (set == Instructions::avx2) product = product_avx2;
#endif
  for (Index o = 0; o < out; ++o) {
    for (Index r = 0; r < rows; ++r)
      y[r * ldy + o] = product(groups, units + r * units_of<Block>(groups), w + o * ldw);
  }
}

}  // namespace detail

/// y: [rows, out] = x · wᵀ with x: [rows, 32 · groups], w: [out, groups]; ldx, ldw and ldy are the distances between
/// the starts of rows, in elements. y overlaps neither. Unless weights have 16 bits, each group of x is rounded to
/// multiples of its largest magnitude / 127; magnitudes below 1.2e-35 in all of a group count as zero. NaN or infinity
/// in a row of x makes that row of y NaN; infinity may also give infinity beside weights of 16 bits. Reads w once for
/// each 16 rows. `set` is one that the processor has.
template <WeightBlock Block>
void block_product(Index rows, Index out, Index groups, const float* x, Index ldx, const Block* w, Index ldw,
                   float* y, Index ldy, Instructions set = best_instructions()) {
  constexpr Index most = 16;
  for (; rows > 0; rows -= most, x += most * ldx, y += most * ldy)
    detail::product_of_rows(std::min(rows, most), out, groups, x, ldx, w, ldw, y, ldy, set);
}
SHARDWISE_COMPILE(block_product<Block16>)
SHARDWISE_COMPILE(block_product<Block8>)
SHARDWISE_COMPILE(block_product<Block4>)

}  // namespace shardwise::kernel
