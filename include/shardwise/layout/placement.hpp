// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Placements: which part of a tensor each rank along one mesh axis holds.
///
/// | placement     | each rank along the axis holds                         | its gradient's placement |
/// |---------------|--------------------------------------------------------|--------------------------|
/// | `Shard<d>`    | a block of dimension `d`                               | `Shard<d>`               |
/// | `Replicate`   | a full copy; every rank does the same work with it     | `Replicate`              |
/// | `Reduced`     | a full copy; each rank does different work with it     | `Partial<Sum>`           |
/// | `Partial<Op>` | a term; the value is the `Op` of all the terms         | `Reduced` (for `Sum`)    |
///
/// `Replicate` and `Reduced` are the same bytes; they differ in what the backward pass does. The same map is
/// JAX's replicated / reduced / unreduced ("Autodiff and sharding").
///
/// Users write the types; all reasoning is done by constexpr functions over the value `Placement`, a small
/// integer, so one implementation serves the type system, the dry run and the real run.

#include <cstdint>
#include <tuple>

namespace shardwise {

struct Sum {};
struct Max {};
struct Min {};

template <int Dim>
struct Shard {};
struct Replicate {};
struct Reduced {};
template <class Op = Sum>
struct Partial {};

/// The reduction of a pending value.
enum class ReduceOp : std::uint8_t { sum, max, min };

/// A placement as a value. `code >= 0` is `Shard<code>`.
struct Placement {
  int code = -1;

  /// Its kind; with `dim`, whether it shards that dimension.
  constexpr bool is_shard() const { return code >= 0; }
  constexpr bool is_shard(int dim) const { return code == dim; }
  constexpr bool is_partial() const { return code <= -3; }
  /// `Replicate` or `Reduced`: a full copy on every rank.
  constexpr bool is_full() const { return code == -1 || code == -2; }
  constexpr int dim() const { return code; }
  constexpr ReduceOp op() const { return static_cast<ReduceOp>(-3 - code); }

  friend constexpr bool operator==(Placement, Placement) = default;
};

/// Negative dimensions are encoded as large ones, which no tensor has.
constexpr Placement shard(int dim) { return {dim >= 0 ? dim : 128 + (dim < -8 ? -8 : dim)}; }
inline constexpr Placement replicate{-1};
inline constexpr Placement reduced{-2};
inline constexpr Placement partial_sum{-3};
inline constexpr Placement partial_max{-4};
inline constexpr Placement partial_min{-5};
constexpr Placement partial(ReduceOp op) { return {-3 - static_cast<int>(op)}; }

/// Same bytes on every rank; the backward pass may differ.
constexpr bool same_data(Placement a, Placement b) { return a == b || (a.is_full() && b.is_full()); }

/// True where a gradient is defined: not for a pending maximum or minimum.
constexpr bool has_cotangent(Placement p) { return !p.is_partial() || p == partial_sum; }

/// The placement of the gradient of a tensor with placement `p`.
constexpr Placement cotangent(Placement p) {
  return p == reduced ? partial_sum : p == partial_sum ? reduced : p;
}

namespace detail {  // the two directions between placement types and values

template <int Dim>
constexpr Placement value_of(Shard<Dim>) {
  return shard(Dim);
}
constexpr Placement value_of(Replicate) { return replicate; }
constexpr Placement value_of(Reduced) { return reduced; }
constexpr Placement value_of(Partial<Sum>) { return partial_sum; }
constexpr Placement value_of(Partial<Max>) { return partial_max; }
constexpr Placement value_of(Partial<Min>) { return partial_min; }

using NotSharded = std::tuple<Replicate, Reduced, Partial<Sum>, Partial<Max>, Partial<Min>>;  // -1, -2, …

template <int Code>
constexpr auto type_of() {
  if constexpr (Code >= 0) {
    return Shard<(Code < 120 ? Code : Code - 128)>{};
  } else {
    return std::tuple_element_t<-1 - Code, NotSharded>{};
  }
}

}  // namespace detail

/// The value of a placement type: `placement_of<Shard<1>>.code == 1`.
template <class P>
inline constexpr Placement placement_of = detail::value_of(P{});

/// The type of a placement value, by its code (a plain integer: g++ 12 crashes on class-type arguments).
template <int Code>
using placement_type = decltype(detail::type_of<Code>());

/// A placement as a type: `Shard<1>`, `Replicate`, `Reduced`, `Partial<Sum>`.
template <class P>
concept PlacementTag = requires {
  detail::value_of(P{});
};

}  // namespace shardwise
