// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// y = x · wᵀ where each number of y is computed as if it were alone: it has the same bits whatever other rows x and w
/// have. So a token gets the same numbers in a training step, in a prompt and in decoding, and a layer whose outputs
/// are split over ranks gives the same numbers on any number of them. `gemm` does not promise this: its libraries
/// choose an order of sums by the extents.
///
///     row_product(rows, out, in, x, in, w, in, y, out);   // y = x · wᵀ
///
/// The order of sums: a number of y is the sum, in order, of blocks of 4096 bytes of a row. In a block, lane l of a
/// vector register adds the products of numbers l, l + lanes, l + 2 · lanes, …; then lanes are added in pairs. The
/// length of registers, and so the bits, depend on the instructions that a program is compiled for.

#include <shardwise/base/bodies.hpp>
#include <shardwise/kernel/fold.hpp>

#if defined(__AVX512BF16__)
#include <immintrin.h>
#endif

namespace shardwise::kernel {

/// For at most this many rows of x, reading w takes most of the time, so w is not copied. `gemm` leaves such products
/// x · wᵀ to `row_product`: a token gets the same logits whichever other sequences are decoded beside it.
inline constexpr Index few_rows = 8;

namespace detail {

/// How a register holds numbers of type T: `Stored` in memory, of which there are `count`; and their sums.
template <class T>
struct RowLanes {
  using Stored = compute_t<T>;
  static constexpr int bytes = register_bytes > 0 ? register_bytes : 16, count = bytes / sizeof(Stored),
                       sums = count;
  typedef Stored Sum __attribute__((vector_size(bytes)));
  using Vector = Sum;
  [[gnu::always_inline]] static Sum plus_product(Sum sum, Vector a, Vector b) { return sum + a * b; }
};
#if defined(__AVX512BF16__)
/// Pairs of products are added to sixteen sums.
template <>
struct RowLanes<Eigen::bfloat16> {
  using Stored = Eigen::bfloat16;
  static constexpr int count = 32, sums = 16;
  typedef float Sum __attribute__((vector_size(64)));
  using Vector = __m512i;
  [[gnu::always_inline]] static Sum plus_product(Sum sum, Vector a, Vector b) {
    return _mm512_dpbf16_ps(sum, std::bit_cast<__m512bh>(a), std::bit_cast<__m512bh>(b));
  }
};
#endif

/// Rows of x that share a row of w while it is in registers, rows of w that share a row of x, and numbers of a block.
inline constexpr int rows_together = register_bytes == 32 ? 3 : 6, columns_together = 4;
template <class T>
inline constexpr Index block_depth = 4096 / static_cast<Index>(sizeof(typename RowLanes<T>::Stored));

/// Rows of a matrix where it is: `count` numbers of row r at a step.
template <class T>
struct RowsInPlace {
  const typename RowLanes<T>::Stored* data;
  Index ld;
  const auto* at(Index step, Index row) const { return data + row * ld + step * RowLanes<T>::count; }
};
/// The same for rows that come from memory: a kilobyte ahead of use they are asked for.
template <class T>
struct RowsFromMemory : RowsInPlace<T> {
  const auto* at(Index step, Index row) const {
    const auto* const numbers = RowsInPlace<T>::at(step, row);
    __builtin_prefetch(numbers + 1024 / sizeof(T));
    return numbers;
  }
};
/// A copy of R rows, [steps, R, count].
template <class T, int R>
struct PackedRows {
  const typename RowLanes<T>::Stored* data;
  const auto* at(Index step, Index row) const { return data + (step * R + row) * RowLanes<T>::count; }
};

/// Copies the first `rows` of R rows of k numbers, with zeros for other rows, and up to a multiple of `count`.
template <int R, class T, class Stored>
PackedRows<T, R> pack_rows(Index rows, Index k, const T* x, Index ld, Stored* packed) {
  constexpr Index count = RowLanes<T>::count;
  Stored* to = packed;
  for (Index p = 0; p < k; p += count) {
    for (Index r = 0; r < R; ++r, to += count) {
      const Index given = r < rows ? std::min(count, k - p) : 0;
      const T* from = given > 0 ? x + r * ld + p : x;
      if constexpr (std::is_same_v<T, Stored>) {
        if (given < count) std::memset(static_cast<void*>(to), 0, count * sizeof(T));
        std::memcpy(to, from, static_cast<std::size_t>(given < count ? given : count) * sizeof(T));
      } else {
        for (Index i = 0; i < count; ++i) to[i] = i < given ? widen(from[i]) : Stored(0);
      }
    }
  }
  return {packed};
}

/// Loads a register, where it stays: g++ would load it again for each product.
template <class Vector, class Stored>
[[gnu::always_inline]] inline Vector load_register(const Stored* from) {
  Vector loaded;
  std::memcpy(&loaded, from, sizeof loaded);
#if defined(__x86_64__)
  __asm__("" : "+v"(loaded));
#endif
  return loaded;
}

/// The sums of the lanes of each of N vectors, in the lanes of one: halves of two vectors are added, and the results
/// stand side by side.
template <int N, class Sum>
[[gnu::always_inline]] inline Sum lane_totals(const Sum* sums) {
  if constexpr (N == 1) {
    return sums[0];
  } else {
    constexpr int lanes = sizeof(Sum) / sizeof(sums[0][0]), half = N / 2;
    Sum halves[half];
    [&]<int... i>(std::integer_sequence<int, i...>) {
#pragma GCC unroll 8
      for (int n = 0; n < half; ++n) {
        const Sum a = sums[n], b = sums[n + half];
        halves[n] = __builtin_shufflevector(a, b, (i / N * N + i % half + (i / half % 2) * lanes)...) +
                    __builtin_shufflevector(a, b, (i / N * N + half + i % half + (i / half % 2) * lanes)...);
      }
    }
    (std::make_integer_sequence<int, lanes>{});
    return lane_totals<half>(halves);
  }
}

/// y [R, columns] (+)= the products of R rows of x and P rows of w. Only the first `columns` are written.
template <int R, int P, class T, class X, class W, class C>
void multiply_rows(Index steps, X x, W w, C* y, Index ldy, Index columns, bool accumulate) {
  using Lanes = RowLanes<T>;
  using Vector = typename Lanes::Vector;
  constexpr int groups = (R * P + Lanes::sums - 1) / Lanes::sums;
  typename Lanes::Sum sums[groups * Lanes::sums];
#pragma GCC unroll 32
  for (auto& sum : sums) sum = typename Lanes::Sum{};
  for (Index step = 0; step < steps; ++step) {
    Vector of_x[R];
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) of_x[r] = load_register<Vector>(x.at(step, r));
#pragma GCC unroll 8
    for (int c = 0; c < P; ++c) {
      const Vector of_w = load_register<Vector>(w.at(step, c));
#pragma GCC unroll 8
      for (int r = 0; r < R; ++r) sums[r * P + c] = Lanes::plus_product(sums[r * P + c], of_x[r], of_w);
    }
  }
  C totals[groups * Lanes::sums];
#pragma GCC unroll 8
  for (int g = 0; g < groups; ++g) {
    const auto total = lane_totals<Lanes::sums>(sums + g * Lanes::sums);
    std::memcpy(totals + g * Lanes::sums, &total, sizeof total);
  }
  const auto write = [&](Index count) {
#pragma GCC unroll 8
    for (Index r = 0; r < R; ++r) {
#pragma GCC unroll 8
      for (Index c = 0; c < count; ++c) {
        C& to = y[r * ldy + c];
        to = accumulate ? to + totals[r * P + c] : totals[r * P + c];
      }
    }
  };
  columns == P ? write(P) : write(columns);
}

struct RowsOfX;
struct RowsOfW;
struct RowSums;

/// y [m, columns] (+)= the products of rows of x from `first` on, `rows_of<R>(i)`, and of w, `panel_of(j)`. A single
/// row takes `P1` columns at a time.
template <int R, int P1, class T, class C>
void multiply_all_rows(Index first, Index m, Index columns, Index steps, auto rows_of, auto panel_of, C* y,
                       Index ldy, bool accumulate) {
  constexpr int taken = R == 1 ? P1 : columns_together;
  for (; first + R <= m; first += R) {
    const auto rows = rows_of.template operator()<R>(first);
    for (Index j = 0; j < columns; j += taken) {
      multiply_rows<R, taken, T>(steps, rows, panel_of(j), y + first * ldy + j, ldy,
                                 std::min<Index>(taken, columns - j), accumulate);
    }
  }
  if constexpr (R > 1) {
    if (first < m)
      multiply_all_rows<R / 2, P1, T>(first, m, columns, steps, rows_of, panel_of, y, ldy, accumulate);
  }
}

}  // namespace detail

