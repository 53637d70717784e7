// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Splits a Jinja template into tags, and tags into words and signs.

#include <charconv>

#include <shardwise/llm/namespaces.hpp>
#include <shardwise/llm/text/chat_template/value.hpp>

namespace shardwise::llm::detail {

/// A text and the inside of the tag after it; the last text has no tag.
struct TemplatePiece {
  std::string text, tag;
  bool is_value = false;  ///< {{ … }}
  Index line = 1;         ///< of the tag
};

/// Removes blanks before a block tag at the beginning of a line, and the line end after it, unless the tag is
/// marked with +; and white space on the side of a tag's dash.
inline std::vector<TemplatePiece> template_pieces(std::string_view rest) {
  std::vector<TemplatePiece> pieces(1);
  bool strip = false, line_begins = true;
  for (Index line_number = 1;;) {
    std::size_t tag = rest.find('{');
    while (tag != rest.npos && rest.find_first_of("{%#", tag + 1) != tag + 1) tag = rest.find('{', tag + 1);
    std::string_view before = rest.substr(0, tag);
    pieces.back().line = line_number += std::ranges::count(before, '\n');
    before = stripped(before, strip, false);
    if (tag == rest.npos) {
      pieces.back().text += before;
      return pieces;
    }
    const char kind = rest[tag + 1];
    const std::string end = kind == '{' ? "}}" : kind == '%' ? "%}" : "#}";
    std::size_t close = tag + 2, braces = 0;
    for (char quote = '\0';
         close < rest.size() && (quote || braces > 0 || !rest.substr(close).starts_with(end)); ++close) {
      const char c = rest[close];
      if (kind != '#' && !quote && c == '{') ++braces;
      if (kind != '#' && !quote && c == '}' && braces > 0) --braces;
      if (quote && c == '\\') ++close;
      if (kind != '#' && (c == quote || (!quote && (c == '"' || c == '\'')))) quote = quote ? '\0' : c;
    }
    if (close >= rest.size()) {
      fail<std::runtime_error>(
          {"line ", line_number, ": \"", excerpt(std::string(rest.substr(tag))), "\" has no ", end});
    }
    std::string_view inside = rest.substr(tag + 2, close - tag - 2);
    rest.remove_prefix(close + 2);
    line_number += std::ranges::count(inside, '\n');
    const char first = inside.empty() ? ' ' : inside.front(), last = inside.empty() ? ' ' : inside.back();
    if (first == '-') {
      before = stripped(before, false, true);
    } else if (kind != '{' && first != '+') {
      const std::size_t line = before.find_last_not_of(" \t") + 1;
      if (line == 0 ? line_begins : before[line - 1] == '\n') before = before.substr(0, line);
    }
    if (first == '-' || first == '+') inside.remove_prefix(1);
    strip = last == '-';
    const bool marked = strip || (last == '+' && kind != '{');
    if (marked && !inside.empty()) inside.remove_suffix(1);
    line_begins = kind != '{' && !marked && rest.starts_with('\n');
    if (line_begins) rest.remove_prefix(1), ++line_number;
    pieces.back().text += before;
    if (kind == '#') continue;
    pieces.back().tag = stripped(inside, true, true);
    pieces.back().is_value = kind == '{';
    pieces.emplace_back();
  }
}

/// Parses a tag from left to right.
class TemplateReader {
 protected:
  void begin(std::string_view tag) { rest_ = tag_ = tag; }
  /// Throws an error that quotes the tag, unless `supported`.
  void need(bool supported, std::string_view from) const {
    if (supported) return;
    const std::string tag = excerpt(std::string(tag_)), rest = excerpt(std::string(from));
    fail<std::runtime_error>({"\"", tag, "\" is not supported", rest.empty() ? "" : ", from \"", rest,
                              rest.empty() ? "" : "\" on"});
  }
  void need(bool supported) const { need(supported, rest_); }

  /// Limits the work of a template: each part of an expression counts, and the length of texts.
  void spend(std::size_t work) {
    *steps_ += work;
    if (*steps_ > std::size_t{1} << 24) throw std::runtime_error("it takes too many steps");
  }
  void add(std::string& all, std::string_view more) {
    spend(more.size() / 16);
    all += more;
    if (all.size() > std::size_t{8} << 20) throw std::runtime_error("it makes texts of more than 8 MiB");
  }

  void advance(std::size_t count) {
    rest_.remove_prefix(count);
    rest_.remove_prefix(std::min(rest_.find_first_not_of(" \t\n\v\f"), rest_.size()));
  }
  bool take(std::string_view sign) {
    const bool there = rest_.starts_with(sign);
    if (there) advance(sign.size());
    return there;
  }
  /// A name, a keyword or a number; may be empty.
  std::string name() {
    auto belongs = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; };
    std::string found(rest_.begin(), std::find_if_not(rest_.begin(), rest_.end(), belongs));
    advance(found.size());
    return found;
  }
  bool take_word(std::string_view word) {
    const std::string_view before = rest_;
    if (name() == word) return true;
    rest_ = before;
    return false;
  }
  std::string literal() {
    std::string value;
    std::size_t i = 1;
    for (; i < rest_.size() && rest_[i] != rest_[0]; ++i) {
      constexpr std::string_view letters = "ntr\\'\"", characters = "\n\t\r\\'\"";
      if (const std::size_t digits = rest_.substr(i).starts_with("\\u")   ? 4
                                     : rest_.substr(i).starts_with("\\x") ? 2
                                                                          : 0) {
        value += character_of(rest_.substr(i + 2, digits), digits);
        i += 1 + digits;
        continue;
      }
      if (rest_.substr(i).starts_with("\\\n")) {  // continues in the next line
        ++i;
        continue;
      }
      const bool escaped = rest_[i] == '\\' && i + 1 < rest_.size();
      const std::size_t which = escaped ? letters.find(rest_[++i]) : letters.npos;
      need(!escaped || which != letters.npos);
      value += escaped ? characters[which] : rest_[i];
    }
    need(i < rest_.size());
    advance(i + 1);
    return value;
  }
  /// The character with this hexadecimal number, in UTF-8.
  std::string character_of(std::string_view number, std::size_t digits) const {
    unsigned int c = 0;
    const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), c, 16);
    need(number.size() == digits && end == number.data() + digits && (c < 0xd800 || c >= 0xe000));
    if (c < 0x80) return {static_cast<char>(c)};
    const char last = static_cast<char>(0x80 | (c & 0x3f));
    if (c < 0x800) return {static_cast<char>(0xc0 | c >> 6), last};
    return {static_cast<char>(0xe0 | c >> 12), static_cast<char>(0x80 | (c >> 6 & 0x3f)), last};
  }
  std::string_view tag_, rest_;
  std::shared_ptr<std::size_t> steps_ = std::make_shared<std::size_t>(0);  // macros share it
};

}  // namespace shardwise::llm::detail
