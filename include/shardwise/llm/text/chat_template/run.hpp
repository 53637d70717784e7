// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Jinja statements for llm/text/chat_template.hpp.

#include <shardwise/llm/namespaces.hpp>
#include <shardwise/llm/text/chat_template/expressions.hpp>

namespace shardwise::llm {

/// A rendered dialogue.
struct RenderedChat {
  std::string text;
  std::vector<std::size_t> begins;  ///< of the messages, if one loop writes them all; else empty
  std::vector<std::pair<std::size_t, std::size_t>> generated;  ///< [begin, end) of {% generation %}
};

namespace detail {

/// Executes a template or, if not `live_`, only parses it.
class TemplateRun : TemplateExpressions {
 public:
  using TemplateExpressions::Names;
  TemplateRun(const std::vector<TemplatePiece>& pieces, Names names)
      : TemplateExpressions(std::move(names)), pieces_(pieces), messages_(names_["messages"]) {}

  /// If not `live`, renders nothing, but still rejects unsupported parts.
  RenderedChat run(bool live) {
    live_ = live;
    try {
      block({});
    } catch (const std::runtime_error& error) {
      fail<std::runtime_error>({"line ", pieces_[at_ - 1].line, ": ", error.what()});
    }
    if (loops_ != 1) out_.begins.clear();
    return std::move(out_);
  }

