// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// A hash by which ranks find out that they differ.

#include <cstdint>
#include <string_view>

namespace shardwise::detail {

/// 64-bit FNV-1a (Fowler, Noll and Vo) of characters or numbers. Not cryptographic: it detects accidental differences.
struct Fnv1a {
  std::uint64_t value = 14695981039346656037u;

  constexpr void add(std::uint64_t number) { value = (value ^ number) * 1099511628211u; }
  constexpr void add(std::string_view letters) {
    for (const char letter : letters) add(std::uint64_t{static_cast<unsigned char>(letter)});
  }
  friend constexpr bool operator==(const Fnv1a&, const Fnv1a&) = default;
};

}  // namespace shardwise::detail
