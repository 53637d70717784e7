// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The pieces of a Jinja template, and the values of its expressions, which are Python's.

#include <cmath>
#include <memory>

#include <shardwise/io/json.hpp>
#include <shardwise/text/utf8.hpp>

namespace shardwise::detail {

using OrderedJson = nlohmann::ordered_json;  // the members of an object keep their order
/// Null: undefined. A part shares what it is a part of.
using TemplateValue = std::shared_ptr<OrderedJson>;

inline TemplateValue value_of(OrderedJson json) { return std::make_shared<OrderedJson>(std::move(json)); }

[[noreturn]] inline void expected(const TemplateValue& value, const char* what) {
  fail<std::runtime_error>({"it is ", value ? excerpt(value->dump()) : "undefined", ", expected ", what});
}
inline const std::string& string_of(const TemplateValue& value) {
  if (!value || !value->is_string()) expected(value, "a text");
  return value->get_ref<const std::string&>();
}
/// Small enough for any sum or product of two.
inline Index integer_of(const TemplateValue& value) {
  if (value && value->is_boolean()) return value->get<bool>() ? 1 : 0;
  if (!value || !value->is_number_integer() || std::abs(value->get<double>()) > 0x1p31)
    expected(value, "an integer of 32 bits");
  return value->get<Index>();
}
inline bool truth(const TemplateValue& value) {
  if (!value || value->is_boolean()) return value && value->get<bool>();
  return value->is_number() ? *value != 0 : value->is_string() ? !string_of(value).empty() : !value->empty();
}
/// As it is printed.
inline std::string text_of(const TemplateValue& value) {
  if (!value || value->is_string()) return value ? string_of(value) : "";
  if (value->is_null()) return "None";
  if (value->is_boolean()) return truth(value) ? "True" : "False";
  if (!value->is_number_integer()) expected(value, "a text or an integer");
  return value->dump();
}
inline bool equal(const TemplateValue& a, const TemplateValue& b) {
  if (!a || !b || a->is_boolean() == b->is_boolean()) return a && b ? *a == *b : !a && !b;
  return (a->is_number() || b->is_number()) && integer_of(a) == integer_of(b);
}

inline std::vector<std::string_view> characters_of(std::string_view text) {
  std::vector<std::string_view> all;
  for (std::size_t i = 0; i < text.size(); i += all.back().size())
    all.push_back(text.substr(i, character_at(text, i).length));
  return all;
}
/// Without the white space, or the given characters, at its ends.
inline std::string_view stripped(std::string_view text, bool left, bool right, std::string_view given = {}) {
  const auto all = characters_of(text);
  const auto goes = [&](std::string_view c) {
    const char32_t value = character_at(c, 0).value;
    return given.empty() ? white_space(value) || (value >= 0x1c && value < 0x20)
                         : given.find(c) != given.npos;
  };
  const auto begin = left ? std::ranges::find_if_not(all, goes) : all.begin();
  auto end = all.end();
  while (right && end != begin && goes(end[-1])) --end;
  return begin == end ? std::string_view() : std::string_view(begin->data(), end[-1].data() + end[-1].size());
}

/// The elements of a list, or the characters of a text.
inline std::vector<TemplateValue> elements_of(const TemplateValue& value, bool may_be_text = false) {
  std::vector<TemplateValue> all;
  if (may_be_text && value && value->is_string()) {
    for (const std::string_view c : characters_of(string_of(value))) all.push_back(value_of(c));
  } else if (value) {
    if (!value->is_array()) expected(value, "a list");
    for (OrderedJson& element : *value) all.emplace_back(value, &element);
  }
  return all;
}
/// An element or a member, or the undefined.
inline TemplateValue part_of(const TemplateValue& value, const TemplateValue& key) {
  if (!value) fail<std::runtime_error>({"\"", text_of(key), "\" of what is undefined"});
  if (value->is_object()) {
    const auto found = value->find(string_of(key));
    return found == value->end() ? TemplateValue() : TemplateValue(value, &*found);
  }
  if (!key || key->is_string()) return {};
  const auto all = elements_of(value, true);
  const Index i = integer_of(key), at = i < 0 ? i + std::ssize(all) : i;
  return at < 0 || at >= std::ssize(all) ? TemplateValue() : all[static_cast<std::size_t>(at)];
}
/// Python's [first:last:step].
inline TemplateValue slice(const TemplateValue& value, const std::array<TemplateValue, 3>& bounds) {
  const auto all = elements_of(value, true);
  const Index size = std::ssize(all), step = bounds[2] ? integer_of(bounds[2]) : 1, low = step < 0 ? -1 : 0;
  if (step == 0) expected(bounds[2], "a step that is not 0");
  const auto place = [&](const TemplateValue& bound, Index otherwise) {
    const Index i = bound ? integer_of(bound) : otherwise;
    return bound ? std::clamp(i < 0 ? i + size : i, low, size + low) : i;
  };
  const Index begin = place(bounds[0], step < 0 ? size - 1 : 0), end = place(bounds[1], step < 0 ? -1 : size);
  OrderedJson part = value && value->is_string() ? OrderedJson("") : OrderedJson::array();
  for (Index i = begin; step < 0 ? i > end : i < end; i += step) {
    const OrderedJson& element = *all[static_cast<std::size_t>(i)];
    part.is_array() ? part.push_back(element) : void(part.get_ref<std::string&>() += element);
  }
  return value_of(std::move(part));
}

/// As Python's `json.dumps(json, ensure_ascii=False)` writes it, in one line if `indent` is 0.
inline std::string json_text(const OrderedJson& json, std::size_t indent, std::size_t depth = 1) {
  if (!json.is_structured() || json.empty()) return json.dump();
  const auto line = [&](std::size_t level) { return indent ? '\n' + std::string(indent * level, ' ') : ""; };
  std::string text;
  for (const auto& [key, member] : json.items()) {
    text += (text.empty() ? "" : indent ? "," : ", ") + line(depth);
    if (json.is_object()) text += OrderedJson(key).dump() + ": ";
    text += json_text(member, indent, depth + 1);
  }
  return (json.is_object() ? "{" : "[") + text + line(depth - 1) + (json.is_object() ? "}" : "]");
}

/// A text, and the inside of the tag that follows it; the last has none.
struct TemplatePiece {
  std::string text, tag;
  bool is_value = false;  ///< {{ … }}
  Index line = 1;         ///< of the tag
};

/// Blanks before a block at the beginning of a line, and the end of the line after it, are no text, unless its mark is +; nor is
/// white space on the side of a tag's dash.
inline std::vector<TemplatePiece> template_pieces(std::string_view rest) {
  std::vector<TemplatePiece> pieces(1);
  bool strip = false, line_begins = true;
  for (Index line_number = 1;;) {
    std::size_t tag = rest.find('{');
    while (tag != rest.npos && rest.find_first_of("{%#", tag + 1) != tag + 1) tag = rest.find('{', tag + 1);
    std::string_view before = rest.substr(0, tag);
    pieces.back().line = line_number += std::ranges::count(before, '\n');
    before = stripped(before, strip, false);
    if (tag == rest.npos) {
      pieces.back().text += before;
      return pieces;
    }
    const char kind = rest[tag + 1];
    const std::string end = kind == '{' ? "}}" : kind == '%' ? "%}" : "#}";
    std::size_t close = tag + 2;
    for (char quote = '\0'; close < rest.size() && (quote || !rest.substr(close).starts_with(end)); ++close) {
      const char c = rest[close];
      if (quote && c == '\\') ++close;
      if (kind != '#' && (c == quote || (!quote && (c == '"' || c == '\'')))) quote = quote ? '\0' : c;
    }
    if (close >= rest.size()) {
      fail<std::runtime_error>(
          {"line ", line_number, ": \"", excerpt(std::string(rest.substr(tag))), "\" has no ", end});
    }
    std::string_view inside = rest.substr(tag + 2, close - tag - 2);
    rest.remove_prefix(close + 2);
    line_number += std::ranges::count(inside, '\n');
    const char first = inside.empty() ? ' ' : inside.front(), last = inside.empty() ? ' ' : inside.back();
    if (first == '-') {
      before = stripped(before, false, true);
    } else if (kind != '{' && first != '+') {
      const std::size_t line = before.find_last_not_of(" \t") + 1;
      if (line == 0 ? line_begins : before[line - 1] == '\n') before = before.substr(0, line);
    }
    if (first == '-' || first == '+') inside.remove_prefix(1);
    strip = last == '-';
    const bool marked = strip || (last == '+' && kind != '{');
    if (marked && !inside.empty()) inside.remove_suffix(1);
    line_begins = kind != '{' && !marked && rest.starts_with('\n');
    if (line_begins) rest.remove_prefix(1), ++line_number;
    pieces.back().text += before;
    if (kind == '#') continue;
    pieces.back().tag = stripped(inside, true, true);
    pieces.back().is_value = kind == '{';
    pieces.emplace_back();
  }
}

}  // namespace shardwise::detail
