// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Operators, tests, functions, methods and filters of Jinja, for llm/text/chat_template.hpp.

#include <ctime>

#include <shardwise/llm/namespaces.hpp>
#include <shardwise/llm/text/chat_template/reader.hpp>

namespace shardwise::llm::detail {

/// The name of a function, a method or a filter; the least number of its arguments, and their names.
struct TemplateFunction {
  std::string_view name;
  std::size_t least = 0;
  std::vector<std::string_view> parameters{};
  bool more = false;  // takes any arguments
};
using TemplateFunctions = std::vector<TemplateFunction>;
inline const TemplateFunctions template_functions{{"raise_exception", 1, {"message"}},
                                                  {"strftime_now", 1, {"format"}},
                                                  {"range", 1, {"start", "stop", "step"}},
                                                  {"namespace", 0, {}, true},
                                                  {"dict", 0, {}, true}};
inline const TemplateFunctions template_methods{{"strip", 0, {"chars"}},
                                                {"lstrip", 0, {"chars"}},
                                                {"rstrip", 0, {"chars"}},
                                                {"split", 0, {"sep", "maxsplit"}},
                                                {"startswith", 1, {"prefix"}},
                                                {"endswith", 1, {"suffix"}},
                                                {"replace", 2, {"old", "new"}},
                                                {"join", 1, {"iterable"}},
                                                {"upper"},
                                                {"lower"},
                                                {"capitalize"},
                                                {"items"},
                                                {"keys"},
                                                {"values"},
                                                {"get", 1, {"key", "default"}}};
inline const TemplateFunctions template_filters{
    {"trim", 0, {"chars"}},
    {"length"},
    {"count"},
    {"string"},
    {"safe"},
    {"list"},
    {"items"},
    {"upper"},
    {"lower"},
    {"title"},
    {"capitalize"},
    {"first"},
    {"last"},
    {"reverse"},
    {"dictsort"},
    {"int"},
    {"tojson", 0, {"ensure_ascii", "indent", "separators", "sort_keys"}},
    {"join", 0, {"d", "attribute"}},
    {"replace", 2, {"old", "new"}},
    {"default", 0, {"default_value", "boolean"}},
    {"d", 0, {"default_value", "boolean"}},
    {"sort", 0, {"reverse", "case_sensitive", "attribute"}},
    {"map", 0, {}, true},
    {"select", 0, {}, true},
    {"reject", 0, {}, true},
    {"selectattr", 1, {}, true},
    {"rejectattr", 1, {}, true}};
/// Computes values from values.
class TemplateCalls : protected TemplateReader {
 public:
  using Value = TemplateValue;
  using Arguments = std::vector<std::pair<std::string, Value>>;  // with their names, if given

