// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// What the components of a `tokenizer.json` have in common.

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include <shardwise/io/json.hpp>
#include <shardwise/text/tokenizer/text_pattern.hpp>
#include <shardwise/text/utf8.hpp>

namespace shardwise::detail {

/// For a component that the file asks for and this library does not have.
[[noreturn]] inline void refuse(const JsonPart& part, const std::string& kind) {
  part.fail("the " + kind + " \"" + excerpt(part.get<std::string>("type")) + "\" is not supported");
}

inline TextPattern read_pattern(const JsonPart& part, std::uint32_t options = 0) {
  part.only({"String", "Regex"});
  if (!part["String"].null()) return TextPattern::literal(part.get<std::string>("String"), options);
  return TextPattern::expression(part.get<std::string>("Regex"), options);
}

/// The content of a field that must be one character.
inline std::string read_character(const JsonPart& part) {
  auto text = part.get<std::string>();
  if (text.empty() || character_at(text, 0).length != text.size()) part.fail("expected one character");
  return text;
}

/// Metaspace: which words get a mark where a space would be: `always`, only the `first`, `never`.
inline std::string read_prepend_scheme(const JsonPart& part) {
  const bool prefix = part.get<bool>("add_prefix_space", true);
  auto scheme = part.get<std::string>("prepend_scheme", prefix ? "always" : "never");
  if (scheme != "always" && scheme != "first" && scheme != "never") {
    part["prepend_scheme"].fail("\"" + excerpt(scheme) + "\" is not supported");
  }
  if (!part["add_prefix_space"].null() && prefix == (scheme == "never")) {
    part.fail("add_prefix_space and prepend_scheme contradict each other");
  }
  return scheme;
}

/// A file's steps may make at most so many bytes of so many: a few that each double a text would fill any memory.
constexpr std::size_t longest_made_of(std::size_t bytes) { return 16 * bytes + (std::size_t{1} << 16); }
/// Throws `std::length_error` if that is exceeded.
inline void check_length(std::size_t bytes, std::size_t longest) {
  if (bytes <= longest) return;
  throw std::length_error("the tokenizer's steps would make more than " + std::to_string(longest) +
                          " bytes of the text: more than 16 times as many, and 65536, is refused");
}

/// How many steps there are in a list of steps, which may be lists of steps themselves.
inline std::size_t count_steps(const Json& json) {
  std::size_t count = json.is_object() && json.contains("type") ? 1 : 0;
  if (json.is_structured()) {
    for (const auto& part : json) count += count_steps(part);
  }
  return count;
}

/// The steps of a list, which `read` reads, one after the other. Fails if there are more than any tokenizer has: the
/// expression of a step may need a hundred times the memory of its text.
template <class Step, class Read>
Step read_sequence(const JsonPart& list, Read read) {
  constexpr std::size_t most = 64;
  if (const std::size_t count = count_steps(list.json()); count > most) {
    list.fail(std::to_string(count) + " steps, expected " + std::to_string(most) + " at most");
  }
  std::vector<Step> steps;
  list.for_each([&](const JsonPart& part) { steps.push_back(read(part)); });
  return [steps](auto& text, auto... longest) {
    for (const Step& step : steps) step(text, longest...);
  };
}

}  // namespace shardwise::detail
