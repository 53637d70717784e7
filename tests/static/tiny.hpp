// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Tiny integer tensors, and numbers that carry a derivative: enough to run an operation and to differentiate
/// it inside the compiler. No operation needs its pullback written: that is the transposed derivative.

#include <cstdint>

#include "shardwise/base/index.hpp"
#include "shardwise/layout/signature.hpp"

namespace shardwise::testing {

using Integer = std::int64_t;

/// A number and its derivative with respect to one chosen element.
struct Dual {
  Integer value = 0;
  Integer slope = 0;

  constexpr Dual() = default;
  constexpr Dual(Integer v, Integer s = 0) : value(v), slope(s) {}

  friend constexpr Dual operator+(Dual a, Dual b) { return {a.value + b.value, a.slope + b.slope}; }
  friend constexpr Dual operator*(Dual a, Dual b) {
    return {a.value * b.value, a.slope * b.value + a.value * b.slope};
  }
  constexpr Dual& operator+=(Dual other) { return *this = *this + other; }
  friend constexpr bool operator>(Dual a, Dual b) { return a.value > b.value; }
};

constexpr Integer number(Integer x) { return x; }
constexpr Integer number(Dual x) { return x.value; }

inline constexpr int max_tiny_rank = 4;
inline constexpr std::size_t max_tiny_elements = 32;

/// A tensor, or a rank's block of one: `begin` says where the block starts in the whole.
template <class T>
struct Tiny {
  int rank = 0;
  Shape<max_tiny_rank> extents{};
  Shape<max_tiny_rank> begin{};
  std::array<T, max_tiny_elements> data{};

  constexpr Index size(int dim) const { return extents[static_cast<std::size_t>(dim)]; }
  constexpr Index elements() const {
    Index count = 1;
    for (int dim = 0; dim < rank; ++dim) count *= size(dim);
    return count;
  }
  /// The element at these indices, one for each dimension.
  constexpr T& operator()(auto... indices) { return data[offset({static_cast<Index>(indices)...})]; }
  constexpr const T& operator()(auto... indices) const {
    return data[offset({static_cast<Index>(indices)...})];
  }

  constexpr T& operator[](Index element) { return data[static_cast<std::size_t>(element)]; }
  constexpr const T& operator[](Index element) const { return data[static_cast<std::size_t>(element)]; }

 private:
  constexpr std::size_t offset(Shape<max_tiny_rank> indices) const {
    Index flat = 0;
    for (int dim = 0; dim < rank; ++dim) flat = flat * size(dim) + indices[static_cast<std::size_t>(dim)];
    return static_cast<std::size_t>(flat);
  }
};

/// The operands of an operation.
template <class T>
using Inputs = std::array<Tiny<T>, max_operands>;

constexpr Inputs<Dual> with_slopes(const Inputs<Integer>& inputs, int count) {
  Inputs<Dual> duals;
  for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i) {
    duals[i].rank = inputs[i].rank;
    duals[i].extents = inputs[i].extents;
    duals[i].begin = inputs[i].begin;
    for (Index e = 0; e < inputs[i].elements(); ++e) duals[i][e] = inputs[i][e];
  }
  return duals;
}

}  // namespace shardwise::testing
