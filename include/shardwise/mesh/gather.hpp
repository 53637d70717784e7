// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// A few numbers, or a text, of each rank: for all ranks to see.

#include <numeric>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <shardwise/mesh/communicator.hpp>

// Implementation details: not part of the interface.
namespace shardwise::detail {

/// Where blocks of these sizes begin that lie one after another.
inline std::vector<Index> offsets_of(std::span<const Index> counts) {
  std::vector<Index> offsets(counts.size());
  std::exclusive_scan(counts.begin(), counts.end(), offsets.begin(), Index{0});
  return offsets;
}

/// All ranks' numbers, as many of each: those of rank r begin at r * mine.size(). Collective.
inline std::vector<Index> gather(const Communicator& ranks, std::span<const Index> mine) {
  const std::vector<Index> counts(static_cast<std::size_t>(ranks.size()), static_cast<Index>(mine.size()));
  std::vector<Index> all(counts.size() * mine.size());
  ranks.all_gather(mine.data(), all.data(), counts, offsets_of(counts), data_type<Index>);
  return all;
}

/// All ranks' texts, one after another, into `all`, which is as long as they are together. Collective.
inline void gather(const Communicator& ranks, std::string_view mine, std::span<const Index> lengths,
                   std::string& all) {
  ranks.all_gather(mine.data(), all.data(), lengths, offsets_of(lengths), DataType::u8);
}

}  // namespace shardwise::detail
