// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Reads the words and signs of a Jinja tag.

#include <shardwise/text/chat_template/value.hpp>

namespace shardwise::detail {

class TemplateReader {
 protected:
  void begin(std::string_view tag) { rest_ = tag_ = tag; }
  /// Throws, and names what is not supported, unless it is.
  void need(bool supported) const {
    if (supported) return;
    const std::string tag = excerpt(std::string(tag_)), from = excerpt(std::string(rest_));
    fail<std::runtime_error>({"\"", tag, "\" is not supported", from.empty() ? "" : ", from \"", from,
                              from.empty() ? "" : "\" on"});
  }
  /// No template goes on for ever: each part of an expression counts, and of texts their length.
  void spend(std::size_t work) {
    steps_ += work;
    if (steps_ > std::size_t{1} << 24) throw std::runtime_error("it takes too many steps");
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
  /// A name, a word or a number, or nothing.
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
    const std::string_view before = rest_;
    for (std::size_t i = 1; i < rest_.size(); ++i) {
      if (rest_[i] == before[0]) {
        advance(i + 1);
        return value;
      }
      constexpr std::string_view letters = "ntr\\'\"", characters = "\n\t\r\\'\"";
      const bool escaped = rest_[i] == '\\' && i + 1 < rest_.size();
      const std::size_t which = escaped ? letters.find(rest_[++i]) : letters.npos;
      if (escaped && which == letters.npos) break;
      value += escaped ? characters[which] : rest_[i];
    }
    need(false);
    return {};
  }
  std::string_view tag_, rest_;

 private:
  std::size_t steps_ = 0;
};

}  // namespace shardwise::detail
