// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The tokens that a `tokenizer.json` puts around a text.

#include <cstdint>
#include <string>
#include <vector>

#include <shardwise/text/tokenizer/component.hpp>

namespace shardwise::detail {

/// The special tokens around a text.
struct Template {
  std::vector<std::int32_t> before, after;
};

inline void check_size(const JsonPart& part, const Template& around) {
  constexpr std::size_t most = 1024;  // a token may be named often, so a small file could ask for any number
  if (around.before.size() + around.after.size() > most)
    part.fail("expected at most 1024 tokens around a text");
}

inline Template read_template(const JsonPart& part) {
  Template result;
  bool text_seen = false;
  part["single"].for_each([&](const JsonPart& piece) {
    piece.only({"Sequence", "SpecialToken"});
    if (!piece["Sequence"].null()) {
      if (text_seen || piece["Sequence"].get<std::string>("id") != "A")
        piece.fail("expected the text A, once");
      text_seen = true;
      return;
    }
    const auto name = piece["SpecialToken"].get<std::string>("id");
    part["special_tokens"][name]["ids"].for_each([&](const JsonPart& id) {
      (text_seen ? result.after : result.before).push_back(id.get<std::int32_t>());
      check_size(part, result);
    });
  });
  if (!text_seen) part["single"].fail("expected the text A, once");
  return result;
}

inline Template read_post_processor(const JsonPart& part) {
  if (part.null()) return {};
  const std::string type = part.get<std::string>("type");
  if (type == "Sequence") {
    part.only({"type", "processors"});
    Template result;
    part["processors"].for_each([&](const JsonPart& processor) {
      const auto [before, after] = read_post_processor(processor);
      result.before.insert(result.before.begin(), before.begin(), before.end());
      result.after.insert(result.after.end(), after.begin(), after.end());
      check_size(part, result);
    });
    return result;
  }
  if (type == "ByteLevel") {  // moves offsets into the text, of which there are none here
    part.only({"type", "add_prefix_space", "trim_offsets", "use_regex"});
    return {};
  }
  if (type == "TemplateProcessing") {
    part.only({"type", "single", "pair", "special_tokens"});
    return read_template(part);
  }
  refuse(part, "post_processor");
}

}  // namespace shardwise::detail
