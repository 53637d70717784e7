// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// What a `tokenizer.json` changes in the text before all else.

#include <algorithm>
#include <cstddef>
#include <functional>
#include <iterator>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

#include <shardwise/text/tokenizer/component.hpp>
#include <shardwise/text/tokenizer/text_pattern.hpp>
#include <shardwise/text/utf8.hpp>

namespace shardwise::detail {

/// Changes a text, which may become so many bytes long.
using Normalizer = std::function<void(std::string&, std::size_t longest)>;

inline void replace(std::string& text, TextPattern::Scanner& scan, const std::string& content,
                    std::size_t longest) {
  std::string result;
  std::size_t done = 0;
  scan(text, [&](std::size_t begin, std::size_t end) {
    check_length(result.size() + (begin - done) + content.size(), longest);
    result.append(text, done, begin - done).append(content);
    done = end;
  });
  text = result.append(text, done);
  check_length(text.size(), longest);
}

/// Throws unless the text is certainly in normal form C: all its characters are in ranges of characters that
/// are their own normal form and never combine with others.
inline void check_nfc(std::string_view text) {
  constexpr std::pair<char32_t, char32_t> ranges[] = {
      {0, 0x300},       {0x388, 0x483},   {0x48a, 0x530},   {0x1e00, 0x1f00}, {0x2002, 0x20d0},
      {0x2190, 0x2329}, {0x232b, 0x2adc}, {0x3000, 0x302a}, {0x3041, 0x3099}, {0x309b, 0x3100},
      {0x3400, 0xa000}, {0xac00, 0xd7a4}, {0xfe00, 0xfe10}, {0xff00, 0xfff0}, {0x1f300, 0x1fb00}};
  for (std::size_t i = 0; i < text.size();) {
    const auto [value, length] = character_at(text, i);
    auto holds = [c = value](const auto& range) { return c >= range.first && c < range.second; };
    if (std::none_of(std::begin(ranges), std::end(ranges), holds)) {
      throw std::invalid_argument("the character \"" + std::string(text.substr(i, length)) + "\" at offset " +
                                  std::to_string(i) +
                                  " may change in normal form C (NFC), which is not supported");
    }
    i += length;
  }
}

inline Normalizer read_normalizer(const JsonPart& part) {
  if (part.null()) return [](std::string&, std::size_t) {};
  const std::string type = part.get<std::string>("type");
  if (type == "Sequence") {
    part.only({"type", "normalizers"});
    return read_sequence<Normalizer>(part["normalizers"], read_normalizer);
  }
  if (type == "Prepend") {
    part.only({"type", "prepend"});
    return [prefix = part.get<std::string>("prepend")](std::string& text, std::size_t longest) {
      if (text.empty()) return;
      check_length(text.size() + prefix.size(), longest);
      text.insert(0, prefix);
    };
  }
  if (type == "Replace") {
    part.only({"type", "pattern", "content"});
    return [pattern = read_pattern(part["pattern"]), content = part.get<std::string>("content")](
               std::string& text, std::size_t longest) {
      TextPattern::Scanner scan(pattern);
      replace(text, scan, content, longest);
    };
  }
  if (type == "NFC") {
    part.only({"type"});
    return [](std::string& text, std::size_t) { check_nfc(text); };
  }
  refuse(part, "normalizer");
}

}  // namespace shardwise::detail
