// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Which dimension an operation works along: numbered from 0, or from the end as -1, -2, …

#include <shardwise/layout/signature.hpp>

namespace shardwise::detail {

/// Is there such a dimension?
constexpr bool has_dimension(int dim, int rank) { return dim >= -rank && dim < rank; }

constexpr int dimension(int dim, int rank) { return dim < 0 ? dim + rank : dim; }

/// The letters of `all` with the dimensions `a` and `b` exchanged.
constexpr Indices exchanged(Indices all, int a, int b) {
  Indices result = all;
  result.letters[a] = all[b];
  result.letters[b] = all[a];
  return result;
}

}  // namespace shardwise::detail
