// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Bytes as tokens.
///
/// ```
/// ByteTokenizer tokenizer;
/// auto ids = tokenizer.encode("ABC");         // 65, 66, 67
/// std::string text = tokenizer.decode(ids);   // "ABC"
/// ```

#include <optional>

#include <shardwise/base/text.hpp>
#include <shardwise/io/fingerprint.hpp>

namespace shardwise::llm {

/// Token i is the byte i, for 0 ≤ i < 256. Any bytes are valid, even if they are not UTF-8.
class ByteTokenizer {
 public:
  /// The number of tokens; no token ends a text.
  static constexpr Index vocabulary() { return 256; }
  static constexpr std::optional<std::int32_t> end_token() { return std::nullopt; }
  /// See `Tokenizer::fingerprint`.
  static std::uint64_t fingerprint() { return detail::fingerprint_of("bytes"); }

  std::vector<std::int32_t> encode(std::string_view text) const {
    std::vector<std::int32_t> ids;
    ids.reserve(text.size());
    for (const char c : text) ids.push_back(static_cast<unsigned char>(c));
    return ids;
  }

  /// Throws `std::invalid_argument` if an id is not in [0, 256).
  std::string decode(std::span<const std::int32_t> ids) const {
    std::string text;
    text.reserve(ids.size());
    for (const std::int32_t id : ids) {
      if (id < 0 || id >= vocabulary()) {
        detail::fail({"token ", id, " is not a byte: expected 0 to 255"});
      }
      text += static_cast<char>(id);
    }
    return text;
  }
};

}  // namespace shardwise::llm
