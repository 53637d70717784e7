// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Collectives in words, and whether two ranks mean the same one.

#include <shardwise/layout/hash.hpp>
#include <shardwise/mesh/transport.hpp>

namespace shardwise::detail {

constexpr const char* name_of(ReduceOp op) {
  constexpr const char* in_their_order[] = {"sum", "max", "min"};
  return in_their_order[static_cast<int>(op)];
}

inline std::string text_of(const Elements& elements) {
  return elements.own ? text({"structs of ", elements.width, " bytes"}) : name_of(elements.type);
}

/// "all_reduce of 12 f32 (sum) over tp"
inline std::string text_of(const Call& call) {
  std::string words = call.name();
  if (call.background) words += "_async";
  const auto add = [&](Numbers counts) {
    constexpr std::size_t shown = 8;
    for (std::size_t i = 0; i < std::min(counts.size(), shown); ++i)
      words += (i > 0 ? ", " : "") + std::to_string(counts[i]);
    if (counts.size() > shown) words += ", … (" + std::to_string(counts.size()) + " ranks)";
  };
  if (call.kind != Collective::none) words += " of ";
  if (call.kind == Collective::all_reduce) words += std::to_string(call.count);
  add(call.counts);
  if (call.kind != Collective::none) words += " " + text_of(call.elements);
  if (call.reduces() && !call.elements.own) words += std::string(" (") + name_of(call.elements.op) + ")";
  return *call.axes == 0 ? words : words + " over " + call.axes;
}

/// What ranks must have alike in a collective, as numbers; what goes through an all-to-all is not among them.
inline std::array<Index, 7> signature(const Call& call) {
  Fnv1a blocks;
  if (call.kind != Collective::all_to_all) {
    for (const Index count : call.counts) blocks.add(static_cast<std::uint64_t>(count));
  }
  const Elements& elements = call.elements;
  return {static_cast<Index>(call.kind),
          call.background ? 1 : 0,
          elements.width,
          elements.own ? elements.own->id : static_cast<Index>(elements.type),
          call.reduces() ? static_cast<Index>(elements.op) : -1,
          call.count,
          static_cast<Index>(blocks.value)};
}

}  // namespace shardwise::detail
