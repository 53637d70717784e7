// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Elementwise arithmetic on blocks of n elements, whose output may be one of the inputs; and addition of a row to
/// every row of a block.

#include <cstring>
#include <functional>

#include <shardwise/base/bodies.hpp>
#include <shardwise/kernel/element.hpp>

namespace shardwise::kernel {

/// y = v
template <class T>
void fill(Index n, compute_t<T> v, T* y) {
  const T value = narrow<T>(v);
  for (Index i = 0; i < n; ++i) y[i] = value;
}

/// y = x
template <class T>
void copy(Index n, const T* x, T* y) {
  if (n > 0 && x != y) std::memcpy(static_cast<void*>(y), x, static_cast<std::size_t>(n) * sizeof(T));
}

/// y = a + b
template <class T>
void add(Index n, const T* a, const T* b, T* y) {
  map(n, y, std::plus<>(), a, b);
}
SHARDWISE_COMPILE_EACH(add)

/// y += x
template <class T>
void accumulate(Index n, const T* x, T* y) {
  add(n, x, y, y);
}
SHARDWISE_COMPILE_EACH(accumulate)

/// y += x, where y has the compute type.
template <class T>
void accumulate_wide(Index n, const T* x, compute_t<T>* y) {
  SHARDWISE_INDEPENDENT
  for (Index i = 0; i < n; ++i) y[i] += widen(x[i]);
}

/// y = x, each rounded to the nearest `T` if that is narrower.
template <class S, class T>
void convert(Index n, const S* x, T* y) {
  SHARDWISE_INDEPENDENT
  for (Index i = 0; i < n; ++i) y[i] = narrow<T>(static_cast<compute_t<T>>(widen(x[i])));
}

/// y = a - b
template <class T>
void subtract(Index n, const T* a, const T* b, T* y) {
  map(n, y, std::minus<>(), a, b);
}
SHARDWISE_COMPILE_EACH(subtract)

/// y = a · b
template <class T>
void multiply(Index n, const T* a, const T* b, T* y) {
  map(n, y, std::multiplies<>(), a, b);
}
SHARDWISE_COMPILE_EACH(multiply)

/// y = s · x
template <class T>
void scale(Index n, compute_t<T> s, const T* x, T* y) {
  map(
      n, y, [s](compute_t<T> value) { return s * value; }, x);
}
SHARDWISE_COMPILE_EACH(scale)

/// y += s · x
template <class T>
void accumulate_scaled(Index n, compute_t<T> s, const T* x, T* y) {
  map(
      n, y, [s](compute_t<T> value, compute_t<T> old) { return old + s * value; }, x, y);
}
SHARDWISE_COMPILE_EACH(accumulate_scaled)

/// y[r, c] += bias[c]
template <class T>
void add_rows(Index rows, Index cols, const T* bias, T* y) {
  for (Index r = 0; r < rows; ++r) accumulate(cols, bias, y + r * cols);
}
SHARDWISE_COMPILE_EACH(add_rows)

}  // namespace shardwise::kernel