 private:
  /// Runs up to a tag that begins with one of these words, which it returns, or to the end.
  std::string block(std::initializer_list<std::string_view> ends) {
    if (++depth_ > 100) throw std::runtime_error("it nests deeper than 100");
    while (at_ < pieces_.size()) {
      const TemplatePiece& piece = pieces_[at_++];
      if (live_) add(out_.text, piece.text);
      if (at_ == pieces_.size()) break;
      begin(piece.tag);
      if (piece.is_value) {
        const Value value = whole();
        if (live_) add(out_.text, text_of(value));
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
      } else if (word == "macro") {
        macro();
      } else if (word == "break" || word == "continue") {
        need(in_loop_ && rest_.empty());
        if (live_) left_ = word, live_ = false;
      } else {
        need(word == "generation" && rest_.empty() && !in_macro_);
        const std::size_t start = out_.text.size();
        const bool before = live_;
        block({"endgeneration"});
        if (before) out_.generated.emplace_back(start, out_.text.size());
      }
    }
    if (ends.size() > 0) throw std::runtime_error("it ends before " + std::string(*ends.begin()));
    return {};
  }
  void set() {
    const std::string variable = name(), member = take(".") ? name() : "";
    const bool text = rest_.empty();
    need(!variable.empty() && (text || take("=")));
    const Value value = text ? written() : whole();
    if (live_ && !member.empty()) {
      const Value space = names_[variable];
      if (std::ranges::find(spaces_, space) == spaces_.end()) expected(space, "a namespace");
      (*space)[member] = value ? *value : OrderedJson();
    } else if (live_) {
      names_[variable] = value;
    }
  }
  /// The text up to {% endset %}.
  Value written() {
    const Names outside = names_;
    const bool in_macro = std::exchange(in_macro_, true), outermost = std::exchange(outermost_, false),
               in_loop = std::exchange(in_loop_, false);
    std::string before = std::exchange(out_.text, {});
    block({"endset"});
    names_ = outside;
    in_macro_ = in_macro, outermost_ = outermost, in_loop_ = in_loop;
    return value_of(std::exchange(out_.text, std::move(before)));
  }
  void macro() {
    const std::string called = name();
    Macro made{.begin = at_, .parameters = {}, .names = names_};
    need(!called.empty() && take("("));
    while (!take(")")) {
      need(made.parameters.empty() || take(","));
      std::string parameter = name();
      need(!parameter.empty());
      made.parameters.emplace_back(std::move(parameter), take("=") ? expression() : Value());
    }
    need(rest_.empty());
    (*macros_)[called] = std::move(made);
    const bool before = std::exchange(live_, false), outside = std::exchange(in_macro_, true),
               in_loop = std::exchange(in_loop_, false);
    block({"endmacro"});
    live_ = before;
    in_macro_ = outside, in_loop_ = in_loop;
  }
  Value call(const Macro& macro, const Arguments& given) override {
    TemplateFunction known{"macro"};
    for (const auto& [parameter, otherwise] : macro.parameters) known.parameters.push_back(parameter);
    const Arguments values = bound(known, given);
    if (!live_) return {};
    spend(64);
    TemplateRun inner(pieces_, macro.names);
    for (std::size_t i = 0; i < macro.parameters.size(); ++i) {
      const auto& [parameter, otherwise] = macro.parameters[i];
      inner.names_[parameter] = values[i].first.empty() ? otherwise : values[i].second;
    }
    inner.macros_ = macros_;
    inner.spaces_ = spaces_;
    inner.steps_ = steps_;
    inner.depth_ = depth_ + 1;
    inner.live_ = inner.in_macro_ = true;
    inner.at_ = macro.begin;
    inner.block({"endmacro"});
    spend(inner.out_.text.size() / 16);
    return value_of(std::move(inner.out_.text));
  }
  void choice() {
    const bool before = live_;
    bool found = false;
    for (std::string word = "if"; word != "endif";) {
      live_ = before && !found;
      live_ = (word == "else" || truth(whole())) && live_;
      found = found || live_;
      word = block({"endif", "elif", "else"});
    }
    live_ = before && left_.empty();
  }
  void loop() {
    std::vector<std::string> variables{name()};
    while (take(",")) variables.push_back(name());
    need(take_word("in"));
    const Value list = operation();
    auto elements = elements_of(live_ ? list : Value());
    const bool before = live_, filtered = take_word("if"), outermost = std::exchange(outermost_, false);
    const Names outside = names_;
    const auto bind = [&](const Value& element) {
      names_[variables[0]] = element;
      for (std::size_t i = 0; variables.size() > 1 && i < variables.size(); ++i)
        names_[variables[i]] = part_of(element, value_of(i));
    };
    if (filtered) {
      const std::string_view condition = rest_;
      std::erase_if(elements,
                    [&](const Value& e) { return bind(e), rest_ = condition, !truth(operation()); });
      if (elements.empty()) live_ = false, rest_ = condition, operation();
    }
    need(rest_.empty());
    const std::size_t begin = at_, count = elements.size(), written = out_.text.size();
    const auto all = elements_of(messages_);
    // All messages, or all except the first ones.
    const bool messages =
        outermost && count > 0 && count <= all.size() &&
        std::equal(elements.begin(), elements.end(), all.end() - std::ssize(elements), equal);
    std::vector<std::size_t> begins(messages ? all.size() - count : 0, written);
    const bool in_loop = std::exchange(in_loop_, true);
    std::string end;
    std::size_t i = 0;
    do {
      at_ = begin;
      names_ = outside;
      live_ = before && count > 0;
      begins.push_back(out_.text.size());
      spend(64);
      if (live_) {
        bind(elements[i]);
        names_["loop"] =
            value_of({{"index", i + 1}, {"index0", i}, {"first", i == 0}, {"last", i + 1 == count}});
        (*names_["loop"]).update({{"length", count}, {"revindex", count - i}, {"revindex0", count - i - 1}});
        names_["loop.previtem"] = i > 0 ? elements[i - 1] : Value();
        names_["loop.nextitem"] = i + 1 < count ? elements[i + 1] : Value();
      }
      end = block({"endfor", "else"});
    } while (std::exchange(left_, "") != "break" && ++i < count);
    if (messages && out_.text.size() > written) out_.begins = begins, ++loops_;
    in_loop_ = in_loop;
    live_ = before && count == 0;
    names_ = outside;
    if (end == "else") block({"endfor"});
    live_ = before && left_.empty();
    outermost_ = outermost;
    names_ = outside;
  }

  const std::vector<TemplatePiece>& pieces_;
  const Value messages_;  // the arguments
  std::size_t at_ = 0;    // the next piece
  RenderedChat out_;
  bool outermost_ = true;  // outside of loops
  bool in_macro_ = false, in_loop_ = false;
  std::string left_;  // "break" or "continue", up to the end of the loop's body
  int loops_ = 0;     // loops over the messages, with output
};

}  // namespace detail

}  // namespace shardwise::llm
