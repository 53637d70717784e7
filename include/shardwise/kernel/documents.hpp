// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Documents packed into rows, by one number per token: adjacent equal numbers belong to one document; negative
/// numbers are padding.

#include <algorithm>

#include <shardwise/layout/block.hpp>

namespace shardwise::kernel {

/// For each of the `count` tokens from `first` on in each row, the range of tokens of its document: [batch, count],
/// empty for padding. numbers: [batch, tokens].
template <class Id>
void document_ranges(Index batch, Index tokens, const Id* numbers, Index first, Index count, Range* ranges) {
  for (Index b = 0; b < batch; ++b, numbers += tokens, ranges += count) {
    for (Index begin = 0, end = 0; begin < tokens; begin = end) {
      while (end < tokens && numbers[end] == numbers[begin]) ++end;
      const Range document = numbers[begin] < 0 ? Range{} : Range{begin, end - begin};
      const Range here = intersection({first, count}, {begin, end - begin});
      if (here.size > 0) std::fill_n(ranges + (here.begin - first), here.size, document);
    }
  }
}

}  // namespace shardwise::kernel
