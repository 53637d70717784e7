// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Products with quantised weights by AVX2, and by AVX-512 with VNNI. block_product.hpp says what they compute.

#include <shardwise/llm/decoding/block_rows.hpp>
#include <shardwise/llm/namespaces.hpp>

#if defined(__x86_64__)
#include <immintrin.h>

#include <cstring>

#define SHARDWISE_AVX2 gnu::target("avx2,fma,f16c")
#define SHARDWISE_AVX512 gnu::target("avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512vnni")

namespace shardwise::llm::kernel::detail {

/// The total of sixteen sums, in the order of total_of_sums(float*).
[[SHARDWISE_AVX2, gnu::always_inline]] inline float total_of_sums(__m256 first, __m256 second) {
  const __m256 eight = _mm256_add_ps(first, second);
  const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1)),
               two = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}

/// A `Block8` as signed bytes; a `Block4` as unsigned bytes, 8 too large.
[[SHARDWISE_AVX2, gnu::always_inline]] inline __m256i bytes_of(const Block8& w) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(w.values));
}
[[SHARDWISE_AVX2, gnu::always_inline]] inline __m256i bytes_of(const Block4& w) {
  const __m256i pairs =
      _mm256_broadcastsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(w.pairs)));
  return _mm256_and_si256(_mm256_srlv_epi64(pairs, _mm256_setr_epi64x(0, 0, 4, 4)), _mm256_set1_epi8(15));
}
/// The sums of two products of bytes, in 16 bits: at most 2 · 128 · 127.
template <WeightBlock Block>
[[SHARDWISE_AVX2, gnu::always_inline]] inline __m256i products(__m256i w, __m256i x) {
  if constexpr (std::is_same_v<Block, Block4>) return _mm256_maddubs_epi16(w, x);
  return _mm256_maddubs_epi16(_mm256_abs_epi8(w), _mm256_sign_epi8(x, w));
}
[[SHARDWISE_AVX2, gnu::always_inline]] inline __m256i sums_of_pairs(__m256i x) {
  return _mm256_madd_epi16(x, _mm256_set1_epi16(1));
}
/// The total of each of eight vectors of eight.
[[SHARDWISE_AVX2, gnu::always_inline]] inline __m256i totals(const __m256i (&x)[8]) {
  const __m256i low = _mm256_hadd_epi32(_mm256_hadd_epi32(x[0], x[1]), _mm256_hadd_epi32(x[2], x[3])),
                high = _mm256_hadd_epi32(_mm256_hadd_epi32(x[4], x[5]), _mm256_hadd_epi32(x[6], x[7]));
  return _mm256_add_epi32(_mm256_permute2x128_si256(low, high, 0x20),
                          _mm256_permute2x128_si256(low, high, 0x31));
}
/// The first N blocks from w on, of which there are `count`: where fewer, a copy followed by zeros.
template <int N, WeightBlock Block>
struct FirstBlocks {
  const Block* of(const Block* w, Index count) {
    if (count >= N) return w;
    std::memset(bytes, 0, sizeof bytes);
    std::memcpy(bytes, w, static_cast<std::size_t>(count) * sizeof(Block));
    return reinterpret_cast<const Block*>(bytes);
  }
  alignas(Block) std::byte bytes[N * sizeof(Block)];
};
/// The scales of eight blocks.
template <WeightBlock Block>
[[SHARDWISE_AVX2, gnu::always_inline]] inline __m256 scales_of(const Block* w, Index ldw = 1) {
  const auto bits = [=](Index i) { return std::uint64_t{std::bit_cast<std::uint16_t>(w[i * ldw].scale)}; };
  const auto four = [=](Index i) {
    return static_cast<long long>(bits(i) | bits(i + 1) << 16 | bits(i + 2) << 32 | bits(i + 3) << 48);
  };
  return _mm256_cvtph_ps(_mm_set_epi64x(four(4), four(0)));
}

