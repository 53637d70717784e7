// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Jinja expressions for llm/text/chat_template.hpp.

#include <map>

#include <shardwise/llm/namespaces.hpp>
#include <shardwise/llm/text/chat_template/functions.hpp>

namespace shardwise::llm::detail {

/// Parses the expressions of a tag and, if `live_`, evaluates them.
class TemplateExpressions : protected TemplateCalls {
 public:
  using Names = std::map<std::string, Value, std::less<>>;
  virtual ~TemplateExpressions() = default;

 protected:
  explicit TemplateExpressions(Names names) : names_(std::move(names)) {}

  /// A function that the template defines.
  struct Macro {
    std::size_t begin;     // its first piece
    Arguments parameters;  // with their default values
    Names names;           // as defined before it
  };
  virtual Value call(const Macro& macro, const Arguments& given) = 0;

  Value whole() {
    const Value value = expression();
    need(rest_.empty());
    return value;
  }
  /// Including `a if b else c`: if evaluating `a` fails, it is only parsed, because the condition may discard it.
  Value expression() {
    if (++depth_ > 100) throw std::runtime_error("it nests deeper than 100");
    const std::string_view begin = rest_;
    const bool before = live_;
    const int depth = depth_;
    std::exception_ptr error;
    Value value;
    try {
      value = operation();
    } catch (const std::runtime_error&) {
      if (!before) throw;
      error = std::current_exception();
      live_ = false, rest_ = begin, depth_ = depth;
      operation();
      live_ = before;
    }
    const bool conditional = take_word("if"), holds = !conditional || (truth(operation()) && before);
    if (error && holds) std::rethrow_exception(error);
    live_ = before && !holds;
    const Value other = conditional && take_word("else") ? expression() : Value();
    live_ = before;
    --depth_;
    return holds ? value : other;
  }
  /// Binary operators of this level, or of the levels below, which bind more tightly.
  Value operation(std::size_t level = 0) {
    static const std::vector<std::string_view> signs[]{
        {"or"},     {"and"}, {"==", "!=", "<=", ">=", "<", ">", "in", "not"},
        {"+", "-"}, {"~"},   {"*", "//", "/", "%"}};
    constexpr std::size_t comparisons = 2;
    if (level == std::size(signs)) {
      if (!take("-")) return suffixes(primary(), true);
      const Value value = suffixes(primary(), false);
      return suffixes(live_ ? joined(value_of(-1), "*", value) : Value(), true);
    }
    if (level == comparisons && take_word("not")) {
      bool negative = true;
      while (take_word("not")) negative = !negative;
      return value_of(truth(operation(comparisons)) != negative);
    }
    const bool before = live_;
    Value value = operation(level + 1), left = value;
    for (bool first = true;; first = false) {
      const auto sign = std::ranges::find_if(
          signs[level], [&](const auto& s) { return std::isalpha(s[0]) ? take_word(s) : take(s); });
      if (sign == signs[level].end()) break;
      need(*sign != "not" || take_word("in"));
      // Python's `or` returns the first operand that is true, else the last; `and` the first that is false, else
      // the last.
      if (level < comparisons) live_ = live_ && truth(value) == (*sign == "and");
      if (level == comparisons && !first) live_ = live_ && truth(value);  // a < b < c is a < b and b < c
      const Value right = operation(level + 1);
      if (live_)
        value = level < comparisons ? right : joined(level == comparisons ? left : value, *sign, right);
      left = right;
    }
    live_ = before;
    return value;
  }

  /// The value with what follows it: subscripts, methods; and, if `all`, filters and tests.
  Value suffixes(Value value, bool all) {
    while (true) {
      spend(1);
      if (take(".")) {
        const std::string_view before = rest_;
        const std::string key = name();
        need(!key.empty() && !std::isdigit(key[0]));
        if (rest_.starts_with('(')) {
          rest_ = before;
          value = function(value, template_methods);
        } else if (live_) {
          value = part_of(value, value_of(key));
        }
      } else if (take("[")) {
        value = subscript(value);
      } else if (all && take("|")) {
        value = function(value, template_filters);
      } else if (all && take_word("is")) {
        value = test(value);
      } else {
        return value;
      }
    }
  }
  Value subscript(const Value& value) {
    std::array<Value, 3> bounds;
    std::size_t count = 0;
    do {
      need(count < 3);
      if (!rest_.starts_with(':') && !rest_.starts_with(']')) bounds[count] = expression();
      ++count;
    } while (take(":"));
    need(take("]"));
    if (!live_) return {};
    spend(value && count > 1 ? 16 * value->size() : 1);
    return count == 1 ? part_of(value, bounds[0]) : slice(value, bounds);
  }
  Value test(const Value& value) {
    const bool negated = take_word("not");
    const std::string_view before = rest_;
    const std::string word = name();
    need(is_test(word) || compares(word), before);
    Value other;
    if (compares(word)) {
      if (take("(")) {
        const Arguments given = arguments(")");
        need(given.size() == 1 && given[0].first.empty());
        other = given[0].second;
      } else {
        other = suffixes(primary(), false);
      }
    }
    return live_ ? value_of(holds(value, word, other) != negated) : Value();
  }

