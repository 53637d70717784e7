// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Folding a run of numbers into one: sums, dot products, maxima. Floating-point addition is not associative,
/// so a compiler keeps such a loop in order and scalar; here the order is spelled out: four vector registers
/// take turns. Long sums are cut into chunks that are added in `double`.
///
///     float m = max(n, x);  double s = sum_squares(n, x);  float xy = dot(n, x, y);

#include <algorithm>
#include <cstring>
#include <limits>

#include <shardwise/kernel/element.hpp>

namespace shardwise::kernel {

namespace detail {

/// Sixteen floats or eight doubles, as the compilers of gcc's family know them: a register of AVX-512,
/// several of a smaller machine.
template <class C>
struct Lanes {
  typedef C type __attribute__((vector_size(64)));
  static constexpr Index count = 64 / sizeof(C);
};

/// Folds f(x[i], y[i]) over i < n with `join(sum, term)`, from `initial`, which must be neutral; C is float
/// or double. f and join put their result into their first argument, a register or a single number.
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

/// Calls f(count, x, y) for successive chunks, in which elements have been widened to `Wide`.
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

/// What is summed; see `fold`.
struct Itself {
  void operator()(auto& term, const auto& a, const auto&) const { term = a; }
};
struct Square {
  void operator()(auto& term, const auto& a, const auto&) const { term = a * a; }
};
struct Product {
  void operator()(auto& term, const auto& a, const auto& b) const { term = a * b; }
};

template <class Wide, class T, class F>
double sum_of(Index n, const T* x, const T* y, F f) {
  double total = 0;
  chunks<Wide>(n, x, y, [&](Index count, const auto* a, const auto* b) {
    const auto join = [](auto& so_far, const auto& term) { so_far += term; };
    total += static_cast<double>(fold(count, Wide{0}, f, join, a, b));
  });
  return total;
}

}  // namespace detail

template <class T>
double sum(Index n, const T* x) {
  return detail::sum_of<compute_t<T>>(n, x, x, detail::Itself{});
}

template <class T>
double sum_squares(Index n, const T* x) {
  return detail::sum_of<compute_t<T>>(n, x, x, detail::Square{});
}

template <class T>
double dot(Index n, const T* x, const T* y) {
  return detail::sum_of<compute_t<T>>(n, x, y, detail::Product{});
}

/// The largest element, -∞ if there is none. NaN may or may not be seen.
template <class T>
compute_t<T> max(Index n, const T* x) {
  compute_t<T> result = -std::numeric_limits<compute_t<T>>::infinity();
  detail::chunks<compute_t<T>>(n, x, x, [&](Index count, const auto* a, const auto* b) {
    const auto join = [](auto& largest, const auto& term) { largest = term > largest ? term : largest; };
    result = detail::fold(count, result, detail::Itself{}, join, a, b);
  });
  return result;
}

}  // namespace shardwise::kernel
