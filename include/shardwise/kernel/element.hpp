// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Element types and working memory of kernels. Elements are stored as `float`, `double` or `Eigen::bfloat16`, and
/// computed with as `compute_t<T>`: a kernel widens its inputs, computes, and narrows each result once.
///
///     compute_t<Eigen::bfloat16> y = widen(x[i]) * 2;   // a float
///     x[i] = narrow<Eigen::bfloat16>(y);                // to nearest, ties to even

#include <Eigen/Core>
#include <cmath>
#include <type_traits>
#include <vector>

#include <shardwise/base/finite.hpp>

/// Asserts that the iterations of the next loop are independent: arrays are identical or do not overlap. Otherwise
/// in-place use (`y == x`) would take the compiler's unvectorised fallback.
#if defined(__clang__)
#define SHARDWISE_INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#elif defined(__GNUC__)
#define SHARDWISE_INDEPENDENT _Pragma("GCC ivdep")
#else
#define SHARDWISE_INDEPENDENT
#endif

namespace shardwise::kernel {

/// The type used for computing with elements of type `T`.
template <class T>
using compute_t = std::conditional_t<std::is_same_v<T, Eigen::bfloat16>, float, T>;

template <class T>
[[gnu::always_inline]] inline T widen(T x) {
  return x;
}
[[gnu::always_inline]] inline float widen(Eigen::bfloat16 x) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(x.value) << 16);
}

/// Rounds to the nearest `T`, ties to even. No branches, so that loops vectorise.
template <class T>
[[gnu::always_inline]] inline T narrow(compute_t<T> x) {
  if constexpr (std::is_same_v<T, Eigen::bfloat16>) {
    const auto bits = std::bit_cast<std::uint32_t>(x);
    const std::uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
    const bool nan = std::isnan(x);
    return Eigen::bfloat16_impl::raw_uint16_to_bfloat16(static_cast<std::uint16_t>(nan ? 0x7fc0u : rounded));
  } else {
    return x;
  }
}

/// y[i] = f(x[i]…) for i < n; f takes and returns `compute_t<T>`. y may be one of the inputs.
template <class T, class F, class... In>
void map(Index n, T* y, F f, const In*... x) {
  SHARDWISE_INDEPENDENT
  for (Index i = 0; i < n; ++i) y[i] = narrow<T>(f(widen(x[i])...));
}

namespace detail {

/// Prefetches n elements, which may extend past the end of an array. The hardware prefetcher does not look far
/// enough ahead of the arithmetic of an exponential (this makes the gradient of a cross entropy, in place, three
/// times as fast), nor to the next of widely spaced rows.
template <class T>
[[gnu::always_inline]] inline void prefetch(Index n, const T* x) {
  const auto begin = reinterpret_cast<std::uintptr_t>(x),
             end = begin + static_cast<std::uintptr_t>(n) * sizeof(T);
  for (auto line = begin; line < end; line += 64) __builtin_prefetch(reinterpret_cast<const void*>(line));
}

struct alignas(64) ScratchLine {
  char bytes[64];
};

}  // namespace detail

/// Working memory of a kernel: one buffer per thread and purpose, which only grows, so that a steady state
/// allocates nothing and touches no fresh page. At least `count` elements, 64-byte aligned, with arbitrary
/// contents. `Purpose` is any type, usually one declared for it; two requests with the same purpose return the same
/// memory, and the later one may invalidate the earlier.
///
///     struct Scores;
///     float* scores = scratch<Scores, float>(64 * 128);
template <class Purpose, class C>
C* scratch(Index count) {
  thread_local std::vector<detail::ScratchLine> lines;
  const std::size_t needed = static_cast<std::size_t>(count) * sizeof(C) / sizeof(detail::ScratchLine) + 1;
  if (lines.size() < needed) lines = std::vector<detail::ScratchLine>(needed);
  return reinterpret_cast<C*>(lines.data());
}

}  // namespace shardwise::kernel
