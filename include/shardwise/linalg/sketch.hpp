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

#include <shardwise/kernel/philox.hpp>
#include <shardwise/linalg/gram.hpp>

namespace shardwise::detail {

/// Condition numbers of x · r⁻¹ are below 100; one step of CholeskyQR then leaves errors of ε times its square. Above
/// this, the sketch has failed.
inline constexpr double limit_after_a_sketch = 1e4;

/// sketch [d, n] += s · x for the rows of x [m, n] from number `first` on. s has ±1 / √8 in each eighth of a column.
template <class T>
void add_sketch(Index m, Index n, std::uint64_t first, std::uint64_t seed, const T* x, Index d, T* sketch) {
  using Row = Eigen::Array<T, 1, Eigen::Dynamic>;
  constexpr Index at_once = 1024;  // the rounding errors of short sums are small
  const T size = std::sqrt(T{0.125});
  Row part = Row::Zero(d * n);
  Eigen::Map<Row> all(sketch, d * n);
  for (Index i = 0; i < m; ++i) {
    const Eigen::Map<const Row> row(x + i * n, n);
    const auto number = 2 * (first + static_cast<std::uint64_t>(i));
    const auto words = {kernel::random_block(seed, kernel::RandomStream::uniform, number),
                        kernel::random_block(seed, kernel::RandomStream::uniform, number + 1)};
    Index end = 0, eighth = 0;
    for (const auto& four : words) {
      for (const std::uint32_t word : four) {
        const Index begin = std::exchange(end, ++eighth * d / 8);
        const Index chosen = begin + ((word >> 1) * (end - begin) >> 31);
        part.segment(chosen * n, n) += (word & 1 ? -size : size) * row;
      }
    }
    if ((i + 1) % at_once != 0 && i + 1 < m) continue;
    all += part;
    part.setZero();
  }
}

/// `X` with pending sums finished, so that it meets blocks of rows. An error stays.
template <class X>
struct FinishedOf : TypeIs<X> {};
template <TensorType X>
struct FinishedOf<X> : TypeIs<with_layout<X, packed(without_pending(X::layout, reduced))>> {};
template <class X>
using finished_of = typename FinishedOf<X>::type;

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
    add_sketch(m, n, static_cast<std::uint64_t>(x.view().begin[0]), seed, x.data(), d, own);
  }
  return redistribute_to<finished_of<decltype(sums)>>(std::move(sums));
}

}  // namespace shardwise::detail
