// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Elementwise arithmetic on blocks of n elements, whose output may be one of the inputs. Operations of two blocks
/// take a number of rows: the first block has as many rows of n elements, and the second is one row, used for each.

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

/// y[r, i] = f(x[r, i]…, row[i])
template <class Y, class F, class T, class... X>
void map_rows(Index rows, Index n, Y* y, F f, const T* row, const X*... x) {
  if (n == 1 && rows > 1) {
    const compute_t<T> number = widen(*row);
    return map(
        rows, y, [f, number](auto... value) { return f(value..., number); }, x...);
  }
  for (Index r = 0; r < rows; ++r) map(n, y + r * n, f, x + r * n..., row);
}

/// y = a + b
template <class T>
void add(Index n, const T* a, const T* b, T* y, Index rows = 1) {
  map_rows(rows, n, y, std::plus<>(), b, a);
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
void subtract(Index n, const T* a, const T* b, T* y, Index rows = 1) {
  map_rows(rows, n, y, std::minus<>(), b, a);
}
SHARDWISE_COMPILE_EACH(subtract)

/// y = a · b
template <class T>
void multiply(Index n, const T* a, const T* b, T* y, Index rows = 1) {
  map_rows(rows, n, y, std::multiplies<>(), b, a);
}
SHARDWISE_COMPILE_EACH(multiply)

/// Formulas of two numbers for `map_rows`, each with the derivatives by the first and by the second.
struct Quotient {
  /// a / b
  [[gnu::always_inline]] static auto value(auto a, auto b) { return a / b; }
  [[gnu::always_inline]] static auto slope_a(auto, auto b) { return 1 / b; }
  [[gnu::always_inline]] static auto slope_b(auto a, auto b) { return -a / b / b; }
};

/// The number that is `Before` the other one: the smaller one for std::less<>. NaN if one is NaN. Of equal numbers each
/// has half of the gradient.
template <class Before>
struct Extremum {
  /// That number.
  template <class C>
  [[gnu::always_inline]] static C value(C a, C b) {
    return Before()(a, b) || shardwise::detail::is_nan(a) ? a : b;
  }
  template <class C>
  [[gnu::always_inline]] static C slope_a(C a, C b) {
    return Before()(b, a) ? C{0} : a == b ? static_cast<C>(0.5) : C{1};
  }
  [[gnu::always_inline]] static auto slope_b(auto a, auto b) { return slope_a(b, a); }
};

/// y = x where the mask is `wanted`, else `otherwise`.
template <class M, class T>
void select(Index n, const M* mask, bool wanted, const T* x, T* y, double otherwise = 0) {
  const auto other = static_cast<compute_t<T>>(otherwise);
  map(
      n, y, [=](M m, compute_t<T> value) { return (m != 0) == wanted ? value : other; }, mask, x);
}

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

}  // namespace shardwise::kernel
