// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Safe terminal output of generated text.

#include <utf8proc.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <span>
#include <string>
#include <vector>

namespace tools {

/// The prompt and its continuation by the new tokens. All tokens are decoded together, because a first token alone
/// may lose its space.
template <class Tokenizer>
std::string continued(const Tokenizer& tokenizer, const std::string& prompt,
                      std::span<const std::int32_t> ids, std::span<const std::int32_t> written) {
  std::vector<std::int32_t> all(ids.begin(), ids.end());
  all.insert(all.end(), written.begin(), written.end());
  const std::string before = tokenizer.decode(ids), text = tokenizer.decode(all);
  return prompt + (text.starts_with(before) ? text.substr(before.size()) : tokenizer.decode(written));
}

/// Escapes everything that could control a terminal: control characters except tabs and line ends, and characters that
/// change the text direction, become \x1b or \u202e. Invalid UTF-8, such as an incomplete character, becomes U+FFFD.
inline std::string printable(const std::string& text) {
  std::string safe;
  for (std::size_t i = 0; i < text.size();) {
    utf8proc_int32_t c = 0;
    const auto* const bytes = reinterpret_cast<const utf8proc_uint8_t*>(text.data());
    const auto bytes_of_c = utf8proc_iterate(bytes + i, static_cast<utf8proc_ssize_t>(text.size() - i), &c);
    const auto length =
        static_cast<std::size_t>(std::max<utf8proc_ssize_t>(bytes_of_c, 0));  // 0: invalid, c is -1
    const bool control = (c >= 0 && c < 0x20 && c != '\n' && c != '\t') || (c >= 0x7f && c < 0xa0);
    const bool turns = c == 0x61c || c == 0x200e || c == 0x200f || (c >= 0x202a && c <= 0x202e) ||
                       (c >= 0x2066 && c <= 0x2069);
    char code[8];
    std::snprintf(code, sizeof code, control ? "\\x%02x" : "\\u%04x", static_cast<unsigned>(c));
    safe += length == 0 ? "\xef\xbf\xbd" : control || turns ? code : text.substr(i, length);
    i += length == 0 ? 1 : length;
    while (length == 0 && i < text.size() && (static_cast<unsigned char>(text[i]) & 0xc0) == 0x80) ++i;
  }
  return safe;
}

}  // namespace tools
