// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Gathers numbers or texts of all ranks on every rank.

#include <shardwise/base/bodies.hpp>
#include <shardwise/comm/communicator.hpp>

namespace shardwise::detail {

/// All ranks' numbers, equally many from each: those of rank r begin at r * mine.size(). Collective.
std::vector<Index> gather(const Communicator& ranks, std::span<const Index> mine);

/// Each rank's text. Collective.
std::vector<std::string> gather_each(const Communicator& ranks, std::string_view mine);

/// The texts of all ranks, concatenated. Collective.
std::string gather_texts(const Communicator& ranks, std::string_view mine);

}  // namespace shardwise::detail

#ifdef SHARDWISE_BODIES
namespace shardwise::detail {

SHARDWISE_INLINE std::vector<Index> gather(const Communicator& ranks, std::span<const Index> mine) {
  const std::vector<Index> counts(static_cast<std::size_t>(ranks.size()), static_cast<Index>(mine.size()));
  std::vector<Index> all(counts.size() * mine.size());
  ranks.all_gather(mine.data(), all.data(), counts, offsets_of(counts), data_type<Index>);
  return all;
}

SHARDWISE_INLINE std::vector<std::string> gather_each(const Communicator& ranks, std::string_view mine) {
  const Index bytes[]{static_cast<Index>(mine.size())};
  const std::vector<Index> lengths = gather(ranks, bytes);
  std::string all(static_cast<std::size_t>(sum_of(lengths)), '\0');
  ranks.all_gather(mine.data(), all.data(), lengths, offsets_of(lengths), DataType::u8);
  std::vector<std::string> texts;
  for (std::size_t begin = 0; texts.size() < lengths.size(); begin += texts.back().size())
    texts.push_back(all.substr(begin, static_cast<std::size_t>(lengths[texts.size()])));
  return texts;
}

SHARDWISE_INLINE std::string gather_texts(const Communicator& ranks, std::string_view mine) {
  std::string all;
  for (const std::string& text : gather_each(ranks, mine)) all += text;
  return all;
}

}  // namespace shardwise::detail
#endif
