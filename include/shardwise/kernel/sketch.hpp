// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The sketch of a block of rows: see linalg/sketch.hpp.

#include <Eigen/Core>
#include <cmath>
#include <utility>

#include <shardwise/base/bodies.hpp>
#include <shardwise/base/index.hpp>
#include <shardwise/kernel/philox.hpp>

namespace shardwise::kernel {

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
    const auto words = {random_block(seed, RandomStream::uniform, number),
                        random_block(seed, RandomStream::uniform, number + 1)};
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
SHARDWISE_COMPILE_BOTH(add_sketch)

}  // namespace shardwise::kernel
