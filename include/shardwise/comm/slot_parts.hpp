// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Helpers for the slots of ranks that share memory: parts of blocks, and numbers.

#include <cstring>

#include <shardwise/base/index.hpp>

namespace shardwise::detail {

struct SlotParts {
  static std::size_t at(int r) { return static_cast<std::size_t>(r); }
  static void copy(char* to, const char* from, Index bytes) {
    if (bytes > 0) std::memcpy(to, from, static_cast<std::size_t>(bytes));
  }
  static Index rounds_for(Index count, Index a_round) { return (count + a_round - 1) / a_round; }

  template <class T>
  static void write(char* to, T value) {
    std::memcpy(to, &value, sizeof(value));
  }
  template <class T = Index>
  static T read(const char* from) {
    T value{};
    std::memcpy(&value, from, sizeof(value));
    return value;
  }

  /// Part k of a block that is cut into `parts`, in bytes.
  struct Part {
    Index begin, bytes;
  };
  static Part cut(Index count, Index k, Index parts, Index width) {
    const Index begin = count * k / parts * width;
    return {begin, count * (k + 1) / parts * width - begin};
  }
};

}  // namespace shardwise::detail