/// y: [rows, 1] of a row of w, R rows at a time. Behind x are zeros to a multiple of R rows.
template <int R>
[[SHARDWISE_AVX2]] void column_avx2(Index rows, Index groups, const SplitGroup* x, const Block16* w, float* y,
                                    Index ldy) {
  for (; rows > R / 2; rows -= R, x += R * groups, y += R * ldy) {
    __m256 sums[R][2] = {};
    for (Index g = 0; g < groups; ++g) {
      __builtin_prefetch(w + g + 8192 / sizeof(Block16));
#pragma GCC unroll 2
      for (Index half = 0; half < 2; ++half) {
        const __m256i twos = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(w[g].values) + half);
        const __m256 even = _mm256_castsi256_ps(_mm256_slli_epi32(twos, 16)),
                     odd = _mm256_castsi256_ps(_mm256_and_si256(twos, _mm256_set1_epi32(-65536)));
#pragma GCC unroll 4
        for (int r = 0; r < R; ++r) {
          const SplitGroup& group = x[r * groups + g];
          sums[r][half] = _mm256_fmadd_ps(even, _mm256_load_ps(group.even + 8 * half), sums[r][half]);
          sums[r][half] = _mm256_fmadd_ps(odd, _mm256_load_ps(group.odd + 8 * half), sums[r][half]);
        }
      }
    }
#pragma GCC unroll 4
    for (int r = 0; r < R; ++r)
      if (r < rows) y[r * ldy] = total_of_sums(sums[r][0], sums[r][1]);
  }
  if constexpr (R > 1) column_avx2<R / 2>(rows, groups, x, w, y, ldy);
}
template <WeightBlock Block>
[[SHARDWISE_AVX2]] float product_avx2(Index groups, const SixteenGroups* x, const Block* w) {
  __m256 sums[2] = {};
  FirstBlocks<8, Block> last;
  for (Index g = 0; g < groups; g += 16, ++x) {
#pragma GCC unroll 2
    for (Index half = 0; half < 2; ++half) {
      const Index first = g + 8 * half;
      if (first >= groups) break;
      const Block* const eight = last.of(w + first, groups - first);
      __m256i each[8];
#pragma GCC unroll 8
      for (Index i = 0; i < 8; ++i) {
        if (i * static_cast<Index>(sizeof(Block)) % 64 < static_cast<Index>(sizeof(Block)))
          __builtin_prefetch(w + first + i + 8192 / sizeof(Block));
        const auto* values = reinterpret_cast<const __m256i*>(x->values[8 * half + i]);
        each[i] = sums_of_pairs(products<Block>(bytes_of(eight[i]), *values));
      }
      __m256i total = totals(each);
      if constexpr (std::is_same_v<Block, Block4>)
        total = _mm256_add_epi32(total, reinterpret_cast<const __m256i*>(x->corrections)[half]);
      const __m256 scales = _mm256_mul_ps(scales_of(eight), _mm256_load_ps(x->scales + 8 * half));
      sums[half] = _mm256_fmadd_ps(scales, _mm256_cvtepi32_ps(total), sums[half]);
    }
  }
  return total_of_sums(sums[0], sums[1]);
}

/// A group of C rows of w: values[k] is numbers 4k to 4k + 3 of each row; and the scales.
template <int C>
struct alignas(64) Interleaved {
  std::int8_t values[8][C][4];
  float scales[C];
};
/// Sixteen of the bytes of a block's numbers.
template <WeightBlock Block>
[[SHARDWISE_AVX2, gnu::always_inline]] inline __m128i sixteen_bytes(const Block& w, int first) {
  return _mm_loadu_si128(reinterpret_cast<const __m128i*>(reinterpret_cast<const char*>(&w + 1) -
                                                          (sizeof(Block) - sizeof w.scale) + first));
}
/// For each 128 bits, transposes 4-byte numbers.
[[SHARDWISE_AVX2, gnu::always_inline]] inline void transpose(__m256i (&x)[4]) {
  const __m256i a = _mm256_unpacklo_epi32(x[0], x[1]), b = _mm256_unpackhi_epi32(x[0], x[1]),
                c = _mm256_unpacklo_epi32(x[2], x[3]), d = _mm256_unpackhi_epi32(x[2], x[3]);
  x[0] = _mm256_unpacklo_epi64(a, c), x[1] = _mm256_unpackhi_epi64(a, c);
  x[2] = _mm256_unpacklo_epi64(b, d), x[3] = _mm256_unpackhi_epi64(b, d);
}
/// Interleaves a group of eight rows of w.
template <WeightBlock Block>
[[SHARDWISE_AVX2, gnu::always_inline]] inline void interleave(const Block* w, Index ldw, Interleaved<8>& to) {
  constexpr bool four_bits = std::is_same_v<Block, Block4>;
  const __m256i low = _mm256_set1_epi8(15);
#pragma GCC unroll 2
  for (int first = 0; first < (four_bits ? 16 : 32); first += 16) {
    __m256i x[4];
#pragma GCC unroll 4
    for (int c = 0; c < 4; ++c) {
      x[c] = _mm256_inserti128_si256(_mm256_castsi128_si256(sixteen_bytes(w[c * ldw], first)),
                                     sixteen_bytes(w[(c + 4) * ldw], first), 1);
    }
    transpose(x);
#pragma GCC unroll 4
    for (int k = 0; k < 4; ++k) {
      auto* const at = reinterpret_cast<__m256i*>(to.values[first / 4 + k]);
      _mm256_store_si256(at, four_bits ? _mm256_and_si256(x[k], low) : x[k]);
      if constexpr (four_bits) _mm256_store_si256(at + 4, _mm256_and_si256(_mm256_srli_epi16(x[k], 4), low));
    }
  }
  _mm256_store_ps(to.scales, scales_of(w, ldw));
}
/// The groups of eight rows, interleaved in scratch memory.
template <WeightBlock Block>
[[SHARDWISE_AVX2]] const Interleaved<8>* interleave_avx2(Index groups, const Block* w, Index ldw) {
  auto* to = scratch<Interleaved<8>, Interleaved<8>>(groups);
  for (Index g = 0; g < groups; ++g) interleave(w + g, ldw, to[g]);
  return to;
}
/// Four of the values of a group of x.
inline int four_values(const SixteenGroups& x, Index g, int k) {
  int four;
  std::memcpy(&four, x.values[g % 16] + 4 * k, sizeof four);
  return four;
}