 protected:
  Value joined(const Value& left, std::string_view sign, const Value& right) {
    if (sign == "in" || sign == "not") return value_of(holds(left, "in", right) == (sign == "in"));
    if (sign == "==" || sign == "!=") return value_of(equal(left, right) == (sign == "=="));
    if (sign == "~" || (sign == "+" && left && left->is_string())) {
      std::string all;
      add(all, text_of(left));
      add(all, sign == "~" ? text_of(right) : string_of(right));
      return value_of(all);
    }
    if (sign == "+" && left && left->is_array()) {
      OrderedJson all = *left;
      for (const Value& element : elements_of(right)) all.push_back(*element);
      spend(16 * all.size() + all.dump().size() / 16);
      return value_of(std::move(all));
    }
    if (sign[0] == '<' || sign[0] == '>') {
      const bool below = sign[0] == '<' ? less(left, right) : less(right, left);
      return value_of(below || (sign.size() == 2 && equal(left, right)));
    }
    if (sign == "*" && left && left->is_string()) {
      std::string all;
      for (Index i = integer_of(right); i > 0; --i) add(all, string_of(left)), spend(1);
      return value_of(all);
    }
    if (sign == "/" || (left && left->is_number_float()) || (right && right->is_number_float())) {
      const double a = number_of(left), b = number_of(right);
      if (b == 0 && sign[0] != '+' && sign[0] != '-' && sign != "*")
        expected(right, "a divisor that is not 0");
      double rest = sign == "%" || sign == "//" ? std::fmod(a, b) : 0;
      if (rest != 0 && (rest < 0) != (b < 0)) rest += b;  // Python rounds down
      return value_of(sign == "+"    ? a + b
                      : sign == "-"  ? a - b
                      : sign == "*"  ? a * b
                      : sign == "/"  ? a / b
                      : sign == "//" ? std::round((a - rest) / b)
                                     : rest);
    }
    const Index a = integer_of(left), b = integer_of(right);
    if (sign == "+") return value_of(a + b);
    if (sign == "-") return value_of(a - b);
    if (sign == "*") return value_of(a * b);
    if (b == 0) expected(right, "a divisor that is not 0");
    const Index remainder = (a % b + b) % b;  // Python rounds down
    return value_of(sign == "%" ? remainder : (a - remainder) / b);
  }
  static bool is_one_of(std::string_view word, std::initializer_list<std::string_view> all) {
    return std::ranges::find(all, word) != all.end();
  }
  /// Whether this is the name of a test without an argument.
  static bool is_test(std::string_view word) {
    return is_one_of(
        word, {"defined", "undefined", "none", "true", "false", "boolean", "number", "integer", "float",
               "string", "mapping", "iterable", "sequence", "odd", "even", "lower", "upper"});
  }
  /// Whether this is the name of a test with an argument.
  static bool compares(std::string_view word) {
    return is_one_of(
        word, {"equalto", "eq", "==", "ne", "!=", "in", "lt", "le", "gt", "ge", "divisibleby", "sameas"});
  }
  bool holds(const Value& value, std::string_view test, const Value& other) {
    const std::string_view type = value ? value->type_name() : "undefined";
    const bool boolean = type == "boolean";
    if (is_one_of(test, {"equalto", "eq", "==", "ne", "!="}))
      return equal(value, other) == (test != "ne" && test != "!=");
    if (test == "lt" || test == "ge") return less(value, other) == (test == "lt");
    if (test == "gt" || test == "le") return less(other, value) == (test == "gt");
    if (test == "in") return spend(other ? other->size() : 0), contains(other, value);
    if (test == "divisibleby") return integer_of(joined(value, "%", other)) == 0;
    if (test == "odd" || test == "even")
      return integer_of(joined(value, "%", value_of(2))) == (test == "odd" ? 1 : 0);
    if (test == "sameas") {
      if (!other || !(other->is_null() || other->is_boolean())) expected(other, "true, false or none");
      return value && value->type() == other->type() && *value == *other;
    }
    if (test == "lower" || test == "upper") {
      const std::string& text = string_of(value);
      return text == in_case(text, test[0]) && text != in_case(text, test == "lower" ? 'u' : 'l');
    }
    if (test == "defined") return value != nullptr;
    if (test == "none") return type == "null";
    if (test == "true" || test == "false") return boolean && truth(value) == (test == "true");
    if (test == "number") return boolean || type == test;
    if (test == "integer" || test == "float")
      return type == "number" && value->is_number_float() == (test == "float");
    if (test == "mapping") return type == "object";
    if (test == "iterable" || test == "sequence") return !boolean && type != "number" && type != "null";
    return type == test;
  }
  /// Its entry among those; throws if it has none.
  const TemplateFunction& known_in(const TemplateFunctions& all, std::string_view f,
                                   std::string_view from) const {
    const auto found = std::ranges::find(all, f, &TemplateFunction::name);
    need(found != all.end(), from);
    return *found;
  }
  /// Arguments in the order of the parameters; one that is not given has no name.
  Arguments bound(const TemplateFunction& known, const Arguments& given) const {
    Arguments all(known.parameters.size());
    for (std::size_t i = 0; i < given.size(); ++i) {
      const auto place = given[i].first.empty()
                             ? known.parameters.begin() + static_cast<std::ptrdiff_t>(std::min(i, all.size()))
                             : std::ranges::find(known.parameters, given[i].first);
      need(place != known.parameters.end());
      auto& [parameter, value] = all[static_cast<std::size_t>(place - known.parameters.begin())];
      need(parameter.empty());
      parameter = *place, value = given[i].second;
    }
    for (std::size_t i = 0; i < known.least; ++i) need(!all[i].first.empty());
    return all;
  }
  Value called(const Value& v, std::string_view f, const Arguments& given) {
    spend(v && v->is_string() ? string_of(v).size() / 16 : v ? 16 * v->size() : 1);
    const auto argument = [&](std::size_t i) { return i < given.size() ? given[i].second : Value(); };
    const Value first = argument(0);
    if (f == "raise_exception")
      throw std::runtime_error("the template refuses it: " + excerpt(text_of(first)));
    if (f == "namespace" || f == "dict") {
      const Value made = value_of(OrderedJson::object());
      for (const auto& [word, value] : given) {
        need(!word.empty());
        (*made)[word] = value ? *value : OrderedJson();
      }
      if (f == "namespace") spaces_.push_back(made);
      return made;
    }
    if (f == "strftime_now") {
      std::array<char, 256> text{};
      const std::time_t now = std::time(nullptr);
      std::strftime(text.data(), text.size(), string_of(first).c_str(), std::localtime(&now));
      return value_of(text.data());
    }
    if (f == "range") {
      const bool one = given[1].first.empty();
      const Index begin = one ? 0 : integer_of(first), end = integer_of(given[one ? 0 : 1].second),
                  step = given[2].first.empty() ? 1 : integer_of(given[2].second);
      if (step == 0) expected(given[2].second, "a step that is not 0");
      OrderedJson all = OrderedJson::array();
      for (Index i = begin; step < 0 ? i > end : i < end; i += step) spend(16), all.push_back(i);
      return value_of(std::move(all));
    }
    if (f == "default" || f == "d") {
      const bool missing = !v || (argument(1) && truth(argument(1)) && !truth(v));
      return !missing ? v : given[0].first.empty() ? value_of("") : first;
    }
    if (f.ends_with("strip") || f == "trim")
      return value_of(stripped(string_of(v), f[0] != 'r', f[0] != 'l',
                               first && !first->is_null() ? string_of(first) : ""));
    if (f == "startswith") return value_of(string_of(v).starts_with(string_of(first)));
    if (f == "endswith") return value_of(string_of(v).ends_with(string_of(first)));
    if (f == "string" || f == "safe") return value_of(text_of(v));
    if (f == "upper" || f == "lower" || f == "title" || f == "capitalize")
      return value_of(in_case(text_of(v), f[0]));
    if (f == "get") {
      const Value member = part_of(v, first);
      return member ? member : given[1].first.empty() ? value_of(nullptr) : given[1].second;
    }
    if (f == "length" || f == "count") return value_of(v && v->is_object() ? v->size() : list_of(v)->size());
    if (f == "tojson") return value_of(as_json(v, given));
    if (f == "int") {
      if (!v || !v->is_string()) return value_of(static_cast<Index>(std::trunc(number_of(v))));
      const std::string_view text = stripped(string_of(v), true, true);
      Index number = 0;
      const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
      if (error != std::errc() || end != text.data() + text.size()) expected(v, "a text of digits");
      return value_of(number);
    }
    if (is_one_of(f, {"items", "keys", "values", "dictsort"}) && (!v || !v->is_object()))
      expected(v, "an object");
    if (f == "list" || f == "keys") return list_of(v);
    if (f == "first" || f == "last") return part_of(list_of(v), value_of(f == "first" ? 0 : -1));
    if (f == "reverse") return slice(v, {Value(), Value(), value_of(-1)});
    OrderedJson list = OrderedJson::array();
    if (f == "join") {
      // As a method of a text, that is between the elements of its argument.
      const bool method = given.size() == 1;
      const Value between = method ? v : given[0].first.empty() ? value_of("") : first;
      for (const Value& element : elements_of(method ? first : v))
        list.push_back(*defined(attribute_of(element, argument(1))));
      return value_of(join(list, method ? string_of(between) : text_of(between)));
    }
    if (f == "items" || f == "values" || f == "dictsort") {
      for (const auto& [key, member] : v->items())
        f == "values" ? list.push_back(member) : list.push_back({key, member});
      if (f == "dictsort")
        sort(
            list, [&](const Value& pair) { return part_of(pair, value_of(0)); }, false);
    } else if (f == "sort") {
      list = *list_of(v);
      sort(
          list, [&](const Value& element) { return attribute_of(element, argument(2)); },
          argument(1) && truth(argument(1)));
      if (first && truth(first)) std::reverse(list.begin(), list.end());
    } else if (f == "split" || f == "replace") {
      std::string_view text = string_of(v);
      if (f == "split" && (!first || first->is_null())) return words_of(text, argument(1));
      const std::string_view by = string_of(first);
      if (by.empty()) expected(first, "a text that is not empty");
      const Index most = f == "split" && argument(1) ? integer_of(argument(1)) : -1;
      for (std::size_t at; std::ssize(list) != most && (at = text.find(by)) != text.npos;) {
        list.push_back(text.substr(0, at));
        text.remove_prefix(at + by.size());
      }
      list.push_back(text);
      if (f == "replace") return value_of(join(list, string_of(argument(1))));
    } else if (f == "map") {
      need(!given.empty());
      const bool attribute = given[0].first == "attribute";
      need(attribute ? given.size() == 1 : given[0].first.empty());
      for (const Value& element : elements_of(v))
        list.push_back(
            *defined(attribute ? attribute_of(element, first) : filtered(element, string_of(first), given)));
    } else {  // elements that pass a test, or whose members do
      const std::size_t at = f.ends_with("attr") ? 1 : 0;
      const std::string word = at < given.size() ? string_of(given[at].second) : "";
      const auto count = at + (word.empty() ? 0 : 1) + (compares(word) ? 1 : 0);
      if (count != given.size() || !(word.empty() || compares(word) || is_test(word)))
        expected(argument(at), "a test, with its argument");
      for (const Value& element : elements_of(v)) {
        const Value part = at > 0 ? attribute_of(element, first) : element;
        if ((word.empty() ? truth(part) : holds(part, word, given.back().second)) == f.starts_with("select"))
          list.push_back(*element);
      }
    }
    return value_of(std::move(list));
  }
  /// The result of the filter that the first argument names, with the others.
  Value filtered(const Value& value, std::string_view filter, Arguments given) {
    const TemplateFunction& known = known_in(template_filters, filter, filter);
    given.erase(given.begin());
    return called(value, known.name, known.more ? given : bound(known, given));
  }
  static const Value& defined(const Value& value) {
    if (!value) expected(value, "a value");
    return value;
  }
  /// The member "a", or the member "b" of that, as "a.b"; the value itself without a path.
  static Value attribute_of(Value value, const Value& path) {
    for (std::string_view rest = path ? std::string_view(string_of(path)) : ""; !rest.empty();) {
      const std::string_view key = rest.substr(0, rest.find('.'));
      value = part_of(value, value_of(std::string(key)));
      rest.remove_prefix(std::min(key.size() + 1, rest.size()));
    }
    return path ? value : defined(value);
  }
  std::string as_json(const Value& value, const Arguments& given) {
    JsonStyle style;
    const auto has = [&](std::size_t i) { return given[i].second && !given[i].second->is_null(); };
    style.ascii = has(0) && truth(given[0].second);
    style.sorted = has(3) && truth(given[3].second);
    if (has(1)) style.indent = std::clamp<Index>(integer_of(given[1].second), 0, 16), style.between = ",";
    if (has(2)) {
      style.between = string_of(part_of(given[2].second, value_of(0)));
      style.after_key = string_of(part_of(given[2].second, value_of(1)));
    }
    std::string text;
    add_json(text, *defined(value), style);
    spend(text.size() / 16);
    return text;
  }
  /// Sorts by a key; texts without regard to case, unless `exactly`.
  static void sort(OrderedJson& list, const auto& key_of, bool exactly) {
    std::vector<std::pair<Value, OrderedJson>> all;
    for (OrderedJson& element : list) {
      Value key = key_of(value_of(element));
      if (!exactly && key && key->is_string()) key = value_of(in_case(string_of(key), 'l'));
      all.emplace_back(std::move(key), std::move(element));
    }
    std::stable_sort(all.begin(), all.end(),
                     [](const auto& a, const auto& b) { return less(a.first, b.first); });
    list = OrderedJson::array();
    for (auto& [key, element] : all) list.push_back(std::move(element));
  }
  /// The words between white space; at most `most` are cut off.
  static Value words_of(std::string_view text, const Value& most) {
    OrderedJson words = OrderedJson::array();
    const Index count = most ? integer_of(most) : -1;
    for (text = stripped(text, true, false); !text.empty(); text = stripped(text, true, false)) {
      std::size_t end = 0;
      while (end < text.size() && stripped(text.substr(end), true, false).size() == text.size() - end)
        end += std::max<std::size_t>(character_at(text, end).length, 1);
      if (std::ssize(words) == count) end = text.size();
      words.push_back(text.substr(0, end));
      text.remove_prefix(end);
    }
    return value_of(std::move(words));
  }
  std::string join(OrderedJson& list, std::string_view between) {
    std::string all;
    for (std::size_t i = 0; i < list.size(); ++i)
      add(all, std::string(i > 0 ? between : "") + text_of(value_of(list[i])));
    return all;
  }

  std::vector<Value> spaces_;  // created by namespace()
};

}  // namespace shardwise::llm::detail
