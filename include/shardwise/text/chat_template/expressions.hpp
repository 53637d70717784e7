// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Jinja expressions for text/chat_template.hpp.

#include <ctime>
#include <map>

#include <shardwise/text/chat_template/reader.hpp>

namespace shardwise::detail {

/// Parses the expressions of a tag and, if `live_`, evaluates them.
class TemplateExpressions : protected TemplateReader {
 public:
  using Value = TemplateValue;
  using Names = std::map<std::string, Value, std::less<>>;

 protected:
  explicit TemplateExpressions(Names names) : names_(std::move(names)) {}

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
        {"+", "-"}, {"~"},   {"*", "//", "%"}};
    constexpr std::size_t comparisons = 2;
    if (level == std::size(signs)) return take("-") ? joined(value_of(-1), "*", postfix()) : postfix();
    if (level == comparisons && take_word("not")) {
      bool negative = true;
      while (take_word("not")) negative = !negative;
      return value_of(truth(operation(comparisons)) != negative);
    }
    const bool before = live_;
    Value value = operation(level + 1);
    while (true) {
      const auto sign = std::ranges::find_if(
          signs[level], [&](const auto& s) { return std::isalpha(s[0]) ? take_word(s) : take(s); });
      if (sign == signs[level].end()) break;
      need(*sign != "not" || take_word("in"));
      // Python's `or` returns the first operand that is true, else the last; `and` the first that is false, else
      // the last.
      if (level < comparisons) live_ = live_ && truth(value) == (*sign == "and");
      const Value right = operation(level + 1);
      if (live_) value = level < comparisons ? right : joined(value, *sign, right);
      if (level == comparisons) break;  // a < b < c is not supported
    }
    live_ = before;
    return value;
  }
  Value joined(const Value& left, std::string_view sign, const Value& right) {
    if (!live_) return {};
    if (sign == "in" || sign == "not") return value_of(contains(right, left) == (sign == "in"));
    if (sign == "==" || sign == "!=") return value_of(equal(left, right) == (sign == "=="));
    if (sign == "~" || (sign == "+" && left && left->is_string())) {
      std::string all = text_of(left);
      add(all, sign == "~" ? text_of(right) : string_of(right));
      return value_of(all);
    }
    const Index a = integer_of(left), b = integer_of(right);
    if (sign[0] == '<' || sign[0] == '>')
      return value_of(a == b ? sign.size() == 2 : (a < b) == (sign[0] == '<'));
    if (sign == "+") return value_of(a + b);
    if (sign == "-") return value_of(a - b);
    if (sign == "*") return value_of(a * b);
    if (b == 0) expected(right, "a divisor that is not 0");
    const Index remainder = (a % b + b) % b;  // Python rounds down
    return value_of(sign == "%" ? remainder : (a - remainder) / b);
  }

  /// A primary with its suffixes: subscripts, methods, filters and tests.
  Value postfix() {
    Value value = primary();
    while (true) {
      spend(1);
      if (take(".")) {
        const std::string_view before = rest_;
        const std::string key = name();
        need(!key.empty() && !std::isdigit(key[0]));
        if (rest_.starts_with('(')) {
          rest_ = before;
          value = function(value, " strip lstrip rstrip split startswith endswith items ");
        } else if (live_) {
          value = part_of(value, value_of(key));
        }
      } else if (take("[")) {
        value = subscript(value);
      } else if (take("|")) {
        value = function(value, " trim length tojson string list items join reject selectattr ");
      } else if (take_word("is")) {
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
    const std::string word = name(), type = value ? value->type_name() : "undefined";
    const bool boolean = type == "boolean", scalar = boolean || type == "number" || type == "null";
    const std::map<std::string_view, bool> tests{{"defined", value != nullptr},
                                                 {"undefined", !value},
                                                 {"none", type == "null"},
                                                 {"true", boolean && truth(value)},
                                                 {"false", boolean && !truth(value)},
                                                 {"boolean", boolean},
                                                 {"number", boolean || type == "number"},
                                                 {"string", type == "string"},
                                                 {"mapping", type == "object"},
                                                 {"iterable", !scalar}};
    const auto found = tests.find(word);
    need(found != tests.end(), before);
    return live_ ? value_of(found->second != negated) : Value();
  }

  Value primary() {
    const std::string_view before = rest_;
    if (rest_.starts_with('\'') || rest_.starts_with('"')) return value_of(literal());
    if (take("(")) {
      const Value value = expression();
      need(take(")"));
      return value;
    }
    if (take("[")) {
      OrderedJson all = OrderedJson::array();
      for (const auto& [word, value] : arguments("]")) all.push_back(value ? *value : OrderedJson());
      return value_of(std::move(all));
    }
    const std::string word = name();
    if (word == "true" || word == "false") return value_of(word == "true");
    if (word == "none") return value_of(nullptr);
    if (!word.empty() && word.size() < 10 && word.find_first_not_of("0123456789") == word.npos)
      return value_of(std::stol(word));
    need(!word.empty() && !std::isdigit(word[0]), before);
    if (rest_.starts_with('(')) {
      rest_ = before;
      return function({}, " raise_exception namespace strftime_now ");
    }
    const auto found = names_.find(word);
    return found == names_.end() ? Value() : found->second;
  }
  /// Arguments up to `end`, with their names, if given.
  std::vector<std::pair<std::string, Value>> arguments(std::string_view end) {
    std::vector<std::pair<std::string, Value>> all;
    while (!take(end)) {
      need(all.empty() || take(","));
      const std::string_view before = rest_;
      std::string word = name();
      if (word.empty() || rest_.starts_with("==") || !take("=")) word.clear(), rest_ = before;
      Value value = expression();
      all.emplace_back(std::move(word), std::move(value));
    }
    return all;
  }
  /// Calls a function, or a method or filter of `v`, whose name must be among `known`.
  Value function(const Value& v, std::string_view known) {
    const std::string_view before = rest_;
    const std::string f = name();
    need(!f.empty() && known.find(" " + f + " ") != known.npos, before);
    const auto given = take("(") ? arguments(")") : std::vector<std::pair<std::string, Value>>();
    const bool strips = f.ends_with("strip") || f == "trim", any = f == "namespace",
               one = f == "split" || f == "join" || f.ends_with("with") || f == "raise_exception" ||
                     f == "strftime_now";
    const std::size_t count = given.size(), wanted = f == "selectattr" ? 3 : f == "reject" ? 2 : one ? 1 : 0;
    const auto fits = [&](const auto& argument) {
      return any ? !argument.first.empty() : argument.first == (f == "tojson" ? "indent" : "");
    };
    need(std::ranges::all_of(given, fits) &&
         (any || count == wanted || (count == 1 && (strips || f == "tojson"))));
    if (!live_) return {};
    spend(v && v->is_string() ? string_of(v).size() / 16 : v ? 16 * v->size() : 1);
    const Value first = count > 0 ? given[0].second : Value();
    if (f == "raise_exception")
      throw std::runtime_error("the template refuses it: " + excerpt(text_of(first)));
    if (f == "namespace") {
      spaces_.push_back(value_of(OrderedJson::object()));
      for (const auto& [word, value] : given) (*spaces_.back())[word] = value ? *value : OrderedJson();
      return spaces_.back();
    }
    if (f == "strftime_now") {
      std::array<char, 256> text{};
      const std::time_t now = std::time(nullptr);
      std::strftime(text.data(), text.size(), string_of(first).c_str(), std::localtime(&now));
      return value_of(text.data());
    }
    if (strips)
      return value_of(stripped(string_of(v), f[0] != 'r', f[0] != 'l', first ? string_of(first) : ""));
    if (f == "startswith") return value_of(string_of(v).starts_with(string_of(first)));
    if (f == "endswith") return value_of(string_of(v).ends_with(string_of(first)));
    if (f == "string") return value_of(text_of(v));
    if (f == "length") return value_of(v && v->is_object() ? v->size() : list_of(v)->size());
    if (f == "tojson") {
      if (!v) expected(v, "a value");
      const Index indent = first && !first->is_null() ? std::clamp<Index>(integer_of(first), 0, 16) : 0;
      return value_of(json_text(*v, static_cast<int>(indent)));
    }
    if (f == "list") return list_of(v);
    if (f == "join") {
      std::string all;
      for (const Value& element : elements_of(v)) add(all, text_of(element) + string_of(first));
      if (!all.empty()) all.resize(all.size() - string_of(first).size());
      return value_of(all);
    }
    OrderedJson list = OrderedJson::array();
    if (f == "items") {
      if (!v || !v->is_object()) expected(v, "an object");
      for (const auto& [key, member] : v->items()) list.push_back({key, member});
    } else if (f == "split") {
      std::string_view text = string_of(v), by = string_of(first);
      if (by.empty()) expected(first, "a text that is not empty");
      for (std::size_t at; (at = text.find(by)) != text.npos; text.remove_prefix(at + by.size()))
        list.push_back(text.substr(0, at));
      list.push_back(text);
    } else {  // elements (or their members) that are equal, or not equal, to a value
      const bool selects = f == "selectattr";
      const Value& test = given[count - 2].second;
      if (string_of(test) != "equalto") expected(test, "\"equalto\"");
      for (const Value& element : elements_of(v)) {
        const Value compared = selects ? part_of(element, first) : element;
        if (equal(compared, given[count - 1].second) == selects) list.push_back(*element);
      }
    }
    return value_of(std::move(list));
  }

  Names names_;
  std::vector<Value> spaces_;  // created by namespace()
  bool live_ = false;
  int depth_ = 0;
};

}  // namespace shardwise::detail
