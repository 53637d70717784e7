// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The part of Jinja that text/chat_template.hpp names.

#include <map>
#include <set>

#include <shardwise/io/json.hpp>

namespace shardwise::detail {

/// A text, and the inside of the tag that follows it; the last has none.
struct TemplatePiece {
  std::string text, tag;
  bool is_value = false;  ///< {{ … }}
};

constexpr std::string_view template_blanks = " \t\r\n";

inline std::string trimmed(std::string_view text) {
  const std::size_t begin = std::min(text.find_first_not_of(template_blanks), text.size());
  return std::string(text.substr(begin, text.find_last_not_of(template_blanks) + 1 - begin));
}

/// Blanks before a block at the beginning of a line, and the end of the line after it, are no text; nor is white space on the
/// side of a tag's dash.
inline std::vector<TemplatePiece> template_pieces(std::string_view rest) {
  std::vector<TemplatePiece> pieces(1);
  bool strip = false, line_begins = true;
  while (true) {
    std::size_t tag = rest.find('{');
    while (tag != rest.npos && rest.find_first_of("{%#", tag + 1) != tag + 1) tag = rest.find('{', tag + 1);
    std::string_view before = rest.substr(0, tag);
    if (strip) before.remove_prefix(std::min(before.find_first_not_of(template_blanks), before.size()));
    if (tag == rest.npos) {
      pieces.back().text += before;
      return pieces;
    }
    const char kind = rest[tag + 1];
    const std::string end = kind == '{' ? "}}" : kind == '%' ? "%}" : "#}";
    const std::size_t close = rest.find(end, tag + 2);
    if (close == rest.npos) {
      throw std::runtime_error("\"" + excerpt(std::string(rest.substr(tag))) + "\" has no " + end);
    }
    std::string_view inside = rest.substr(tag + 2, close - tag - 2);
    rest.remove_prefix(close + 2);
    if (inside.starts_with('-')) {
      before = before.substr(0, before.find_last_not_of(template_blanks) + 1);
      inside.remove_prefix(1);
    } else if (kind != '{') {
      const std::size_t line = before.find_last_not_of(" \t") + 1;
      if (line == 0 ? line_begins : before[line - 1] == '\n') before = before.substr(0, line);
    }
    strip = inside.ends_with('-');
    if (strip) inside.remove_suffix(1);
    line_begins = kind != '{' && rest.starts_with('\n');
    if (line_begins) rest.remove_prefix(1);
    pieces.back().text += before;
    if (kind == '#') continue;
    pieces.back().tag = trimmed(inside);
    pieces.back().is_value = kind == '{';
    pieces.emplace_back();
  }
}

/// Goes through a template: runs it, or, where it is not `live_`, only reads it.
class TemplateRun {
 public:
  using Names = std::map<std::string, std::string, std::less<>>;

  TemplateRun(const std::vector<TemplatePiece>& pieces, Names names)
      : pieces_(pieces), names_(std::move(names)) {}

  /// Throws for what is not supported, also where a run would not come to.
  void check() { block({}); }
  /// The text of messages `first` to `end`, as the last of a dialogue.
  std::string run(const Json& messages, std::size_t first, std::size_t end) {
    messages_ = &messages;
    begin_ = first;
    end_ = end;
    live_ = true;
    block({});
    return out_;
  }
  /// Where in it each of them begins, once for each loop.
  const std::vector<std::size_t>& begins() const { return begins_; }

 private:
  [[noreturn]] void refuse() const {
    const std::string tag = excerpt(pieces_[at_ - 1].tag), from = excerpt(std::string(rest_));
    fail<std::runtime_error>({"\"", tag, "\" is not supported", from.empty() ? "" : ", from \"", from,
                              from.empty() ? "" : "\" on"});
  }

