// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Documents packed into rows, by one number per token: adjacent equal numbers belong to one document, and numbers
/// do not decrease within a row; negative ones are padding.

#include <algorithm>

#include <shardwise/base/text.hpp>
#include <shardwise/layout/block.hpp>

namespace shardwise::kernel {

/// For each of the `count` tokens from `first` on in each row, the range of tokens of its document: [batch, count],
/// empty for padding. numbers: [batch, tokens]. Throws `std::invalid_argument` if a row's numbers decrease: they may be
/// tokens or targets.
template <class Id>
void document_ranges(Index batch, Index tokens, const Id* numbers, Index first, Index count, Range* ranges) {
  for (Index b = 0; b < batch; ++b, numbers += tokens, ranges += count) {
    Id last = 0;
    for (Index begin = 0, end = 0; begin < tokens; begin = end) {
      while (end < tokens && numbers[end] == numbers[begin]) ++end;
      if (numbers[begin] >= 0) {
        if (numbers[begin] < last) {
          shardwise::detail::fail(
              {"documents: row ", b, " of this rank has ", numbers[begin], " at token ", begin, ", after ",
               last, ": documents are numbered in the order of their tokens, and padding is negative"});
        }
        last = numbers[begin];
      }
      const Range document = numbers[begin] < 0 ? Range{} : Range{begin, end - begin};
      const Range here = intersection({first, count}, {begin, end - begin});
      if (here.size > 0) std::fill_n(ranges + (here.begin - first), here.size, document);
    }
  }
}

}  // namespace shardwise::kernel
