// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Products of a few rows with quantised weights, as in decoding, where reading the weights takes most of the time.
///
///     block_product(rows, out, groups, x, in, w, groups, y, out);   // y = x · wᵀ, with in = 32 · groups
///
/// x is quantised, too, so that products within a group are sums of integers, which are exact. The remaining float
/// additions have a fixed order: a result has the same bits with all instruction sets, and beside any other rows and
/// outputs. Numbers 4l to 4l + 3 of every even group are multiplied and added up as integers, and sum l becomes
/// fma(scale of w · scale of x, integer, sum l). Odd groups use sum 8 + l. At the end, sums l and l + 8 are added for
/// l < 8, then l and l + 4 for l < 4, and so on.

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

/// x as [rows, (groups + 1) / 2], in scratch memory.
template <WeightBlock Block>
const GroupPair* quantise_rows(Index rows, Index groups, const float* x, Index ldx) {
  constexpr int zero_point = std::is_same_v<Block, Block8> ? 128 : 8;
  const Index pairs = (groups + 1) / 2;
  auto* quantised = scratch<GroupPair, GroupPair>(rows * pairs);
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
  return quantised;
}

/// The total of sixteen sums.
[[gnu::always_inline]] inline float total(float* sums) {
  for (Index half = 8; half > 0; half /= 2) {
    for (Index l = 0; l < half; ++l) sums[l] += sums[l + half];
  }
  return sums[0];
}

/// One number of y, of a row of x and a row of w.
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
  return total(sums);
}

#if defined(__x86_64__)
#define SHARDWISE_AVX2 gnu::target("avx2,fma,f16c")
#define SHARDWISE_AVX512 gnu::target("avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512vnni")

/// The eight sums of a group. maddubs adds two products in 16 bits: at most 2 · 128 · 127.
[[SHARDWISE_AVX2, gnu::always_inline]] inline __m256i dot(const Block8& w, __m256i x, __m256i) {
  const __m256i left = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(w.values));
  const __m256i twos = _mm256_maddubs_epi16(_mm256_abs_epi8(left), _mm256_sign_epi8(x, left));
  return _mm256_madd_epi16(twos, _mm256_set1_epi16(1));
}
[[SHARDWISE_AVX2, gnu::always_inline]] inline __m256i dot(const Block4& w, __m256i x, __m256i corrections) {
  const __m128i pairs = _mm_loadu_si128(reinterpret_cast<const __m128i*>(w.pairs));
  const __m256i left = _mm256_set_m128i(_mm_srli_epi16(pairs, 4), pairs);
  const __m256i twos = _mm256_maddubs_epi16(_mm256_and_si256(left, _mm256_set1_epi8(15)), x);
  return _mm256_add_epi32(_mm256_madd_epi16(twos, _mm256_set1_epi16(1)), corrections);
}

template <WeightBlock Block>
[[SHARDWISE_AVX2]] float product_avx2(Index groups, const GroupPair* x, const Block* w) {
  __m256 sums[2] = {};
  for (Index g = 0; g < groups; g += 2) {
    __builtin_prefetch(w + g + 4096 / sizeof(Block));
#pragma GCC unroll 2
    for (Index odd = 0; odd < 2; ++odd) {
      if (g + odd == groups) break;
      const GroupPair& pair = x[g / 2];
      const auto* values = reinterpret_cast<const __m256i*>(pair.values) + odd;
      const auto* corrections = reinterpret_cast<const __m256i*>(pair.corrections) + odd;
      const __m256 scale = _mm256_cvtph_ps(_mm_set1_epi16(std::bit_cast<std::int16_t>(w[g + odd].scale)));
      const __m256 both = _mm256_mul_ps(scale, _mm256_load_ps(pair.scales + 8 * odd));
      sums[odd] =
          _mm256_fmadd_ps(both, _mm256_cvtepi32_ps(dot(w[g + odd], *values, *corrections)), sums[odd]);
    }
  }
  alignas(32) float all[16];
  _mm256_store_ps(all, sums[0]);
  _mm256_store_ps(all + 8, sums[1]);
  return total(all);
}

/// Two successive blocks plus the zero point, as unsigned bytes. (g++ 12 warns of intrinsics without a mask.)
[[SHARDWISE_AVX512, gnu::always_inline]] inline __m512i bytes_of_two(const Block8* w) {
  const __m512i first = _mm512_castsi256_si512(_mm256_loadu_epi8(w[0].values));
  const __m512i both = _mm512_mask_broadcast_i64x4(first, 0xf0, _mm256_loadu_epi8(w[1].values));
  return _mm512_xor_si512(both, _mm512_set1_epi8(-128));
}
[[SHARDWISE_AVX512, gnu::always_inline]] inline __m512i bytes_of_two(const Block4* w) {
  const __m512i first = _mm512_castsi256_si512(_mm256_broadcastsi128_si256(_mm_loadu_epi8(w[0].pairs)));
  const __m512i both = _mm512_mask_broadcast_i32x4(first, 0xff00, _mm_loadu_epi8(w[1].pairs));
  const __m512i shifts = _mm512_setr_epi64(0, 0, 4, 4, 0, 0, 4, 4);
  return _mm512_and_si512(_mm512_maskz_srlv_epi64(0xff, both, shifts), _mm512_set1_epi8(15));
}

