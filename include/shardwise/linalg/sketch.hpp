// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The sketch s · x of a tall matrix x [m, n], where s has random signs. It has little more than n rows, but about the
/// norms and angles of x: if s · x = u · r with orthonormal columns of u, those of x · r⁻¹ are nearly orthonormal, for
/// any condition number of x up to 1 / ε. The signs depend on global rows alone, so the sketch is the same on any mesh,
/// except for rounding.
///
/// A column of s has 8 numbers that are not 0. So the sketch takes 8 additions for an element of x, where normal
/// numbers would take more than n, and their generation as many logarithms.

#include <shardwise/kernel/sketch.hpp>
#include <shardwise/linalg/gram.hpp>

namespace shardwise::detail {

/// Condition numbers of x · r⁻¹ are below 100; one step of CholeskyQR then leaves errors of ε times its square. Above
/// this, the sketch has failed.
inline constexpr double limit_after_a_sketch = 1e4;

/// The sketch of x on every rank. Collective over the axes that cut x.
template <TensorType X>
constexpr auto sketch(const X& x, std::uint64_t seed) {
  using T = typename X::Element;
  const Index m = x.local_shape()[0], n = x.shape()[1], d = n + std::max<Index>((n + 3) / 4, 32);
  decltype(gram(x)) sums(x.mesh(), {d, n});
  count_work(x.mesh(), 16 * m * n, m * n * Index{sizeof(T)}, "sketch");
  if (!x.mesh().dry()) {
    T* const own = sums.writable().data;
    std::fill_n(own, d * n, T{0});
    kernel::add_sketch(m, n, static_cast<std::uint64_t>(x.view().begin[0]), seed, x.data(), d, own);
  }
  return redistribute_to<finished_of<decltype(sums)>>(std::move(sums));
}

}  // namespace shardwise::detail
