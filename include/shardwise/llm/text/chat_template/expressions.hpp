// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Jinja expressions for llm/text/chat_template.hpp.

#include <ctime>
#include <map>

#include <shardwise/llm/namespaces.hpp>
#include <shardwise/llm/text/chat_template/reader.hpp>

namespace shardwise::llm::detail {

/// Parses the expressions of a tag and, if `live_`, evaluates them.
class TemplateExpressions : protected TemplateReader {
 public:
  using Value = TemplateValue;
  using Names = std::map<std::string, Value, std::less<>>;
  using Arguments = std::vector<std::pair<std::string, Value>>;  // with their names, if given
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
    if (sign == "in" || sign == "not") return value_of(holds(left, "in", right) == (sign == "in"));
    if (sign == "==" || sign == "!=") return value_of(equal(left, right) == (sign == "=="));
    if (sign == "~" || (sign == "+" && left && left->is_string())) {
      std::string all = text_of(left);
      add(all, sign == "~" ? text_of(right) : string_of(right));
      return value_of(all);
    }
    if (sign == "+" && left && left->is_array()) {
      OrderedJson all = *left;
      for (const Value& element : elements_of(right)) all.push_back(*element);
      spend(16 * all.size() + all.dump().size() / 16);
      return value_of(std::move(all));
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
          value =
              function(value,
                       " strip:01 lstrip:01 rstrip:01 split:12 startswith:11 endswith:11 replace:22 items:00 "
                       "keys:00 get:12 ");
        } else if (live_) {
          value = part_of(value, value_of(key));
        }
      } else if (take("[")) {
        value = subscript(value);
      } else if (take("|")) {
        value = function(value,
                         " trim:01 length:00 tojson:01 string:00 safe:00 list:00 items:00 join:11 replace:22 "
                         "select:12 reject:12 selectattr:23 rejectattr:23 ");
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
    const std::string word = name();
    need(is_test(word), before);
    return live_ ? value_of(holds(value, word, {}) != negated) : Value();
  }
  /// Whether this is the name of a test without an argument.
  static bool is_test(std::string_view word) {
    constexpr std::array all{"defined", "undefined", "none",    "true",     "false",   "boolean",
                             "number",  "string",    "mapping", "iterable", "sequence"};
    return std::ranges::find(all, word) != all.end();
  }
  bool holds(const Value& value, std::string_view test, const Value& other) {
    const std::string_view type = value ? value->type_name() : "undefined";
    const bool boolean = type == "boolean";
    if (test == "equalto") return equal(value, other);
    if (test == "in") return spend(other ? other->size() : 0), contains(other, value);
    if (test == "defined") return value != nullptr;
    if (test == "none") return type == "null";
    if (test == "true" || test == "false") return boolean && truth(value) == (test == "true");
    if (test == "number") return boolean || type == test;
    if (test == "mapping") return type == "object";
    if (test == "iterable" || test == "sequence") return !boolean && type != "number" && type != "null";
    return type == test;
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
    std::string word = name();
    if (word == "true" || word == "false") return value_of(word == "true");
    if (word == "none") return value_of(nullptr);
    if (!word.empty() && word.size() < 10 && word.find_first_not_of("0123456789") == word.npos)
      return value_of(std::stol(word));
    need(!word.empty() && !std::isdigit(word[0]), before);
    if (rest_.starts_with('(')) {
      if (const auto macro = macros_->find(word); macro != macros_->end() && take("("))
        return call(macro->second, arguments(")"));
      rest_ = before;
      return function({}, " raise_exception:11 namespace:00 strftime_now:11 ");
    }
    for (const std::string_view neighbour : {".previtem", ".nextitem"})
      if (word == "loop" && take(neighbour)) word += neighbour;
    const auto found = names_.find(word);
    return found == names_.end() ? Value() : found->second;
  }
  /// Arguments up to `end`.
  Arguments arguments(std::string_view end) {
    Arguments all;
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
  /// Calls a function, or a method or filter of `v`. Its name must be among `known`, which adds to each the least
  /// and greatest number of arguments.
  Value function(const Value& v, std::string_view known) {
    const std::string_view before = rest_;
    const std::string f = name();
    const std::size_t place = known.find(" " + f + ":");
    need(!f.empty() && place != known.npos, before);
    const Arguments given = take("(") ? arguments(")") : Arguments();
    const bool strips = f.ends_with("strip") || f == "trim", any = f == "namespace",
               members = f.ends_with("attr");
    const std::string_view numbers = known.substr(place + f.size() + 2, 2);
    const std::size_t count = given.size(), least = static_cast<std::size_t>(numbers[0] - '0'),
                      most = static_cast<std::size_t>(numbers[1] - '0');
    const auto fits = [&](const auto& argument) {
      return any ? !argument.first.empty() : argument.first == (f == "tojson" ? "indent" : "");
    };
    need(std::ranges::all_of(given, fits) && (any || (count >= least && count <= most)));
    if (!live_) return {};
    spend(v && v->is_string() ? string_of(v).size() / 16 : v ? 16 * v->size() : 1);
    const Value first = count > 0 ? given[0].second : Value(), last = count > 0 ? given.back().second : first;
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
    if (f == "string" || f == "safe") return value_of(text_of(v));
    if (f == "get") {
      const Value member = part_of(v, first);
      return member ? member : count > 1 ? last : value_of(nullptr);
    }
    if (f == "length") return value_of(v && v->is_object() ? v->size() : list_of(v)->size());
    if (f == "tojson") {
      if (!v) expected(v, "a value");
      const Index indent = first && !first->is_null() ? std::clamp<Index>(integer_of(first), 0, 16) : 0;
      return value_of(json_text(*v, static_cast<int>(indent)));
    }
    if ((f == "items" || f == "keys") && (!v || !v->is_object())) expected(v, "an object");
    if (f == "list" || f == "keys") return list_of(v);
    if (f == "join") return value_of(join(*list_of(v), string_of(first)));
    OrderedJson list = OrderedJson::array();
    if (f == "items") {
      for (const auto& [key, member] : v->items()) list.push_back({key, member});
    } else if (f == "split" || f == "replace") {
      std::string_view text = string_of(v), by = string_of(first);
      if (by.empty()) expected(first, "a text that is not empty");
      const std::size_t cuts =
          f == "split" && count > 1 ? static_cast<std::size_t>(integer_of(last)) : text.npos;
      for (std::size_t at; list.size() < cuts && (at = text.find(by)) != text.npos;) {
        list.push_back(text.substr(0, at));
        text.remove_prefix(at + by.size());
      }
      list.push_back(text);
      if (f == "replace") return value_of(join(list, string_of(last)));
    } else {  // elements that pass a test, or whose members do
      const Value& test = given[members ? 1 : 0].second;
      const std::string& word = string_of(test);
      const bool compares = word == "equalto" || word == "in";
      if (count != least + static_cast<std::size_t>(compares) || !(compares || is_test(word)))
        expected(test, "a test, with its argument");
      for (const Value& element : elements_of(v)) {
        if (holds(members ? part_of(element, first) : element, word, last) == f.starts_with("select"))
          list.push_back(*element);
      }
    }
    return value_of(std::move(list));
  }

  std::string join(OrderedJson& list, std::string_view between) {
    std::string all;
    for (std::size_t i = 0; i < list.size(); ++i)
      add(all, std::string(i > 0 ? between : "") + text_of(value_of(list[i])));
    return all;
  }

  Names names_;
  std::shared_ptr<std::map<std::string, Macro, std::less<>>> macros_ =
      std::make_shared<std::map<std::string, Macro, std::less<>>>();
  std::vector<Value> spaces_;  // created by namespace()
  bool live_ = false;
  int depth_ = 0;
};

}  // namespace shardwise::llm::detail
