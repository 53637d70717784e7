// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Products with quantised weights by AVX-512 with VNNI. block_product.hpp says what they compute.

#include <shardwise/llm/decoding/block_product_avx2.hpp>
#include <shardwise/llm/namespaces.hpp>

#if defined(__x86_64__)
#define SHARDWISE_AVX512 gnu::target("avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512vnni")

namespace shardwise::llm::kernel::detail {

/// Two successive blocks as unsigned bytes, plus the zero point. Blocks are sequences of 16 bits. (g++ 12 warns of
/// intrinsics without a mask.)
[[SHARDWISE_AVX512, gnu::always_inline]] inline __m512i two_blocks(const Block8* w) {
  const __m512i first = _mm512_castsi256_si512(_mm256_loadu_epi8(w[0].values));
  const __m512i both = _mm512_mask_broadcast_i64x4(first, 0xf0, _mm256_loadu_epi8(w[1].values));
  return _mm512_xor_si512(both, _mm512_set1_epi8(-128));
}
[[SHARDWISE_AVX512, gnu::always_inline]] inline __m512i two_blocks(const Block4* w) {
  const __m512i words = _mm512_maskz_loadu_epi16((1u << 18) - 1, w);
  const __m512i places = _mm512_set_epi16(17, 16, 15, 14, 13, 12, 11, 10, 17, 16, 15, 14, 13, 12, 11, 10,  //
                                          8, 7, 6, 5, 4, 3, 2, 1, 8, 7, 6, 5, 4, 3, 2, 1);
  const __m512i pairs = _mm512_maskz_permutexvar_epi16(~0u, places, words);
  const __m512i shifts = _mm512_setr_epi64(0, 0, 4, 4, 0, 0, 4, 4);
  return _mm512_and_si512(_mm512_maskz_srlv_epi64(0xff, pairs, shifts), _mm512_set1_epi8(15));
}

[[SHARDWISE_AVX512, gnu::always_inline]] inline float total_of_sums(__m512 sums) {
  const __m512d halves = _mm512_castps_pd(sums);
  return total_of_sums(_mm256_castpd_ps(_mm512_maskz_extractf64x4_pd(0xf, halves, 0)),
                       _mm256_castpd_ps(_mm512_maskz_extractf64x4_pd(0xf, halves, 1)));
}

[[SHARDWISE_AVX512, gnu::always_inline]] inline __m512 both(__m256 first, __m256 second) {
  return _mm512_castpd_ps(_mm512_maskz_insertf64x4(0xff, _mm512_castps_pd(_mm512_castps256_ps512(first)),
                                                   _mm256_castps_pd(second), 1));
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
/// y: [rows, C] of w: [C, groups], R rows at a time.
template <int R, int C>
[[SHARDWISE_AVX512]] void columns_avx512(Index rows, Index groups, const SplitGroup* x, const Block16* w,
                                         Index ldw, float* y, Index ldy) {
  const Index ldx = groups;
  for (; rows > R / 2; rows -= R, x += R * ldx, y += R * ldy) {
    __m512 sums[R][C] = {};
    for (Index g = 0; g < groups; ++g) {
#pragma GCC unroll 4
      for (int c = 0; c < C; ++c) __builtin_prefetch(w + c * ldw + g + 8192 / sizeof(Block16));
      add_unit(sums, x + g, ldx, w + g, ldw);
    }
#pragma GCC unroll 4
    for (int r = 0; r < R; ++r) {
#pragma GCC unroll 4
      for (int c = 0; c < C; ++c)
        if (r < rows) y[r * ldy + c] = total_of_sums(sums[r][c]);
    }
  }
  if constexpr (R > 1) columns_avx512<R / 2, C>(rows, groups, x, w, ldw, y, ldy);
}

/// Adds neighbours of a and b: for each 128 bits, [a0 + a2, b0 + b2, a1 + a3, b1 + b3].
[[SHARDWISE_AVX512, gnu::always_inline]] inline __m512i add_neighbours(__m512i a, __m512i b) {
  return _mm512_add_epi32(_mm512_maskz_unpacklo_epi32(0xffff, a, b),
                          _mm512_maskz_unpackhi_epi32(0xffff, a, b));
}
/// For each 128 bits, the totals of a, b, c and d.
[[SHARDWISE_AVX512, gnu::always_inline]] inline __m512i totals_of_four(__m512i a, __m512i b, __m512i c,
                                                                       __m512i d) {
  const __m512i low = add_neighbours(a, b), high = add_neighbours(c, d);
  return _mm512_add_epi32(_mm512_maskz_unpacklo_epi64(0xff, low, high),
                          _mm512_maskz_unpackhi_epi64(0xff, low, high));
}
template <WeightBlock Block>
[[SHARDWISE_AVX512]] float product_avx512(Index groups, const SixteenGroups* x, const Block* w) {
  const __m512i lower = _mm512_setr_epi64(0, 1, 8, 9, 4, 5, 12, 13),
                upper = _mm512_setr_epi64(2, 3, 10, 11, 6, 7, 14, 15);
  const __m512i in_order = _mm512_setr_epi32(0, 8, 1, 9, 2, 10, 3, 11, 4, 12, 5, 13, 6, 14, 7, 15);
  __m512 sums = _mm512_setzero_ps();
  FirstBlocks<16, Block> last;
  for (Index g = 0; g < groups; g += 16, w += 16, ++x) {
    const Block* const sixteen = last.of(w, groups - g);
    __m512i each[8];
#pragma GCC unroll 8
    for (Index i = 0; i < 8; ++i) {
      __builtin_prefetch(w + 2 * i + 8192 / sizeof(Block));
      each[i] = _mm512_dpbusd_epi32(_mm512_setzero_si512(), two_blocks(sixteen + 2 * i),
                                    _mm512_load_si512(x->values[2 * i]));
    }
    const __m512i first = totals_of_four(each[0], each[1], each[2], each[3]),
                  second = totals_of_four(each[4], each[5], each[6], each[7]);
    const __m512i mixed = _mm512_add_epi32(_mm512_permutex2var_epi64(first, lower, second),
                                           _mm512_permutex2var_epi64(first, upper, second));
    const __m512i total = _mm512_add_epi32(_mm512_maskz_permutexvar_epi32(0xffff, in_order, mixed),
                                           _mm512_load_si512(x->corrections));
    const __m512 scales = both(scales_of(sixteen), scales_of(sixteen + 8));
    sums = _mm512_fmadd_ps(_mm512_mul_ps(scales, _mm512_load_ps(x->scales)),
                           _mm512_maskz_cvtepi32_ps(0xffff, total), sums);
  }
  return total_of_sums(sums);
}

/// As for AVX2, of sixteen rows, as unsigned bytes.
[[SHARDWISE_AVX512, gnu::always_inline]] inline void transpose(__m512i (&x)[4]) {
  const __m512i a = _mm512_maskz_unpacklo_epi32(0xffff, x[0], x[1]),
                b = _mm512_maskz_unpackhi_epi32(0xffff, x[0], x[1]),
                c = _mm512_maskz_unpacklo_epi32(0xffff, x[2], x[3]),
                d = _mm512_maskz_unpackhi_epi32(0xffff, x[2], x[3]);
  x[0] = _mm512_maskz_unpacklo_epi64(0xff, a, c), x[1] = _mm512_maskz_unpackhi_epi64(0xff, a, c);
  x[2] = _mm512_maskz_unpacklo_epi64(0xff, b, d), x[3] = _mm512_maskz_unpackhi_epi64(0xff, b, d);
}
template <WeightBlock Block>
[[SHARDWISE_AVX512, gnu::always_inline]] inline void interleave(const Block* w, Index ldw,
                                                                Interleaved<16>& to) {
  constexpr bool four_bits = std::is_same_v<Block, Block4>;
  const __m512i low = _mm512_set1_epi8(15), signs = _mm512_set1_epi8(-128);
#pragma GCC unroll 2
  for (int first = 0; first < (four_bits ? 16 : 32); first += 16) {
    __m512i x[4];
#pragma GCC unroll 4
    for (int c = 0; c < 4; ++c) {
      x[c] = _mm512_castsi128_si512(sixteen_bytes(w[c * ldw], first));
      x[c] = _mm512_maskz_inserti32x4(0xffff, x[c], sixteen_bytes(w[(c + 4) * ldw], first), 1);
      x[c] = _mm512_maskz_inserti32x4(0xffff, x[c], sixteen_bytes(w[(c + 8) * ldw], first), 2);
      x[c] = _mm512_maskz_inserti32x4(0xffff, x[c], sixteen_bytes(w[(c + 12) * ldw], first), 3);
    }
    transpose(x);
#pragma GCC unroll 4
    for (int k = 0; k < 4; ++k) {
      auto* const at = to.values[first / 4 + k];
      _mm512_store_si512(at, four_bits ? _mm512_and_si512(x[k], low) : _mm512_xor_si512(x[k], signs));
      if constexpr (four_bits)
        _mm512_store_si512(at + 4 * 16, _mm512_and_si512(_mm512_maskz_srli_epi32(0xffff, x[k], 4), low));
    }
  }
  _mm512_store_ps(to.scales, both(scales_of(w, ldw), scales_of(w + 8 * ldw, ldw)));
}
template <WeightBlock Block>
[[SHARDWISE_AVX512]] const Interleaved<16>* interleave_avx512(Index groups, const Block* w, Index ldw) {
  auto* to = scratch<Interleaved<16>, Interleaved<16>>(groups);
  for (Index g = 0; g < groups; ++g) interleave(w + g, ldw, to[g]);
  return to;
}

/// y: [rows, 16], as for AVX2.
template <int R, WeightBlock Block>
[[SHARDWISE_AVX512]] void columns_avx512(Index rows, Index groups, const SixteenGroups* x, const Block* w,
                                         Index ldw, const Interleaved<16>* ready, float* y, Index ldy) {
  const Index ldx = units_of<Block>(groups);
  Interleaved<16> here;
  for (; rows > R / 2; rows -= R, x += R * ldx, y += R * ldy) {
    __m512 sums[16][R] = {};
    for (Index g = 0; g < groups; ++g) {
      if (!ready) {
        fetch_rows_behind<16>(w, ldw, g);
        interleave(w + g, ldw, here);
      }
      const Interleaved<16>& group = ready ? ready[g] : here;
      __m512i dots[R];
#pragma GCC unroll 8
      for (int r = 0; r < R; ++r) dots[r] = _mm512_set1_epi32(x[r * ldx + g / 16].corrections[g % 16]);
#pragma GCC unroll 8
      for (int k = 0; k < 8; ++k) {
        const __m512i left = _mm512_load_si512(group.values[k]);
#pragma GCC unroll 8
        for (int r = 0; r < R; ++r)
          dots[r] =
              _mm512_dpbusd_epi32(dots[r], left, _mm512_set1_epi32(four_values(x[r * ldx + g / 16], g, k)));
      }
      const __m512 scales = _mm512_load_ps(group.scales);
#pragma GCC unroll 8
      for (int r = 0; r < R; ++r) {
        const __m512 scale = _mm512_mul_ps(scales, _mm512_set1_ps(x[r * ldx + g / 16].scales[g % 16]));
        sums[g % 16][r] = _mm512_fmadd_ps(scale, _mm512_maskz_cvtepi32_ps(0xffff, dots[r]), sums[g % 16][r]);
      }
    }
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
      for (Index half = 8; half > 0; half /= 2) {
        for (Index l = 0; l < half; ++l) sums[l][r] = _mm512_add_ps(sums[l][r], sums[l + half][r]);
      }
      if (r < rows) _mm512_storeu_ps(y + r * ldy, sums[0][r]);
    }
  }
  if constexpr (R > 1) columns_avx512<R / 2>(rows, groups, x, w, ldw, ready, y, ldy);
}

}  // namespace shardwise::llm::kernel::detail

#undef SHARDWISE_AVX512
#endif
