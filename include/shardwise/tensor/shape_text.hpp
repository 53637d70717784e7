// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// A shape as messages spell it: "[2 x 3]".

#include <span>
#include <string>

#include <shardwise/layout/index.hpp>

namespace shardwise::detail {

inline std::string to_string(std::span<const Index> shape) {
  std::string text;
  for (Index extent : shape) text += (text.empty() ? "" : " x ") + std::to_string(extent);
  return "[" + text + "]";
}

}  // namespace shardwise::detail
