// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The signed integer for counts and extents, fixed-size arrays, and shapes.

#if __cplusplus < 202002L
#error "Shardwise needs C++20: compile with -std=c++20"
#include <compile_with_std_cpp20>  // does not exist: ends the compilation
#endif

#if defined(__clang_major__) && __clang_major__ < 15 && __cplusplus > 202002L
#error \
    "clang 14 miscompiles C++23 (__builtin_is_constant_evaluated() is true at run time): use C++20, or clang 15"
#endif

#if defined(__FAST_MATH__) || (defined(__FINITE_MATH_ONLY__) && __FINITE_MATH_ONLY__ > 0)
#error "Shardwise needs NaN and infinity: compile without -ffast-math, -Ofast and -ffinite-math-only"
#endif

#include <concepts>
#include <cstddef>

namespace shardwise {

/// Extents, offsets and element counts. Signed, as in Eigen, so that differences are safe.
using Index = std::ptrdiff_t;

/// A tensor has at most this many dimensions.
inline constexpr int max_rank = 8;

/// The target of tokens that the loss ignores; the same value as PyTorch's.
inline constexpr Index ignore_index_default = -100;

/// Like `std::array`, but counted by `int` and indexed by any integer, because dimensions, axes and operands are
/// ints here. An aggregate: `Array<int, 3> a{1, 2, 3};`.
template <class T, int Size>
struct Array {
  T values[Size > 0 ? Size : 1];

  static constexpr int size() { return Size; }
  constexpr T& operator[](std::integral auto i) { return values[i]; }
  constexpr const T& operator[](std::integral auto i) const { return values[i]; }
  constexpr const T& back() const { return values[Size - 1]; }
  constexpr void fill(const T& value) {
    for (T& each : values) each = value;
  }
  constexpr T* data() { return values; }
  constexpr const T* data() const { return values; }
  constexpr T* begin() { return values; }
  constexpr const T* begin() const { return values; }
  constexpr T* end() { return values + Size; }
  constexpr const T* end() const { return values + Size; }

  friend constexpr bool operator==(const Array& a, const Array& b) {
    for (int i = 0; i < Size; ++i) {
      if (!(a.values[i] == b.values[i])) return false;
    }
    return true;
  }
};

/// A copy of a built-in array.
template <class T, int Size>
constexpr Array<T, Size> to_array(const T (&values)[Size]) {
  Array<T, Size> array{};
  for (int i = 0; i < Size; ++i) array[i] = values[i];
  return array;
}

/// The extents of a tensor with `Rank` dimensions; rank 0 is a scalar.
template <int Rank>
using Shape = Array<Index, Rank>;

/// The dimensions of `first`, then those of `second`.
template <int First, int Second>
constexpr Shape<First + Second> joined(const Shape<First>& first, const Shape<Second>& second) {
  Shape<First + Second> all{};
  for (int i = 0; i < First; ++i) all[i] = first[i];
  for (int i = 0; i < Second; ++i) all[First + i] = second[i];
  return all;
}

/// The product of the extents; 1 for a scalar.
template <int Rank>
constexpr Index elements(const Shape<Rank>& shape) {
  Index count = 1;
  for (int dim = 0; dim < Rank; ++dim) count *= shape.values[dim];
  return count;
}

}  // namespace shardwise
