// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Small matrix products by tiles held in vector registers: the products in an attention block are so small and
/// thin that a library call would cost as much as the work.

#include <shardwise/kernel/fold.hpp>
#include <shardwise/kernel/gemm.hpp>

namespace shardwise::kernel::detail {

/// Rounds up to a multiple of the vector length.
template <class C>
constexpr Index padded(Index n) {
  return (n + Lanes<C>::count - 1) / Lanes<C>::count * Lanes<C>::count;
}

/// Of `multiply_block`: rows, and registers side by side.
inline constexpr int tile_rows = 6, tile_columns = register_bytes == 32 ? 2 : 4;

template <class C>
struct Register {
  typedef C type __attribute__((vector_size(register_bytes)));
  static constexpr Index count = register_bytes / sizeof(C);
};

/// to[c, r] = from[r, c]; both extents are multiples of `Lanes<C>::count`. A square of registers of side 2^n is
/// transposed in n rounds, each of which interleaves the first half of its rows with the second.
template <class C>
void transpose_block(Index rows, Index cols, const C* from, Index from_stride, C* to, Index to_stride) {
  if constexpr (register_bytes == 0) {
    for (Index c = 0; c < cols; ++c) {
      for (Index r = 0; r < rows; ++r) to[c * to_stride + r] = from[r * from_stride + c];
    }
  } else {
    using Vector = typename Register<C>::type;
    constexpr int side = Register<C>::count, half = side / 2;
    const auto transpose = [&]<int... i>(const C* x, C* y, std::integer_sequence<int, i...>) {
      Vector row[side], next[side];
      (std::memcpy(&row[i], x + i * from_stride, sizeof(Vector)), ...);
#pragma GCC unroll 4
      for (int round = 1; round < side; round *= 2) {
#pragma GCC unroll 8
        for (int r = 0; r < half; ++r) {
          const Vector a = row[r], b = row[half + r];
          next[2 * r] = __builtin_shufflevector(a, b, (i / 2 + i % 2 * side)...);
          next[2 * r + 1] = __builtin_shufflevector(a, b, (half + i / 2 + i % 2 * side)...);
        }
        ((row[i] = next[i]), ...);
      }
      (std::memcpy(y + i * to_stride, &row[i], sizeof(Vector)), ...);
    };
    for (Index r = 0; r < rows; r += side) {
      for (Index c = 0; c < cols; c += side) {
        transpose(from + r * from_stride + c, to + c * to_stride + r,
                  std::make_integer_sequence<int, side>{});
      }
    }
  }
}

template <int Rows, int Columns, Transpose ta, class C>
#if defined(__clang__) && defined(__AVX512F__)
[[clang::min_vector_width(512)]]  // otherwise clang uses half the register width
#endif
void multiply_tile(Index k, const C* a, Index lda, const C* b, Index ldb, C* c, Index ldc, bool accumulate) {
  using Vector = typename Register<C>::type;
  constexpr Index width = Register<C>::count;
  Vector sum[Rows][Columns];
#pragma GCC unroll 16
  for (int r = 0; r < Rows; ++r) {
#pragma GCC unroll 16
    for (int j = 0; j < Columns; ++j) {
      sum[r][j] = Vector{};
      if (accumulate) std::memcpy(&sum[r][j], c + r * ldc + j * width, sizeof(Vector));
    }
  }
  for (Index p = 0; p < k; ++p) {
    Vector right[Columns];
#pragma GCC unroll 16
    for (int j = 0; j < Columns; ++j) std::memcpy(&right[j], b + p * ldb + j * width, sizeof(Vector));
#pragma GCC unroll 16
    for (int r = 0; r < Rows; ++r) {
      const C left = ta == Transpose::yes ? a[p * lda + r] : a[r * lda + p];
#pragma GCC unroll 16
      for (int j = 0; j < Columns; ++j) sum[r][j] += left * right[j];
    }
  }
#pragma GCC unroll 16
  for (int r = 0; r < Rows; ++r) {
#pragma GCC unroll 16
    for (int j = 0; j < Columns; ++j) std::memcpy(c + r * ldc + j * width, &sum[r][j], sizeof(Vector));
  }
}

template <int Rows, int Columns, Transpose ta, class C>
void multiply_panel(Index m, Index k, const C* a, Index lda, const C* b, Index ldb, C* c, Index ldc,
                    bool accumulate) {
  Index i = 0;
  for (; i + Rows <= m; i += Rows) {
    multiply_tile<Rows, Columns, ta>(k, a + (ta == Transpose::yes ? i : i * lda), lda, b, ldb, c + i * ldc,
                                     ldc, accumulate);
  }
  if constexpr (Rows > 1) {
    if (i < m) {
      multiply_panel<Rows / 2, Columns, ta>(m - i, k, a + (ta == Transpose::yes ? i : i * lda), lda, b, ldb,
                                            c + i * ldc, ldc, accumulate);
    }
  }
}

/// C (+)= op(A) · B, where n is a multiple of `Lanes<C>::count`.
template <Transpose ta, class C>
void multiply_block(Index m, Index n, Index k, const C* a, Index lda, const C* b, Index ldb, C* c, Index ldc,
                    bool accumulate) {
  if constexpr (register_bytes == 0) {
    gemm(ta, Transpose::no, m, n, k, a, lda, b, ldb, c, ldc, accumulate);
  } else {
    constexpr Index width = Register<C>::count;
    Index j = 0;
    for (; j + tile_columns * width <= n; j += tile_columns * width) {
      multiply_panel<tile_rows, tile_columns, ta>(m, k, a, lda, b + j, ldb, c + j, ldc, accumulate);
    }
    if constexpr (tile_columns > 2) {
      for (; j + 2 * width <= n; j += 2 * width) {
        multiply_panel<8, 2, ta>(m, k, a, lda, b + j, ldb, c + j, ldc, accumulate);
      }
    }
    for (; j < n; j += width) {
      multiply_panel<8, 1, ta>(m, k, a, lda, b + j, ldb, c + j, ldc, accumulate);
    }
  }
}

}  // namespace shardwise::kernel::detail
