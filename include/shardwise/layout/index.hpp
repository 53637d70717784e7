// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The integer that counts elements, and the global extents of a tensor.

#include <cstddef>

#include <shardwise/layout/array.hpp>

namespace shardwise {

/// Extents, offsets and element counts. Signed, as in Eigen, so that differences are safe.
using Index = std::ptrdiff_t;

/// A tensor has at most this many dimensions.
inline constexpr int max_rank = 8;

/// The target of tokens that do not count, for who makes targets and for who computes losses; PyTorch's number.
inline constexpr Index ignore_index_default = -100;

/// The extents of a tensor with `Rank` dimensions; rank 0 is a scalar.
template <int Rank>
using Shape = Array<Index, Rank>;

template <int Rank>
constexpr Index elements(const Shape<Rank>& shape) {
  Index count = 1;
  for (Index extent : shape) count *= extent;
  return count;
}

}  // namespace shardwise
