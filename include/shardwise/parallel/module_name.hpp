// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The names of modules in plans: "layers.*.attention.wq", where `*` stands for any one part between dots; "layers.*.mlp.*p",
/// where it stands for any letters of one.

#include <algorithm>
#include <array>
#include <string_view>

#include <shardwise/parallel/style.hpp>

namespace shardwise {

/// The name of a module for plans, with dots between its parts and `*` for the elements of a list.
struct ModuleName {
  std::string_view name;
  ModuleKind kind;
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

/// Does the name of an entry stand for this module?
constexpr bool names_module(std::string_view entry, std::string_view module) {
  while (true) {
    const auto a = end_of_part(entry), b = end_of_part(module);
    if (!matches(entry.substr(0, a), module.substr(0, b))) return false;
    const bool last = a == entry.size();
    if (last != (b == module.size())) return false;
    if (last) return true;
    entry.remove_prefix(a + 1);
    module.remove_prefix(b + 1);
  }
}

}  // namespace detail

}  // namespace shardwise
