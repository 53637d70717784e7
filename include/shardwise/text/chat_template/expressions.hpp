// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The expressions of Jinja that text/chat_template.hpp names.

#include <ctime>
#include <map>

#include <shardwise/text/chat_template/reader.hpp>

namespace shardwise::detail {

/// Reads the expressions of a tag, and if it is `live_` computes them.
class TemplateExpressions : protected TemplateReader {
 public:
  using Value = TemplateValue;
  using Names = std::map<std::string, Value, std::less<>>;

 protected:
  explicit TemplateExpressions(Names names) : names_(std::move(names)) {}

  /// All that is left of the tag.
  Value whole() {
    const Value value = expression();
    need(rest_.empty());
    return value;
  }
  /// With `a if b else c`: where `a` cannot be computed, it is read again only, as it may not be wanted.
  Value expression() {
    if (++depth_ > 100) throw std::runtime_error("it nests deeper than 100");
    const std::string_view begin = rest_;
    const bool before = live_;
    const int depth = depth_;
    std::exception_ptr error;
    Value value;
    try {
      value = either();
    } catch (const std::runtime_error&) {
      if (!before) throw;
      error = std::current_exception();
      live_ = false, rest_ = begin, depth_ = depth;
      either();
      live_ = before;
    }
    const bool conditional = take_word("if"), holds = !conditional || (truth(either()) && before);
    if (error && holds) std::rethrow_exception(error);
    live_ = before && !holds;
    const Value other = conditional && take_word("else") ? expression() : Value();
    live_ = before;
    --depth_;
    return holds ? value : other;
  }
  /// Python's `or` gives the first that is true, or the last; `and` the first that is not.
  Value either() {
    return either_of("or", true, [&] { return either_of("and", false, [&] { return negated(); }); });
  }
  template <class Operand>
  Value either_of(std::string_view word, bool ends, Operand operand) {
    const bool before = live_;
    Value value = operand();
    while (take_word(word)) {
      live_ = live_ && truth(value) != ends;
      const Value next = operand();
      if (live_) value = next;
    }
    live_ = before;
    return value;
  }
  Value negated() {
    int count = 0;
    while (take_word("not")) count = count == 1 ? 2 : 1;
    const Value value = comparison();
    return count > 0 ? value_of(truth(value) == (count == 2)) : value;
  }
  Value comparison() {
    const Value left = sum(0);
    for (const std::string sign : {"==", "!=", "<=", ">=", "<", ">", "in", "not"}) {
      const bool word = std::isalpha(sign[0]);
      if (!(word ? take_word(sign) : take(sign))) continue;
      need(sign != "not" || take_word("in"));
      const Value right = sum(0);
      if (!live_) return {};
      if (word) return value_of(contains(right, left) == (sign == "in"));
      if (sign == "==" || sign == "!=") return value_of(equal(left, right) == (sign == "=="));
      const Index a = integer_of(left), b = integer_of(right);
      return value_of(a == b ? sign.size() == 2 : (a < b) == (sign[0] == '<'));
    }
    return left;
  }
  static bool contains(const Value& all, const Value& value) {
    if (all && all->is_string()) return string_of(all).find(string_of(value)) != std::string::npos;
    if (all && all->is_object()) return all->contains(string_of(value));
    return std::ranges::any_of(elements_of(all), [&](const Value& one) { return equal(one, value); });
  }
  /// Sums, of texts joined by ~, of products.
  Value sum(std::size_t level) {
    constexpr std::string_view signs[]{"+-", "~", "*/%"};
    if (level == 3) return take("-") ? calculated('*', value_of(-1), postfix()) : postfix();
    Value value = sum(level + 1);
    while (!rest_.empty() && signs[level].find(rest_[0]) != std::string_view::npos) {
      const char sign = rest_[0];
      need(take("//") || (sign != '/' && !rest_.starts_with("**") && take({&sign, 1})));
      value = calculated(sign, value, sum(level + 1));
    }
    return value;
  }
  Value calculated(char sign, const Value& left, const Value& right) {
    if (!live_) return {};
    if (sign == '~' || (sign == '+' && left && left->is_string())) {
      std::string all = text_of(left);
      add(all, sign == '~' ? text_of(right) : string_of(right));
      return value_of(all);
    }
    const Index a = integer_of(left), b = integer_of(right);
    if (sign != '/' && sign != '%') return value_of(sign == '*' ? a * b : sign == '+' ? a + b : a - b);
    if (b == 0) expected(right, "a divisor that is not 0");
    const Index remainder = (a % b + b) % b;  // Python rounds down
    return value_of(sign == '%' ? remainder : (a - remainder) / b);
  }

