// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// A layout: one placement per mesh axis, left to right. When two axes shard one dimension, the left one is
/// the outer one: it cuts the dimension first, and the right one cuts each of its blocks again.

#include <initializer_list>
#include <string>

#include <shardwise/base/index.hpp>
#include <shardwise/layout/placement.hpp>

namespace shardwise {

/// A mesh has at most this many axes.
inline constexpr int max_axes = 6;

/// A set of mesh axes: bit `a` stands for axis `a`.
using AxisSet = unsigned;

/// Ranks per axis, or one rank's coordinates; entries beyond the mesh's axes are unused.
using MeshSizes = Array<int, max_axes>;
inline constexpr MeshSizes one_rank{1, 1, 1, 1, 1, 1};

/// The axes among the first `axes` that satisfy `condition(axis)`.
template <class F>
constexpr AxisSet axes_where(int axes, F condition) {
  AxisSet set = 0;
  for (int axis = 0; axis < axes; ++axis) {
    if (condition(axis)) set |= 1u << axis;
  }
  return set;
}

/// A placement for each mesh axis, from the left.
struct Layout {
  int axes = 0;
  Array<Placement, max_axes> placements{};

  constexpr Layout() = default;
  /// One placement per axis, in the order of the mesh.
  constexpr Layout(std::initializer_list<Placement> list) {
    for (Placement p : list) placements[axes++] = p;
  }
  template <class F>
  static constexpr Layout by_axis(int axes, F placement) {
    Layout layout;
    layout.axes = axes;
    for (int axis = 0; axis < axes; ++axis) layout[axis] = placement(axis);
    return layout;
  }

  constexpr Placement operator[](int axis) const { return placements.values[axis]; }
  constexpr Placement& operator[](int axis) { return placements.values[axis]; }

  /// The axes for whose placement `condition` is true.
  template <class F>
  constexpr AxisSet axes_where(F condition) const {
    return shardwise::axes_where(axes, [&](int axis) { return condition((*this)[axis]); });
  }
  constexpr AxisSet axes_sharding(int dim) const {
    return axes_where([dim](Placement p) { return p.is_shard(dim); });
  }

