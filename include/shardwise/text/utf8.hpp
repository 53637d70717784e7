// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The characters of UTF-8 text.

#include <cstddef>
#include <stdexcept>
#include <string>
#include <string_view>

// Implementation details: not part of the interface.
namespace shardwise::detail {

/// A character of UTF-8 text. `length` is its number of bytes; 0 if the bytes are none.
struct Character {
  char32_t value = 0;
  std::size_t length = 0;
};

/// The character that begins at `text[begin]`, by table 3-7 of the Unicode Standard: the shortest form only,
/// no surrogates, nothing above U+10FFFF.
constexpr Character character_at(std::string_view text, std::size_t begin) {
  const auto lead = static_cast<unsigned char>(text[begin]);
  if (lead < 0x80) return {lead, 1};
  const std::size_t length = lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
  if (lead < 0xc2 || lead > 0xf4 || text.size() - begin < length) return {};
  char32_t value = lead & (0x7fu >> length);
  for (std::size_t i = 1; i < length; ++i) {
    const auto byte = static_cast<unsigned char>(text[begin + i]);
    if ((byte & 0xc0) != 0x80) return {};
    value = value << 6 | (byte & 0x3fu);
  }
  const bool overlong = (length == 3 && value < 0x800) || (length == 4 && value < 0x10000);
  const bool surrogate = value >= 0xd800 && value < 0xe000;
  if (overlong || surrogate || value > 0x10ffff) return {};
  return {value, length};
}

/// Throws `std::invalid_argument`, naming the first byte that begins no character.
inline void check_utf8(std::string_view text) {
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t length = character_at(text, i).length;
    if (length == 0) {
      throw std::invalid_argument("the text is not UTF-8: byte " +
                                  std::to_string(static_cast<unsigned char>(text[i])) + " at offset " +
                                  std::to_string(i));
    }
    i += length;
  }
}

}  // namespace shardwise::detail