  /// With what stands behind it: parts, methods, filters and tests.
  Value postfix() {
    Value value = primary();
    while (true) {
      spend(1);
      if (take(".")) {
        const std::string_view before = rest_;
        const std::string key = name();
        need(!key.empty() && !std::isdigit(key[0]));
        if (rest_.starts_with('(')) {
          value = function(key, value, before, "strip lstrip rstrip split startswith endswith items ");
        } else if (live_) {
          value = part_of(value, value_of(key));
        }
      } else if (take("[")) {
        value = subscript(value);
      } else if (take("|")) {
        const std::string_view before = rest_;
        value = function(name(), value, before, "trim length tojson string list items selectattr ");
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
    constexpr std::string_view known =
        " defined undefined none mapping iterable true false string number boolean ";
    const bool is_known = known.find(" " + word + " ") != known.npos && !word.empty();
    if (!is_known) rest_ = before;
    need(is_known);
    const bool holds = word == "defined"   ? type != "undefined"
                       : word == "none"    ? type == "null"
                       : word == "mapping" ? type == "object"
                       : word == "iterable"
                           ? type == "object" || type == "array" || type == "string" || !value
                       : word == "number" ? type == "number" || type == "boolean"
                       : word == "true"   ? type == "boolean" && truth(value)
                       : word == "false"  ? type == "boolean" && !truth(value)
                                          : type == word;
    return live_ ? value_of(holds != negated) : Value();
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
    const bool known = !word.empty() && !std::isdigit(word[0]);
    if (!known) rest_ = before;
    need(known);
    if (rest_.starts_with('(')) return function(word, {}, before, "raise_exception namespace strftime_now ");
    if (const auto found = names_.find(word); found != names_.end()) return found->second;
    return word == "strftime_now" || word == "raise_exception" ? value_of(true) : Value();  // are defined
  }
  /// Up to the sign, with their names, if they have some.
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
  /// A function, method or filter among `known`. Its name, which stood `before`, is taken.
  Value function(const std::string& f, const Value& v, std::string_view before, std::string_view known) {
    const bool is_known = (" " + std::string(known)).find(" " + f + " ") != std::string::npos && !f.empty();
    if (!is_known) rest_ = before;
    need(is_known);
    const auto given = take("(") ? arguments(")") : std::vector<std::pair<std::string, Value>>();
    const auto count = given.size();
    const bool strips = f.ends_with("strip") || f == "trim",
               one = f == "split" || f.ends_with("with") || f == "raise_exception" || f == "strftime_now";
    const bool named = f == "namespace" || (f == "tojson" && count == 1 && given[0].first == "indent");
    need((named || std::ranges::all_of(given, [](const auto& g) { return g.first.empty(); })) &&
         (f == "namespace" || (f == "tojson" && named) || (f == "selectattr" && count == 3) ||
          (strips ? count < 2 : count == (one ? 1u : 0u))));
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
    if (f == "length") return value_of(v && v->is_object() ? v->size() : elements_of(v, true).size());
    if (f == "tojson") {
      const Index indent = first && !first->is_null() ? std::clamp<Index>(integer_of(first), 0, 16) : 0;
      return value_of(json_text(v ? *v : (expected(v, "a value"), *v), static_cast<std::size_t>(indent)));
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
    } else {  // list, selectattr
      for (const Value& element : elements_of(v)) {
        if (f == "list" || equal(part_of(element, first), given[2].second)) list.push_back(*element);
      }
    }
    return value_of(std::move(list));
  }

  Names names_;
  std::vector<Value> spaces_;  // what namespace() has made
  bool live_ = false;
  int depth_ = 0;
};

}  // namespace shardwise::detail
