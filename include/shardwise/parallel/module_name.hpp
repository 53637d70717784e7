// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The names of modules in plans. In "layers.*.attention.wq", `*` matches one part between dots; in
/// "layers.*.mlp.*p", the last `*` matches any characters within a part.

#include <shardwise/parallel/style.hpp>

namespace shardwise {

/// The name of a module for plans, with dots between its parts and `*` for the elements of a list.
struct ModuleName {
  std::string_view name;
  ModuleKind kind;
};

namespace detail {

/// Whether an entry's name matches this module. A `*` matches any characters within one part.
constexpr bool names_module(std::string_view entry, std::string_view module) {
  const char *const entries = entry.data(), *const letters = module.data();  // g++ compiles these much faster
  const std::size_t size = module.size(), none = entry.size();
  std::size_t e = 0, m = 0;
  std::size_t star = none, rest = 0;  // the last `*` of this part, and where the text after it may begin
  while (m < size || e < none) {
    const char wanted = e < none ? entries[e] : '\0', letter = m < size ? letters[m] : '\0';
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

}  // namespace detail

}  // namespace shardwise
