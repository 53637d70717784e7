// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The characters of UTF-8 text, and those that represent bytes in byte-level vocabularies.

#include <array>
#include <cstdint>

#include <shardwise/base/text.hpp>
#include <shardwise/llm/namespaces.hpp>

namespace shardwise::llm::detail {

/// A character of UTF-8 text. `length` is its number of bytes; 0 if the bytes are invalid.
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

/// Throws `std::invalid_argument`, with the first invalid byte, unless the text is valid.
inline void check_utf8(std::string_view text) {
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t length = character_at(text, i).length;
    if (length == 0) {
      fail({"the text is not UTF-8: byte ", static_cast<unsigned char>(text[i]), " at offset ", i});
    }
    i += length;
  }
}

/// Unicode's White_Space.
constexpr bool white_space(char32_t c) {
  return (c >= 9 && c <= 13) || c == 0x20 || c == 0x85 || c == 0xa0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 || c == 0x202f || c == 0x205f ||
         c == 0x3000;
}

/// The characters that represent bytes in byte-level vocabularies (GPT-2's `bytes_to_unicode`): a byte that is a
/// visible Latin-1 character is that character; the others, in order, are U+0100, U+0101, …
class ByteAlphabet {
 public:
  constexpr ByteAlphabet() {
    byte_of_.fill(-1);
    char16_t next = 0x100;
    for (std::size_t byte = 0; byte < 256; ++byte) {
      const bool visible = (byte > 0x20 && byte < 0x7f) || (byte > 0xa0 && byte != 0xad);
      character_of_[byte] = visible ? static_cast<char16_t>(byte) : next++;
      byte_of_[character_of_[byte]] = static_cast<std::int16_t>(byte);
    }
  }

  /// Appends the byte's character in UTF-8 to `text`.
  constexpr void append(std::string& text, char byte) const {
    const char16_t character = character_of_[static_cast<unsigned char>(byte)];
    if (character < 0x80) {
      text += static_cast<char>(character);
    } else {
      text += static_cast<char>(0xc0 | character >> 6);
      text += static_cast<char>(0x80 | (character & 0x3f));
    }
  }

  /// The byte that a character represents, or -1.
  constexpr int byte(char32_t character) const {
    return character < byte_of_.size() ? byte_of_[character] : -1;
  }

 private:
  std::array<char16_t, 256> character_of_{};
  std::array<std::int16_t, 0x100 + 68> byte_of_{};  // 68 bytes are not visible
};

inline constexpr ByteAlphabet byte_alphabet;

}  // namespace shardwise::llm::detail

namespace shardwise::llm {

/// The offset of the first byte that does not begin a valid UTF-8 character (surrogates and overlong forms are
/// invalid), or of the first control character that is not white space; the text's size if there is none.
inline std::size_t first_non_text(std::string_view text) {
  for (std::size_t i = 0; i < text.size();) {
    const auto [character, length] = detail::character_at(text, i);
    const bool white_space = character >= '\t' && character <= '\r';
    const bool control = (character < 0x20 && !white_space) || character == 0x7f;
    if (length == 0 || control) return i;
    i += length;
  }
  return text.size();
}

}  // namespace shardwise::llm
