// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The text of tokens that arrive one by one.

#include <algorithm>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <shardwise/llm/text/utf8.hpp>

namespace tools {

namespace sw = shardwise;

/// The text of tokens: `Tokenizer::decode`.
using Decode = std::function<std::string(std::span<const std::int32_t>)>;

/// The text that new tokens add to a prompt, up to the first of some texts that stop it. Text that may be the beginning
/// of one of these, or of a character, is held back until later tokens decide.
class TextStream {
 public:
  TextStream(Decode decode, std::span<const std::int32_t> prompt, std::vector<std::string> stops)
      : decode_(std::move(decode)), stops_(std::move(stops)), ids_(prompt.begin(), prompt.end()) {
    keep_last();
  }

  /// Returns the text that is now known to belong to the result.
  std::string add(std::int32_t id) {
    ids_.push_back(id);
    // A token's text may depend on the one before it: a first token may lose its space.
    const std::string before = decode_(std::span(ids_).first(settled_)), all = decode_(ids_);
    if (!all.starts_with(before)) {
      held_ += decode_(std::span(ids_).subspan(settled_));
    } else {
      held_ += all.substr(before.size());
    }
    if (all != before || ids_.size() > longest_without_text) keep_last();
    std::size_t end = held_.npos;
    for (const std::string& stop : stops_) end = std::min(end, held_.find(stop));
    stopped_ = end != held_.npos;
    if (!stopped_) end = held_.size() - undecided();
    std::string settled = held_.substr(0, end);
    held_.erase(0, stopped_ ? held_.npos : end);
    return settled;
  }

  /// Whether one of the texts has stopped it.
  bool stopped() const { return stopped_; }
  /// At the end, the text that was held back.
  std::string rest() { return std::exchange(held_, ""); }

 private:
  /// Of the ids, only the last is needed from now on.
  void keep_last() {
    if (ids_.size() > 1) ids_.erase(ids_.begin(), ids_.end() - 1);
    settled_ = ids_.size();
  }
  /// The bytes at the end that later tokens may complete to a stop or to a character.
  std::size_t undecided() const {
    std::size_t most = 0;
    for (const std::string& stop : stops_) {
      for (std::size_t n = std::min(stop.size() - 1, held_.size()); n > most; --n) {
        if (held_.ends_with(std::string_view(stop).substr(0, n))) most = n;
      }
    }
    for (std::size_t n = 1; n <= std::min<std::size_t>(3, held_.size()); ++n) {
      const auto first = static_cast<unsigned char>(held_[held_.size() - n]);
      if ((first & 0xc0) == 0x80) continue;
      const std::size_t length = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : first >= 0xc0 ? 2 : 1;
      if (length > n) most = std::max(most, n);
      break;
    }
    return most;
  }

  static constexpr std::size_t longest_without_text = 64;  ///< tokens

  Decode decode_;
  std::vector<std::string> stops_;
  std::vector<std::int32_t> ids_;
  std::size_t settled_ = 0;  ///< so many of the ids are in the text
  std::string held_;
  bool stopped_ = false;
};

}  // namespace tools