  /// Up to a tag that begins with one of the words, which is returned; or to the end.
  std::string block(std::initializer_list<std::string_view> ends) {
    if (++depth_ > 100) throw std::runtime_error("blocks nest deeper than 100");
    while (at_ < pieces_.size()) {
      const TemplatePiece& piece = pieces_[at_++];
      if (live_) add(out_, piece.text);
      if (at_ == pieces_.size()) break;
      rest_ = piece.tag;
      if (piece.is_value) {
        const std::string value = text();
        if (!rest_.empty()) refuse();
        if (live_) add(out_, value);
        continue;
      }
      std::string word = name();
      if (std::find(ends.begin(), ends.end(), word) != ends.end()) {
        --depth_;
        return word;
      }
      if (word == "set") {
        set();
      } else if (word == "if") {
        choice();
      } else if (word == "for") {
        loop();
      } else {
        rest_ = {};
        refuse();
      }
    }
    if (ends.size() > 0) throw std::runtime_error("it ends before " + std::string(*ends.begin()));
    return {};
  }
  void set() {
    const std::string variable = name();
    if (!take("=")) refuse();
    if (lists_.contains(rest_)) {
      lists_.insert(variable);
      return;
    }
    const std::string value = text();
    if (!rest_.empty()) refuse();
    if (live_ || !names_.contains(variable)) names_[variable] = value;
  }
  void choice() {
    const bool before = live_;
    bool found = false;
    for (std::string word = "if"; word != "endif";) {
      live_ = before && !found;
      live_ = (word == "else" || condition()) && live_;
      found = found || live_;
      word = block({"endif", "elif", "else"});
    }
    live_ = before;
  }
  void loop() {
    const std::string variable = name();
    if (name() != "in" || !lists_.contains(rest_) || !message_name_.empty()) refuse();
    message_name_ = variable;
    const std::size_t begin = at_, count = live_ ? end_ : 0;
    const bool before = live_;
    const Names outside = names_;
    live_ = count > 0;
    std::size_t i = std::min(begin_, count);
    do {
      at_ = begin;
      names_ = outside;
      if (live_) message_ = &(*messages_)[i], begins_.push_back(out_.size());
      first_ = i == 0;
      last_ = i + 1 == count;
      block({"endfor"});
    } while (++i < count);
    live_ = before;
    names_ = outside;
    message_name_.clear();
  }

  void advance(std::size_t count) {
    rest_.remove_prefix(count);
    rest_.remove_prefix(std::min(rest_.find_first_not_of(template_blanks), rest_.size()));
  }
  bool take(std::string_view sign) {
    const bool there = rest_.starts_with(sign);
    if (there) advance(sign.size());
    return there;
  }
  /// A name or a word, or nothing.
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

  bool condition() {
    bool value = comparison();
    const bool all = rest_.starts_with("and");
    while (take_word(all ? "and" : "or")) {
      const bool right = comparison();
      value = all ? value && right : value || right;
    }
    if (!rest_.empty()) refuse();
    return value;
  }
  bool comparison() {
    bool negated = false;
    while (take_word("not")) negated = !negated;
    const bool in_loop = !message_name_.empty();
    if (in_loop && (take("loop.first") || take("loop.index0 == 0"))) return first_ != negated;
    if (in_loop && take("loop.last")) return last_ != negated;
    const std::string left = text();
    if (take("==")) return (left == text()) != negated;
    if (take("!=")) return (left == text()) == negated;
    return left.empty() == negated;
  }
  std::string text() {
    std::string all = part();
    while (take("+")) add(all, part());
    return all;
  }
  static void add(std::string& all, const std::string& more) {
    constexpr std::size_t longest = std::size_t{8} << 20;
    all += more;
    if (all.size() > longest) throw std::runtime_error("it makes texts of more than 8 MiB");
  }
  std::string part() {
    std::string value = rest_.starts_with('\'') || rest_.starts_with('"') ? literal() : variable();
    while (true) {
      if (take("|")) {
        if (!take_word("trim")) refuse();
      } else if (!take(".strip()")) {
        return value;
      }
      value = trimmed(value);
    }
  }
  std::string variable() {
    const std::string_view before = rest_;
    const std::string word = name();
    if (!word.empty() && word == message_name_) {
      std::string key;
      if (take("[")) {
        key = literal();
        if (!take("]")) refuse();
      } else {
        if (!take(".")) refuse();
        key = name();
      }
      return live_ ? JsonPart(*message_, "message").get<std::string>(key, "") : "";
    }
    const auto found = names_.find(word);
    if (found == names_.end() || rest_.starts_with('(')) {
      rest_ = before;
      refuse();
    }
    return found->second;
  }
  std::string literal() {
    std::string value;
    const std::string_view before = rest_;
    const char quote = rest_.empty() ? '\0' : rest_.front();
    for (std::size_t i = 1; (quote == '\'' || quote == '"') && i < rest_.size(); ++i) {
      if (rest_[i] == quote) {
        advance(i + 1);
        return value;
      }
      constexpr std::string_view letters = "ntr\\'\"", characters = "\n\t\r\\'\"";
      const bool escaped = rest_[i] == '\\' && i + 1 < rest_.size();
      const std::size_t which = escaped ? letters.find(rest_[++i]) : letters.npos;
      if (escaped && which == letters.npos) break;
      value += escaped ? characters[which] : rest_[i];
    }
    rest_ = before;
    refuse();
  }

  const std::vector<TemplatePiece>& pieces_;
  std::size_t at_ = 0;     // the piece that comes next
  std::string_view rest_;  // of the tag before it
  std::string out_;
  bool live_ = false, first_ = false, last_ = false;
  int depth_ = 0;
  Names names_;
  std::set<std::string, std::less<>> lists_{"messages"};
  const Json *messages_ = nullptr, *message_ = nullptr;
  std::size_t begin_ = 0, end_ = 0;  // of the messages that there are
  std::vector<std::size_t> begins_;
  std::string message_name_;  // none outside of a loop
};

}  // namespace shardwise::detail
