// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Names: text as a template argument, `Use<"layers.*.attention.wq", …>`; text as a type that compilers print,
/// `Name<…>`; and the edit distance of two names.

#include <algorithm>
#include <cstddef>
#include <string_view>
#include <utility>

namespace shardwise {

/// `Size` counts the final zero of the literal.
template <std::size_t Size>
struct FixedString {
  char text[Size]{};

  constexpr FixedString() = default;
  /// From a literal, as a template argument is written.
  constexpr FixedString(const char (&literal)[Size]) { std::copy_n(literal, Size, text); }
  constexpr std::string_view view() const { return {text, Size - 1}; }
};

namespace detail {

/// "a" and "b" as "a.b".
template <std::size_t A, std::size_t B>
constexpr FixedString<A + B> dotted(const FixedString<A>& a, const FixedString<B>& b) {
  FixedString<A + B> both;
  std::copy_n(a.text, A - 1, both.text);
  both.text[A - 1] = '.';
  std::copy_n(b.text, B, both.text + A);
  return both;
}

/// The number of letters to insert, delete or replace to get from `a` to `b` (Levenshtein, 1966).
constexpr std::size_t edit_distance(std::string_view a, std::string_view b) {
  constexpr std::size_t longest = 128;
  if (b.size() >= longest) return a.size() + b.size();
  std::size_t row[longest] = {};
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t above = row[j];
      row[j] = std::min(std::min(above, row[j - 1]) + 1, diagonal + (a[i - 1] == b[j - 1] ? 0 : 1));
      diagonal = above;
    }
  }
  return row[b.size()];
}

}  // namespace detail

#ifdef __clang__  // clang prints only the first ten characters, as numbers
template <char... Characters>
struct Name {};
#else
template <FixedString Text>
struct Name {};
#endif

namespace detail {

template <class Text, std::size_t... I>
constexpr auto named(std::index_sequence<I...>) {
#ifdef __clang__
  return Name<Text::value[I]...>{};
#else
  constexpr char characters[]{Text::value[I]..., '\0'};
  return Name<FixedString(characters)>{};
#endif
}

}  // namespace detail

/// The name whose characters are `Text::value`, a `std::string_view`.
template <class Text>
using name_type = decltype(detail::named<Text>(std::make_index_sequence<Text::value.size()>()));

}  // namespace shardwise
