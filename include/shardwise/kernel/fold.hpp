// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Reductions of a run of numbers. Floating-point addition is not associative, so compilers keep such a loop
/// ordered and scalar; here the order is explicit: four vector registers in turn.

#include <algorithm>
#include <cstring>

#include <shardwise/kernel/element.hpp>

namespace shardwise::kernel::detail {

/// The size of a vector register; 0: kernels by registers are not worth while.
#if defined(__AVX512F__)
inline constexpr int register_bytes = 64;
#elif defined(__AVX__)
inline constexpr int register_bytes = 32;
#elif defined(__aarch64__)
inline constexpr int register_bytes = 16;
#else
inline constexpr int register_bytes = 0;
#endif

/// Sixteen floats or eight doubles as a vector type of gcc and clang: one AVX-512 register, or several smaller ones.
template <class C>
struct Lanes {
  typedef C type __attribute__((vector_size(64)));
  static constexpr Index count = 64 / sizeof(C);
};

/// Folds f(x[i], y[i]) over i < n with `join(sum, term)`, from `initial`, which must be neutral; C is float or
/// double. f and join write their result to their first argument, a register or a single number.
template <class C, class F, class Join>
C fold(Index n, C initial, F f, Join join, const C* x, const C* y) {
  using Lane = typename Lanes<C>::type;
  constexpr Index width = Lanes<C>::count, turns = 4;
  C result = initial;
  Index i = 0;
  if (n >= width) {
    Lane total[turns], term, a, b;
    for (Lane& lane : total) lane = initial - Lane{};
    const auto add_term = [&](Lane& sum, Index at) {
      std::memcpy(&a, x + at, sizeof a);
      std::memcpy(&b, y + at, sizeof b);
      f(term, a, b);
      join(sum, term);
    };
    for (; i + turns * width <= n; i += turns * width) {
      add_term(total[0], i);
      add_term(total[1], i + width);
      add_term(total[2], i + 2 * width);
      add_term(total[3], i + 3 * width);
    }
    for (; i + width <= n; i += width) add_term(total[0], i);
    join(total[0], total[1]);
    join(total[2], total[3]);
    join(total[0], total[2]);
    C lanes[Lanes<C>::count];
    std::memcpy(lanes, &total[0], sizeof lanes);
    for (Index half = width / 2; half > 0; half /= 2) {
      for (Index lane = 0; lane < half; ++lane) join(lanes[lane], lanes[lane + half]);
    }
    result = lanes[0];
  }
  for (C term; i < n; ++i) {
    f(term, x[i], y[i]);
    join(result, term);
  }
  return result;
}

/// Calls f(count, x, y) for successive chunks whose elements are widened to `Wide`.
template <class Wide, class T, class F>
void chunks(Index n, const T* x, const T* y, F f) {
  if constexpr (std::is_same_v<T, Wide>) {
    constexpr Index size = 2048;
    for (Index i = 0; i < n; i += size) f(std::min(size, n - i), x + i, y + i);
  } else {
    constexpr Index size = 512;
    Wide wide_x[size], wide_y[size];
    for (Index i = 0; i < n; i += size) {
      const Index count = std::min(size, n - i);
      for (Index j = 0; j < count; ++j) wide_x[j] = static_cast<Wide>(widen(x[i + j]));
      if (x != y) {
        for (Index j = 0; j < count; ++j) wide_y[j] = static_cast<Wide>(widen(y[i + j]));
      }
      f(count, wide_x, x == y ? wide_x : wide_y);
    }
  }
}

}  // namespace shardwise::kernel::detail
