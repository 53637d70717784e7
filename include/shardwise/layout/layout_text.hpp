// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Placements and layouts as text: "Shard<1>".

#include <string>

#include <shardwise/layout/layout.hpp>

namespace shardwise::detail {

inline std::string text_of(Placement p) {
  if (p.is_shard()) return "Shard<" + std::to_string(p.dim()) + ">";
  if (p.is_full()) return p == reduced ? "Reduced" : "Replicate";
  return p == partial_sum ? "Partial<Sum>" : p == partial_max ? "Partial<Max>" : "Partial<Min>";
}

/// "Shard<0>, Replicate"
inline std::string text_of(const Layout& layout) {
  std::string text;
  for (int axis = 0; axis < layout.axes; ++axis) text += (axis > 0 ? ", " : "") + text_of(layout[axis]);
  return text;
}

}  // namespace shardwise::detail
