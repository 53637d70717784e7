// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Where in the whole tensor an element of a block is, in words, for error messages.

#include <string>

#include <shardwise/tensor/tensor.hpp>

namespace shardwise::detail {

/// The global index of the element at `offset` in the block: "[3, 17]".
template <class T, int Rank>
std::string position(const View<T, Rank>& block, Index offset) {
  std::string text;
  for (int dim = Rank - 1; dim >= 0; --dim) {
    text = std::to_string(block.begin[dim] + offset % block.size[dim]) + (text.empty() ? "" : ", ") + text;
    offset /= block.size[dim];
  }
  return "[" + text + "]";
}

}  // namespace shardwise::detail