/// y: [m, n] = x · wᵀ with x: [m, k], w: [n, k]; ldx, ldw and ldy are the distances between the starts of rows. y
/// overlaps neither. Sums of bfloat16 are made in float.
template <class T>
void row_product(Index m, Index n, Index k, const T* x, Index ldx, const T* w, Index ldw, T* y, Index ldy) {
  using C = compute_t<T>;
  using Stored = typename detail::RowLanes<T>::Stored;
  constexpr bool wide = !std::is_same_v<T, C>;
  constexpr Index depth = detail::block_depth<T>, side = detail::columns_together,
                  lanes = detail::RowLanes<T>::count, most_rows = 512;
  const bool few = m <= few_rows;
  const Index most = few ? 2 * side : 48 * side;
  for (; m > most_rows; m -= most_rows, x += most_rows * ldx, y += most_rows * ldy)
    row_product(most_rows, n, k, x, ldx, w, ldw, y, ldy);
  for (Index first = 0; first < n; first += most) {
    const Index columns = std::min(most, n - first), ld = wide ? columns : ldy;
    C* to = nullptr;
    if constexpr (wide) {
      to = scratch<detail::RowSums, C>(m * columns);
    } else {
      to = y + first;
    }
    if (k == 0) {
      for (Index i = 0; i < m; ++i) std::fill_n(to + i * ld, columns, C{0});
    }
    for (Index p = 0; p < k; p += depth) {
      const Index width = std::min(depth, k - p), steps = (width + lanes - 1) / lanes;
      Index in_place = 0;  // columns, a multiple of 8
      if constexpr (std::is_same_v<T, Stored>) {
        if (few && width % lanes == 0) in_place = columns / 8 * 8;
        detail::multiply_all_rows<detail::rows_together, 8, T>(
            0, m, in_place, steps,
            [&]<int>(Index i) {
              return detail::RowsInPlace<T>{x + i * ldx + p, ldx};
            },
            [&](Index j) {
              return detail::RowsFromMemory<T>{{w + (first + j) * ldw + p, ldw}};
            },
            to, ld, p > 0);
      }
      if (in_place == columns) continue;
      Stored* const packed = scratch<detail::RowsOfW, Stored>(most * depth);
      const auto at = [&](Index j) { return packed + j * steps * lanes; };
      for (Index j = 0; in_place + j < columns; j += side) {
        detail::pack_rows<detail::columns_together>(std::min(side, columns - in_place - j), width,
                                                    w + (first + in_place + j) * ldw + p, ldw, at(j));
      }
      Stored* const packed_x = scratch<detail::RowsOfX, Stored>(detail::rows_together * depth);
      detail::multiply_all_rows<detail::rows_together, detail::columns_together, T>(
          0, m, columns - in_place, steps,
          [&]<int R>(Index i) { return detail::pack_rows<R>(R, width, x + i * ldx + p, ldx, packed_x); },
          [&](Index j) { return detail::PackedRows<T, detail::columns_together>{at(j)}; }, to + in_place, ld,
          p > 0);
    }
    if constexpr (wide) {
      for (Index i = 0; i < m; ++i) {
        for (Index j = 0; j < columns; ++j) y[i * ldy + first + j] = narrow<T>(to[i * columns + j]);
      }
    }
  }
}
SHARDWISE_COMPILE_EACH(row_product)

}  // namespace shardwise::kernel
