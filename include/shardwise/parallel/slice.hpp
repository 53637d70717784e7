// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Slices of a list in the names of a plan, as in Python: "layers.[:4].mlp.up" names the layer `up` in the first four
/// elements of `layers`, "layers.[-4:].mlp.up" in the last four, "layers.[2:-4].mlp.up" in those between.
///
/// A bound is a number, which counts from the end if it is negative; or `n` or `-n`, a number that is known when the
/// model is constructed: "layers.[:n]" are the first n, "layers.[-n:]" the last.

#include <string_view>
#include <vector>

namespace shardwise::detail {

/// The elements from bound `first` to before bound `last`. Bounds are in the order that they have in a long list:
/// numbers from the front, n, -n, numbers from the end.
struct Slice {
  static constexpr int n = 1 << 20, end = 1 << 24;
  int first = 0, last = 0;

  /// Whether this is a slice.
  constexpr bool given() const { return first < last; }
  constexpr bool has(int bound) const { return first <= bound && bound < last; }
  constexpr bool has_n() const { return first == n || last == n || first == end - n || last == end - n; }
};

/// A bound that is written as `text`, or `otherwise` if that is empty; -1 for other texts.
constexpr int bound_of(std::string_view text, int otherwise) {
  if (text.empty()) return otherwise;
  const bool from_end = text.front() == '-';
  text.remove_prefix(from_end ? 1 : 0);
  int number = text.empty() ? -1 : 0;
  if (text == "n") {
    number = Slice::n;
  } else {
    for (const char digit : text) {
      if (digit < '0' || digit > '9' || number > (1 << 16)) return -1;
      number = 10 * number + (digit - '0');
    }
  }
  return from_end && number >= 0 ? Slice::end - number : number;
}

/// The part of a name up to its slice: "layers.[:4]" of "layers.[:4].mlp.up"; empty without one.
constexpr std::string_view up_to_slice(std::string_view name) { return name.substr(0, name.find(']') + 1); }

/// The slice in a name; none if it is not there, is not one, or has no elements.
constexpr Slice slice_in(std::string_view name) {
  const std::size_t open = name.find('['), colon = name.find(':'), close = name.find(']');
  if (open == name.npos || colon == name.npos || close == name.npos || open > colon || colon > close)
    return {};
  const Slice slice{bound_of(name.substr(open + 1, colon - open - 1), 0),
                    bound_of(name.substr(colon + 1, close - colon - 1), Slice::end)};
  return slice.first >= 0 && slice.given() ? slice : Slice{};
}

struct NamedSlice {
  std::string_view name;
  Slice slice;
};

/// Where slices of a list begin and end, in their order: from 0 to `Slice::end`.
constexpr std::vector<int> bounds_of(const std::vector<NamedSlice>& slices) {
  std::vector<int> all{0};
  while (all.back() < Slice::end) {  // std::sort takes longer to compile
    int next = Slice::end;
    for (const NamedSlice& each : slices) {
      for (const int bound : {each.slice.first, each.slice.last}) {
        if (bound > all.back() && bound < next) next = bound;
      }
    }
    all.push_back(next);
  }
  return all;
}

}  // namespace shardwise::detail
