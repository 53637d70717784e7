// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The characters that byte-level vocabularies write bytes as.

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

// Implementation details: not part of the interface.
namespace shardwise::detail {

/// The characters that stand for bytes in byte-level vocabularies (GPT-2's `bytes_to_unicode`): a byte that
/// is a visible Latin-1 character is that character; the others, in order, are U+0100, U+0101, …
class ByteAlphabet {
 public:
  constexpr ByteAlphabet() {
    char16_t next = 0x100;
    for (std::size_t byte = 0; byte < 256; ++byte) {
      const bool visible = (byte > 0x20 && byte < 0x7f) || (byte > 0xa0 && byte != 0xad);
      character_of_[byte] = visible ? static_cast<char16_t>(byte) : next++;
      byte_of_[character_of_[byte]] = static_cast<std::int16_t>(byte);
    }
  }

  /// Adds the UTF-8 of the byte's character to `text`.
  constexpr void append(std::string& text, char byte) const {
    const char16_t character = character_of_[static_cast<unsigned char>(byte)];
    if (character < 0x80) {
      text += static_cast<char>(character);
    } else {
      text += static_cast<char>(0xc0 | character >> 6);
      text += static_cast<char>(0x80 | (character & 0x3f));
    }
  }

  /// The byte that a character stands for; -1 if it stands for none.
  constexpr int byte(char32_t character) const {
    return character < byte_of_.size() ? byte_of_[character] : -1;
  }

 private:
  static constexpr std::size_t characters = 0x100 + 68;  // 68 bytes are not visible
  static constexpr std::array<std::int16_t, characters> nothing() {
    std::array<std::int16_t, characters> all{};
    for (auto& byte : all) byte = -1;
    return all;
  }

  std::array<char16_t, 256> character_of_{};
  std::array<std::int16_t, characters> byte_of_ = nothing();
};

inline constexpr ByteAlphabet byte_alphabet;

}  // namespace shardwise::detail
