// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// LU of a tall block with partial pivoting, row-major: the part of a factorization that all ranks do alike.

#include <utility>
#include <vector>

#include <shardwise/kernel/factor.hpp>

namespace shardwise::kernel {

namespace detail {

/// Columns [begin, end) of x, which has `width`; rows from `begin` on. Swaps whole rows, and their numbers in `order`.
/// Half the columns at a time (Toledo, "Locality of reference in LU decomposition with partial pivoting", 1997), so
/// that most of the work is products.
template <class T>
Index lu_columns(Index rows, Index width, Index begin, Index end, T* x, Index* order) {
  if (end - begin <= 8) {
    for (Index j = begin; j < end; ++j) {
      Index best = j;
      for (Index i = j + 1; i < rows; ++i) {
        if (std::abs(x[i * width + j]) > std::abs(x[best * width + j])) best = i;
      }
      const T pivot = x[best * width + j];
      if (!(std::abs(pivot) > 0 && std::abs(pivot) <= std::numeric_limits<T>::max())) return j;
      if (best != j) {
        std::swap_ranges(x + j * width, x + (j + 1) * width, x + best * width);
        std::swap(order[j], order[best]);
      }
      for (Index i = j + 1; i < rows; ++i) {
        const T factor = x[i * width + j] /= pivot;
        for (Index l = j + 1; l < end; ++l) x[i * width + l] -= factor * x[j * width + l];
      }
    }
    return -1;
  }
  const Index middle = begin + (end - begin) / 2, left = middle - begin, right = end - middle;
  const Index failed = lu_columns(rows, width, begin, middle, x, order);
  if (failed >= 0) return failed;
  for (Index i = begin; i < middle; ++i) {  // u = l⁻¹ x
    for (Index l = begin; l < i; ++l) {
      const T factor = x[i * width + l];
      for (Index j = middle; j < end; ++j) x[i * width + j] -= factor * x[l * width + j];
    }
  }
  T* const lower = x + middle * width;
  subtract_product(Transpose::no, Transpose::no, rows - middle, right, left, lower + begin, width,
                   x + begin * width + middle, width, lower + middle, width);
  return lu_columns(rows, width, middle, end, x, order);
}

}  // namespace detail

/// x := l \ u of the rows in a new order: [rows, width] with rows >= width, l with ones on its diagonal. Row i was row
/// order[i] before. Returns the first column without a pivot that is finite and not 0, or -1.
template <class T>
Index lu_panel(Index rows, Index width, T* x, Index* order) {
  for (Index i = 0; i < rows; ++i) order[i] = i;
  return detail::lu_columns(rows, width, 0, width, x, order);
}
SHARDWISE_COMPILE_BOTH(lu_panel)

/// order := numbers of the rows of x [rows, width], rows > width, of which the first `width` span them: pivots of LU,
/// without the columns that depend on others.
template <class T>
void spanning_rows(Index rows, Index width, const T* x, Index* order) {
  std::vector<Index> columns;
  for (Index j = 0; j < width; ++j) {
    for (Index i = 0; i < rows; ++i) {
      if (x[i * width + j] == 0) continue;
      columns.push_back(j);
      break;
    }
  }
  for (Index i = 0; i < rows; ++i) order[i] = i;
  std::vector<T> lu;
  while (!columns.empty()) {
    lu.clear();
    for (Index i = 0; i < rows; ++i) {
      for (const Index j : columns) lu.push_back(x[i * width + j]);
    }
    const Index failed = lu_panel(rows, std::ssize(columns), lu.data(), order);
    if (failed < 0) return;
    columns.erase(columns.begin() + failed);
  }
}
SHARDWISE_COMPILE_BOTH(spanning_rows)

}  // namespace shardwise::kernel
