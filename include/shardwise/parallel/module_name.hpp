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

/// Is a part of a name the number of an element?
constexpr bool is_number(std::string_view part) {
  if (part.empty() || part.size() > 9 || (part.front() == '0' && part.size() > 1)) return false;
  return std::all_of(part.begin(), part.end(), [](char c) { return c >= '0' && c <= '9'; });
}

/// Does the name of an entry stand for this module? A `*` stands for any letters of one part. `numbered`: also if it is for one
/// element of a list, `*` in the module's name.
constexpr bool names_module(std::string_view entry, std::string_view module, bool numbered = false) {
  const char *const entries = entry.data(), *const letters =
                                                module.data();  // g++ takes far less time for these
  const std::size_t size = module.size(), none = entry.size();
  std::size_t e = 0, m = 0;
  std::size_t star = none, rest = 0;  // the last `*` of this part, and where what follows it may begin
  while (m < size || e < none) {
    const char wanted = e < none ? entries[e] : '\0', letter = m < size ? letters[m] : '\0';
    if (numbered && letter == '*' && wanted >= '0' && wanted <= '9') {
      const std::string_view number = entry.substr(e, end_of_part(entry.substr(e)));
      if (is_number(number) && (e == 0 || entries[e - 1] == '.') && end_of_part(module.substr(m)) == 1) {
        e += number.size(), m += 1;
        continue;
      }
    }
    if (wanted == '*') {
      star = e++, rest = m;
    } else if (wanted == letter) {
      if (letter == '.') star = none;
      ++e, ++m;
    } else if (star < none && rest < size && letters[rest] != '.') {
      e = star + 1, m = ++rest;
    } else {
      return false;
    }
  }
  return true;
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