  Value primary() {
    const std::string_view before = rest_;
    if (rest_.starts_with('\'') || rest_.starts_with('"')) return value_of(literal());
    if (take("(")) {
      if (take(")")) return value_of(OrderedJson::array());
      const Value value = expression();
      if (take(")")) return value;
      OrderedJson all = OrderedJson::array();  // a tuple
      all.push_back(value ? *value : OrderedJson());
      need(take(","));
      for (const auto& [word, next] : arguments(")")) all.push_back(next ? *next : OrderedJson());
      return value_of(std::move(all));
    }
    if (take("{")) {
      OrderedJson all = OrderedJson::object();
      while (!take("}")) {
        const Value key = expression();
        need(take(":"));
        const Value value = expression();
        if (live_) all[string_of(key)] = value ? *value : OrderedJson();
        need(take(",") || rest_.starts_with('}'));
      }
      spend(16 * all.size());
      return value_of(std::move(all));
    }
    if (take("[")) {
      OrderedJson all = OrderedJson::array();
      for (const auto& [word, value] : arguments("]")) all.push_back(value ? *value : OrderedJson());
      return value_of(std::move(all));
    }
    std::string word = name();
    if (is_one_of(word, {"true", "True", "false", "False"}))
      return value_of(word[0] == 't' || word[0] == 'T');
    if (word == "none" || word == "None") return value_of(nullptr);
    if (!word.empty() && word.size() < 10 && word.find_first_not_of("0123456789") == word.npos) {
      if (!rest_.starts_with('.')) return value_of(std::stol(word));
      advance(1);
      const std::string digits = name();
      need(!digits.empty() && digits.size() < 20 && digits.find_first_not_of("0123456789") == digits.npos,
           before);
      return value_of(std::stod(word + "." + digits));
    }
    need(!word.empty() && !std::isdigit(word[0]), before);
    if (rest_.starts_with('(')) {
      if (const auto macro = macros_->find(word); macro != macros_->end() && take("("))
        return call(macro->second, arguments(")"));
      rest_ = before;
      return function({}, template_functions);
    }
    for (const std::string_view neighbour : {".previtem", ".nextitem"})
      if (word == "loop" && take(neighbour)) word += neighbour;
    const auto found = names_.find(word);
    return found == names_.end() ? Value() : found->second;
  }
  /// Arguments up to `end`, which a comma may precede.
  Arguments arguments(std::string_view end) {
    Arguments all;
    while (!take(end)) {
      need(all.empty() || take(","));
      if (!all.empty() && take(end)) break;
      const std::string_view before = rest_;
      std::string word = name();
      if (word.empty() || rest_.starts_with("==") || !take("=")) word.clear(), rest_ = before;
      Value value = expression();
      all.emplace_back(std::move(word), std::move(value));
    }
    return all;
  }
  /// Calls a function, or a method or filter of `v`.
  Value function(const Value& v, const TemplateFunctions& all) {
    const std::string_view before = rest_;
    const TemplateFunction& known = known_in(all, name(), before);
    Arguments given = take("(") ? arguments(")") : Arguments();
    if (!known.more) given = bound(known, given);
    need(given.size() >= known.least);
    return live_ ? called(v, known.name, given) : Value();
  }

  Names names_;
  std::shared_ptr<std::map<std::string, Macro, std::less<>>> macros_ =
      std::make_shared<std::map<std::string, Macro, std::less<>>>();
  bool live_ = false;
  int depth_ = 0;
};

}  // namespace shardwise::llm::detail