/// The scale of the first block eight times, then that of the second, from what they have of 64 bytes.
template <WeightBlock Block>
[[SHARDWISE_AVX512, gnu::always_inline]] inline __m512 scales_of_two(const Block* w) {
  const __m128i first = _mm_setzero_si128(), second = _mm_set1_epi16(sizeof(Block) / 2);
  const __m512i words = _mm512_castsi256_si512(_mm256_set_m128i(second, first));
  constexpr __mmask32 there = sizeof(Block) < 32 ? (1u << sizeof(Block)) - 1 : ~0u;
  const __m512i both = _mm512_maskz_loadu_epi16(there, w);
  const __m512i scales = _mm512_maskz_permutexvar_epi16(~0u, words, both);
  return _mm512_maskz_cvtph_ps(0xffff, _mm512_maskz_extracti64x4_epi64(0xf, scales, 0));
}

/// Adds a pair of groups of R rows of x, and two rows of w.
template <int R, WeightBlock Block>
[[SHARDWISE_AVX512, gnu::always_inline]] inline void add_pair(__m512 (&sums)[R][2], const GroupPair* x,
                                                              Index ldx, const Block* w, Index ldw) {
#pragma GCC unroll 2
  for (int o = 0; o < 2; ++o) {
    const __m512i left = bytes_of_two(w + o * ldw);
    const __m512 scale = scales_of_two(w + o * ldw);
#pragma GCC unroll 4
    for (int r = 0; r < R; ++r) {
      const GroupPair& pair = x[r * ldx];
      const __m512i values = _mm512_load_si512(pair.values),
                    dot = _mm512_dpbusd_epi32(_mm512_load_si512(pair.corrections), left, values);
      const __m512 both = _mm512_mul_ps(scale, _mm512_load_ps(pair.scales));
      sums[r][o] = _mm512_fmadd_ps(both, _mm512_maskz_cvtepi32_ps(0xffff, dot), sums[r][o]);
    }
  }
}

/// y: [rows, 2] of w: [2, groups], R rows at a time. If `other` is 0 instead of 1, it computes the first column twice.
template <int R, WeightBlock Block>
[[SHARDWISE_AVX512]] void columns_avx512(Index rows, Index groups, const GroupPair* x, const Block* w,
                                         Index ldw, float* y, Index ldy, Index other) {
  const Index ldx = (groups + 1) / 2, second = other * ldw,
              ahead = std::min<Index>(2 * ldw, 8192 / sizeof(Block));
  for (; rows >= R; rows -= R, x += R * ldx, y += R * ldy) {
    __m512 sums[R][2] = {};
    for (Index pair = 0; pair < groups / 2; ++pair) {
      __builtin_prefetch(w + 2 * pair + ahead);
      __builtin_prefetch(w + second + 2 * pair + ahead);
      add_pair(sums, x + pair, ldx, w + 2 * pair, second);
    }
    if (groups % 2 != 0) {
      const Block last[4] = {w[groups - 1], {}, w[second + groups - 1], {}};
      add_pair(sums, x + groups / 2, ldx, last, 2);
    }
#pragma GCC unroll 4
    for (int r = 0; r < R; ++r) {
#pragma GCC unroll 2
      for (int o = 0; o < 2; ++o) {
        alignas(64) float all[16];
        _mm512_store_ps(all, sums[r][o]);
        y[r * ldy + o * other] = total(all);
      }
    }
  }
  if constexpr (R > 1) columns_avx512<R / 2>(rows, groups, x, w, ldw, y, ldy, other);
}
#undef SHARDWISE_AVX2
#undef SHARDWISE_AVX512
#endif

}  // namespace detail

/// y: [rows, out] = x · wᵀ with x: [rows, 32 · groups], w: [out, groups]; ldx, ldw and ldy are the distances between
/// the starts of rows, in elements. y overlaps neither. Each group of x is rounded to multiples of its largest magnitude
/// / 127; magnitudes below 1.2e-35 in all of a group count as zero. NaN or infinity in a row of x makes that row of y
/// NaN. A call reads w once. It suits few rows: for many, `dequantise` parts of w and call `gemm`.
template <WeightBlock Block>
void block_product(Index rows, Index out, Index groups, const float* x, Index ldx, const Block* w, Index ldw,
                   float* y, Index ldy, [[maybe_unused]] Instructions set = best_instructions()) {
  if (rows == 0) return;
  const detail::GroupPair* pairs = detail::quantise_rows<Block>(rows, groups, x, ldx);
  const Index ldp = (groups + 1) / 2;
  auto product = detail::product_portable<Block>;
#if defined(__x86_64__)
  if (set == Instructions::avx512_vnni) {
    for (Index o = 0; o < out; o += 2) {
      detail::columns_avx512<4>(rows, groups, pairs, w + o * ldw, ldw, y + o, ldy, o + 1 < out);
    }
    return;
  }
  if (set == Instructions::avx2) product = detail::product_avx2<Block>;
#endif
  for (Index o = 0; o < out; ++o) {
    for (Index r = 0; r < rows; ++r) y[r * ldy + o] = product(groups, pairs + r * ldp, w + o * ldw);
  }
}
SHARDWISE_COMPILE(block_product<Block8>)
SHARDWISE_COMPILE(block_product<Block4>)

}  // namespace shardwise::kernel
