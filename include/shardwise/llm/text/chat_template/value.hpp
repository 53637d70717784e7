// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The values of Jinja expressions, with Python's semantics.

#include <cmath>
#include <memory>

#include <shardwise/io/json.hpp>
#include <shardwise/llm/namespaces.hpp>
#include <shardwise/llm/text/utf8.hpp>

namespace shardwise::llm::detail {

using OrderedJson = nlohmann::ordered_json;  // keeps the order of an object's members
/// Null: undefined. A part shares ownership of the whole.
using TemplateValue = std::shared_ptr<OrderedJson>;

inline TemplateValue value_of(OrderedJson json) { return std::make_shared<OrderedJson>(std::move(json)); }

[[noreturn]] inline void expected(const TemplateValue& value, const char* what) {
  fail<std::runtime_error>({"it is ", value ? excerpt(value->dump()) : "undefined", ", expected ", what});
}
inline const std::string& string_of(const TemplateValue& value) {
  if (!value || !value->is_string()) expected(value, "a text");
  return value->get_ref<const std::string&>();
}
/// An integer small enough that sums and products of two do not overflow.
inline Index integer_of(const TemplateValue& value) {
  if (value && value->is_boolean()) return value->get<bool>() ? 1 : 0;
  if (!value || !value->is_number_integer() || std::abs(value->get<double>()) > 0x1p31)
    expected(value, "an integer of 32 bits");
  return value->get<Index>();
}
inline double number_of(const TemplateValue& value) {
  if (!value || !(value->is_number() || value->is_boolean())) expected(value, "a number");
  const double number = value->is_boolean() ? value->get<bool>() : value->get<double>();
  if (!(std::abs(number) <= 0x1p53)) expected(value, "a number of at most 2^53");
  return number;
}
inline bool truth(const TemplateValue& value) {
  if (!value || value->is_boolean()) return value && value->get<bool>();
  return value->is_number() ? *value != 0 : value->is_string() ? !string_of(value).empty() : !value->empty();
}
/// As Python writes it: nlohmann::json writes 1e+15.
inline std::string number_text(const OrderedJson& number) {
  const double value = number.get<double>();
  if (!number.is_number_float() || !(std::abs(value) >= 1e15 && std::abs(value) < 1e16)) return number.dump();
  return std::to_string(static_cast<std::int64_t>(value)) + ".0";
}
/// The value as printed text.
inline std::string text_of(const TemplateValue& value) {
  if (!value || value->is_string()) return value ? string_of(value) : "";
  if (value->is_null()) return "None";
  if (value->is_boolean()) return truth(value) ? "True" : "False";
  if (!value->is_number()) expected(value, "a text or a number");
  return number_text(*value);
}
inline bool equal(const TemplateValue& a, const TemplateValue& b) {
  if (!a || !b) return a == b;
  if (a->is_boolean() == b->is_boolean()) return *a == *b;
  return (a->is_number() || b->is_number()) && number_of(a) == number_of(b);
}

/// A list, or the list of a text's characters or an object's keys; an empty list for undefined.
inline TemplateValue list_of(const TemplateValue& value) {
  if (value && value->is_array()) return value;
  OrderedJson all = OrderedJson::array();
  if (value && value->is_object()) {
    for (const auto& [key, member] : value->items()) all.push_back(key);
    return value_of(std::move(all));
  }
  if (value && !value->is_string()) expected(value, "a list");
  const std::string text = text_of(value);
  for (std::size_t i = 0, length = 0; i < text.size(); i += length) {
    length = std::max<std::size_t>(character_at(text, i).length, 1);
    all.push_back(text.substr(i, length));
  }
  return value_of(std::move(all));
}
inline std::vector<TemplateValue> elements_of(const TemplateValue& value) {
  const TemplateValue list = list_of(value);
  std::vector<TemplateValue> all;
  for (OrderedJson& element : *list) all.emplace_back(list, &element);
  return all;
}
inline bool contains(const TemplateValue& all, const TemplateValue& value) {
  if (all && all->is_string()) return string_of(all).find(string_of(value)) != std::string::npos;
  if (all && all->is_object()) return all->contains(string_of(value));
  return std::ranges::any_of(elements_of(all), [&](const TemplateValue& one) { return equal(one, value); });
}
/// A member or an element, or undefined.
inline TemplateValue part_of(const TemplateValue& value, const TemplateValue& key) {
  if (!value) fail<std::runtime_error>({"\"", text_of(key), "\" of what is undefined"});
  if (value->is_object()) {
    const auto found = value->find(string_of(key));
    return found == value->end() ? TemplateValue() : TemplateValue(value, &*found);
  }
  if (!key || key->is_string()) return {};
  const TemplateValue list = list_of(value);
  const Index i = integer_of(key), size = std::ssize(*list), at = i < 0 ? i + size : i;
  return at < 0 || at >= size ? TemplateValue() : TemplateValue(list, &(*list)[static_cast<std::size_t>(at)]);
}
/// Python's [first:last:step].
inline TemplateValue slice(const TemplateValue& value, const std::array<TemplateValue, 3>& bounds) {
  const TemplateValue all = list_of(value);
  const Index size = std::ssize(*all), step = bounds[2] ? integer_of(bounds[2]) : 1, low = step < 0 ? -1 : 0;
  if (step == 0) expected(bounds[2], "a step that is not 0");
  const auto place = [&](const TemplateValue& bound, Index otherwise) {
    const Index i = bound ? integer_of(bound) : otherwise;
    return bound ? std::clamp(i < 0 ? i + size : i, low, size + low) : i;
  };
  const Index begin = place(bounds[0], step < 0 ? size - 1 : 0), end = place(bounds[1], step < 0 ? -1 : size);
  OrderedJson part = value && value->is_string() ? OrderedJson("") : OrderedJson::array();
  for (Index i = begin; step < 0 ? i > end : i < end; i += step) {
    const OrderedJson& element = (*all)[static_cast<std::size_t>(i)];
    part.is_array() ? part.push_back(element) : void(part.get_ref<std::string&>() += element);
  }
  return value_of(std::move(part));
}

/// Without white space, or the given characters, at the ends.
inline std::string_view stripped(std::string_view text, bool left, bool right, std::string_view given = {}) {
  std::size_t begin = text.size(), end = 0;  // of the remaining text
  for (std::size_t i = 0, length = 0; i < text.size(); i += length) {
    const char32_t c = character_at(text, i).value;
    length = std::max<std::size_t>(character_at(text, i).length, 1);
    if (given.empty() ? white_space(c) || (c >= 0x1c && c < 0x20)
                      : given.find(text.substr(i, length)) != given.npos)
      continue;
    begin = std::min(begin, i);
    end = i + length;
  }
  if (!left) begin = 0;
  return text.substr(begin, (right ? std::max(begin, end) : text.size()) - begin);
}

/// `text` with the case of its letters changed: 'u' upper, 'l' lower, 't' upper at the begin of each word, 'c' of the
/// text alone. Only for ASCII: Python's rules for other letters are long.
inline std::string in_case(std::string text, char to) {
  bool begin = true;
  for (char& c : text) {
    if (static_cast<unsigned char>(c) > 0x7f) expected(value_of(text), "a text of ASCII characters");
    const bool upper = to == 'u' || (to != 'l' && begin);
    if (std::isalpha(static_cast<unsigned char>(c)) && upper == (c >= 'a')) c = static_cast<char>(c ^ 0x20);
    begin = to == 't' && std::string_view(" \t\n\r\f\v-([{<").find(c) != std::string_view::npos;
  }
  return text;
}
/// Less, by numbers or by texts.
inline bool less(const TemplateValue& a, const TemplateValue& b) {
  if (a && b && a->is_string() && b->is_string()) return string_of(a) < string_of(b);
  return number_of(a) < number_of(b);
}

/// Options of Python's `json.dumps`.
struct JsonStyle {
  bool ascii = false, sorted = false;
  Index indent = -1;  // -1: one line
  std::string between = ", ", after_key = ": ";
};
inline void add_json(std::string& all, const OrderedJson& json, const JsonStyle& style, Index depth = 1) {
  if (!json.is_structured() || json.empty()) {
    all += json.is_number() ? number_text(json) : json.dump(-1, ' ', style.ascii);
    return;
  }
  const auto line = [&](Index at) {
    if (style.indent >= 0) all += "\n" + std::string(static_cast<std::size_t>(style.indent * at), ' ');
  };
  std::vector<std::pair<std::string, const OrderedJson*>> parts;
  for (const auto& [key, part] : json.items()) parts.emplace_back(json.is_object() ? key : "", &part);
  if (style.sorted && json.is_object()) std::ranges::sort(parts);
  all += json.is_object() ? "{" : "[";
  for (const auto& [key, part] : parts) {
    if (&key != &parts.front().first) all += style.between;
    line(depth);
    if (json.is_object()) all += OrderedJson(key).dump(-1, ' ', style.ascii) + style.after_key;
    add_json(all, *part, style, depth + 1);
  }
  line(depth - 1);
  all += json.is_object() ? "}" : "]";
}

}  // namespace shardwise::llm::detail
