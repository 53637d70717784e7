// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The names of modules in plans: "layers.*.attention.wq", where `*` stands for any one part between dots.

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

/// Does the name of an entry stand for this module?
constexpr bool names_module(std::string_view entry, std::string_view module) {
  while (true) {
    const auto a = end_of_part(entry), b = end_of_part(module);
    if (entry.substr(0, a) != "*" && entry.substr(0, a) != module.substr(0, b)) return false;
    const bool last = a == entry.size();
    if (last != (b == module.size())) return false;
    if (last) return true;
    entry.remove_prefix(a + 1);
    module.remove_prefix(b + 1);
  }
}

/// The number of letters to insert, delete or replace to get from `a` to `b` (Levenshtein, 1966).
constexpr std::size_t edit_distance(std::string_view a, std::string_view b) {
  constexpr std::size_t longest = 128;
  if (b.size() >= longest) return a.size() + b.size();
  std::array<std::size_t, longest> row{};
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t above = row[j];
      row[j] = std::min({above + 1, row[j - 1] + 1, diagonal + (a[i - 1] == b[j - 1] ? 0 : 1)});
      diagonal = above;
    }
  }
  return row[b.size()];
}

}  // namespace detail

}  // namespace shardwise