  friend constexpr bool operator==(const Layout& a, const Layout& b) {
    if (a.axes != b.axes) return false;
    const Placement *of_a = a.placements.values, *of_b = b.placements.values;
    for (int axis = 0; axis < a.axes; ++axis) {
      if (of_a[axis].code != of_b[axis].code) return false;
    }
    return true;
  }
};

/// A layout from types: `layout_of<Shard<0>, Replicate>`.
template <class... Placements>
inline constexpr Layout layout_of{placement_of<Placements>...};

/// The same placement on all axes.
constexpr Layout everywhere(int axes, Placement p) {
  return Layout::by_axis(axes, [p](int) { return p; });
}

/// A layout as a template argument, because g++ 12 does not accept class types there: eight bits per axis.
using PackedLayout = std::uint64_t;
constexpr PackedLayout packed(const Layout& layout) {
  PackedLayout bits = 0;
  for (int axis = 0; axis < layout.axes; ++axis) {
    bits |= PackedLayout{static_cast<std::uint8_t>(layout.placements.values[axis].code)} << 8 * axis;
  }
  return bits;
}
constexpr Placement unpacked(PackedLayout bits, int axis) {
  return {static_cast<std::int8_t>(bits >> 8 * axis & 0xff)};
}

/// The layout of a gradient: the cotangent of each placement.
constexpr Layout cotangent(Layout layout) {
  for (int axis = 0; axis < layout.axes; ++axis) layout[axis] = cotangent(layout[axis]);
  return layout;
}

/// True where a gradient is defined.
constexpr bool has_cotangent(const Layout& layout) {
  return layout.axes_where([](Placement p) { return !has_cotangent(p); }) == 0;
}

/// Same bytes on every rank: `Replicate` and `Reduced` compare equal.
constexpr bool same_data(const Layout& a, const Layout& b) {
  return a.axes == b.axes && axes_where(a.axes, [&](int i) { return !same_data(a[i], b[i]); }) == 0;
}

/// `layout`, with `Shard` on the axes where `other` is sharded.
constexpr Layout cut_like(Layout layout, const Layout& other) {
  for (int axis = 0; axis < layout.axes; ++axis) {
    const Placement like = other.placements.values[axis];
    if (like.is_shard()) layout.placements.values[axis] = like;
  }
  return layout;
}

/// The first axis that shards a dimension beyond `rank`, or -1.
constexpr int axis_without_dimension(const Layout& layout, int rank) {
  for (int axis = 0; axis < layout.axes; ++axis) {
    if (layout[axis].is_shard() && layout[axis].dim() >= rank) return axis;
  }
  return -1;
}

/// Every sharded dimension exists in a tensor of this rank, and pending reductions are of one kind: a sum of
/// maxima is not a maximum of sums.
constexpr bool well_formed(const Layout& layout, int rank) {
  Placement pending = replicate;
  for (int axis = 0; axis < layout.axes; ++axis) {
    Placement p = layout[axis];
    if (p.is_shard() && p.dim() >= rank) return false;
    if (p.is_partial() && pending.is_partial() && p != pending) return false;
    if (p.is_partial()) pending = p;
  }
  return true;
}

/// `layout`, with another placement instead of each pending one.
constexpr Layout without_pending(Layout layout, Placement instead) {
  for (int axis = 0; axis < layout.axes; ++axis) {
    if (layout[axis].is_partial()) layout[axis] = instead;
  }
  return layout;
}

/// Whether the value is a pending reduction along any axis.
constexpr bool has_partial(const Layout& layout) {
  return layout.axes_where([](Placement p) { return p.is_partial(); }) != 0;
}
/// A pending maximum or minimum arises only from a reduction over a sharded dimension.
constexpr bool has_partial_extremum(const Layout& layout) {
  return layout.axes_where([](Placement p) { return p.is_partial() && p != partial_sum; }) != 0;
}

/// Whether the rank at `coordinates` contributes zeros to a pending sum whose whole value is on the first rank of
/// each axis.
constexpr bool adds_zeros(const Layout& layout, const MeshSizes& coordinates) {
  return axes_where(layout.axes,
                    [&](int axis) { return layout[axis].is_partial() && coordinates[axis] != 0; }) != 0;
}

/// Number of ranks in the group that varies along the axes of `set`.
constexpr int group_size(const MeshSizes& sizes, int axes, AxisSet set) {
  int size = 1;
  for (int axis = 0; axis < axes; ++axis) {
    if (set >> axis & 1u) size *= sizes[axis];
  }
  return size;
}

/// This rank's position within that group: the left axis varies slowest.
constexpr int group_rank(const MeshSizes& sizes, const MeshSizes& coordinates, int axes, AxisSet set) {
  int rank = 0;
  for (int axis = 0; axis < axes; ++axis) {
    if (set >> axis & 1u) rank = rank * sizes[axis] + coordinates[axis];
  }
  return rank;
}

/// The coordinates of member `index` of the group; on the other axes as in `coordinates`.
constexpr MeshSizes group_member(const MeshSizes& sizes, MeshSizes coordinates, int axes, AxisSet set,
                                 int index) {
  for (int axis = axes - 1; axis >= 0; --axis) {
    if (!(set >> axis & 1u) || sizes[axis] == 1) continue;  // saves slow divisions
    coordinates[axis] = index % sizes[axis];
    index /= sizes[axis];
  }
  return coordinates;
}

namespace detail {

inline std::string text_of(Placement p) {
  if (p.is_shard()) return "Shard<" + std::to_string(p.dim()) + ">";
  if (p.is_full()) return p == reduced ? "Reduced" : "Replicate";
  return p == partial_sum ? "Partial<Sum>" : p == partial_max ? "Partial<Max>" : "Partial<Min>";
}

/// "Shard<0>, Replicate"
inline std::string text_of(const Layout& layout) {
  std::string text;
  for (int axis = 0; axis < layout.axes; ++axis) text += (axis > 0 ? ", " : "") + text_of(layout[axis]);
  return text;
}

}  // namespace detail

}  // namespace shardwise
