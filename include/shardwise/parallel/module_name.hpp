// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The names of modules in plans: "layers.*.attention.wq", where `*` stands for any one part between dots; "layers.*.mlp.*p",
/// where it stands for any letters of one; "layers.3.mlp.up", one element of a list whose elements may differ.

#include <shardwise/parallel/style.hpp>

namespace shardwise {

/// The name of a module for plans, with dots between its parts and `*` for the elements of a list.
struct ModuleName {
  std::string_view name;
  ModuleKind kind;
  bool by_number = false;  ///< an element of a list that a plan may name by its number: see `ByNumber`
};

namespace detail {

/// Where the first part of a name ends. (Under -fsanitize=undefined, g++ 12 does not take
/// `string_view::find` for constant.)
constexpr std::size_t end_of_part(std::string_view name) {
  std::size_t end = 0;
  while (end < name.size() && name[end] != '.') ++end;
  return end;
}

/// Does a part of an entry's name, with any number of `*`, stand for a part of a module's?
constexpr bool matches(std::string_view pattern, std::string_view part) {
  if (pattern.empty()) return part.empty();
  const bool same = !part.empty() && pattern.front() == part.front();
  if (pattern.front() != '*') return same && matches(pattern.substr(1), part.substr(1));
  return matches(pattern.substr(1), part) || (!part.empty() && matches(pattern, part.substr(1)));
}

/// Is a part of a name the number of an element?
constexpr bool is_number(std::string_view part) {
  if (part.empty() || part.size() > 9 || (part.front() == '0' && part.size() > 1)) return false;
  return std::all_of(part.begin(), part.end(), [](char c) { return c >= '0' && c <= '9'; });
}

/// Does the name of an entry stand for this module? `numbered`: also if it is for one element of a list, `*` in the module's.
constexpr bool names_module(std::string_view entry, std::string_view module, bool numbered = false) {
  while (true) {
    const auto a = end_of_part(entry), b = end_of_part(module);
    const bool one = numbered && module.substr(0, b) == "*" && is_number(entry.substr(0, a));
    if (!one && !matches(entry.substr(0, a), module.substr(0, b))) return false;
    const bool last = a == entry.size();
    if (last != (b == module.size())) return false;
    if (last) return true;
    entry.remove_prefix(a + 1);
    module.remove_prefix(b + 1);
  }
}

/// The element that an entry names by its number: of "layers.3.mlp.up", the list "layers" and 3. No list: it names none.
struct NumberedElement {
  std::string_view list, name;  ///< "layers", "layers.3"
  std::size_t number = 0;
};
constexpr NumberedElement numbered_element(std::string_view entry) {
  for (std::size_t begin = 0, size = 0; begin < entry.size(); begin += size + 1) {
    size = end_of_part(entry.substr(begin));
    const std::string_view part = entry.substr(begin, size);
    if (begin == 0 || !is_number(part)) continue;
    std::size_t number = 0;
    for (const char digit : part) number = 10 * number + static_cast<std::size_t>(digit - '0');
    return {entry.substr(0, begin - 1), entry.substr(0, begin + size), number};
  }
  return {};
}

}  // namespace detail

}  // namespace shardwise