/// Fetches C blocks of the C rows behind those of w into the cache, so that memory is read from front to back.
template <int C, WeightBlock Block>
[[gnu::always_inline]] inline void fetch_rows_behind(const Block* w, Index ldw, Index g) {
  const char* const at = reinterpret_cast<const char*>(w + C * (ldw + g));
#pragma GCC unroll 16
  for (Index byte = 0; byte < C * static_cast<Index>(sizeof(Block)); byte += 64)
    __builtin_prefetch(at + byte);
}
/// y: [rows, 8], R rows at a time. w is interleaved in `ready`; if that is null, here, as often as there are passes.
template <int R, WeightBlock Block>
[[SHARDWISE_AVX2]] void columns_avx2(Index rows, Index groups, const SixteenGroups* x, const Block* w,
                                     Index ldw, const Interleaved<8>* ready, float* y, Index ldy) {
  constexpr bool four_bits = std::is_same_v<Block, Block4>;
  const Index ldx = units_of<Block>(groups);
  Interleaved<8> here;
  for (; rows > R / 2; rows -= R, x += R * ldx, y += R * ldy) {
    __m256 sums[16][R] = {};
    for (Index g = 0; g < groups; ++g) {
      if (!ready) {
        fetch_rows_behind<8>(w, ldw, g);
        interleave(w + g, ldw, here);
      }
      const Interleaved<8>& group = ready ? ready[g] : here;
      __m256i dots[R] = {};
#pragma GCC unroll 8
      for (int k = 0; k < 8; ++k) {
        const __m256i left = *reinterpret_cast<const __m256i*>(group.values[k]);
#pragma GCC unroll 4
        for (int r = 0; r < R; ++r) {
          const __m256i right = _mm256_set1_epi32(four_values(x[r * ldx + g / 16], g, k)),
                        twos = products<Block>(left, right);  // eight sums of two in 4 bits fit into 16 bits
          dots[r] =
              four_bits ? _mm256_add_epi16(dots[r], twos) : _mm256_add_epi32(dots[r], sums_of_pairs(twos));
        }
      }
      const __m256 scales = _mm256_load_ps(group.scales);
#pragma GCC unroll 4
      for (int r = 0; r < R; ++r) {
        const SixteenGroups& unit = x[r * ldx + g / 16];
        __m256i total = dots[r];
        if constexpr (four_bits)
          total = _mm256_add_epi32(sums_of_pairs(total), _mm256_set1_epi32(unit.corrections[g % 16]));
        const __m256 both = _mm256_mul_ps(scales, _mm256_set1_ps(unit.scales[g % 16]));
        sums[g % 16][r] = _mm256_fmadd_ps(both, _mm256_cvtepi32_ps(total), sums[g % 16][r]);
      }
    }
#pragma GCC unroll 4
    for (int r = 0; r < R; ++r) {
      for (Index half = 8; half > 0; half /= 2) {
        for (Index l = 0; l < half; ++l) sums[l][r] = _mm256_add_ps(sums[l][r], sums[l + half][r]);
      }
      if (r < rows) _mm256_storeu_ps(y + r * ldy, sums[0][r]);
    }
  }
  if constexpr (R > 1) columns_avx2<R / 2>(rows, groups, x, w, ldw, ready, y, ldy);
}

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

#undef SHARDWISE_AVX2
#undef SHARDWISE_AVX512
#endif
