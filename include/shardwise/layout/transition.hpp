// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// One step from one layout to another: which single collective, over which axes, or none.
///
/// | from \ to              | `Shard<b>`                   | `Replicate`, `Reduced` | `Partial<Sum>`                  |
/// |------------------------|------------------------------|------------------------|---------------------------------|
/// | `Shard<a>`             | a = b: none; else all-to-all | all-gather             | local: zeros outside own block  |
/// | `Replicate`, `Reduced` | local slice                  | none                   | local: keep on one rank         |
/// | `Partial<Sum>`         | reduce-scatter               | all-reduce             | none                            |
/// | `Partial<Max/Min>`     | reduce-scatter               | all-reduce             | not defined                     |
///
/// Several axes can change in one step, depending on the list of axes that shard each dimension, outermost first.
/// Remove the axes whose blocks travel: they must be the inner end of their lists, and the rest must be the outer
/// end of the target lists. Then the group over the travelling axes holds exactly the data that its members want,
/// in disjoint pieces.

#include <shardwise/layout/layout.hpp>

namespace shardwise {

/// The kinds of communication: collectives, and messages between two ranks, which routes do not use.
enum class Collective : std::uint8_t { none, all_reduce, all_gather, reduce_scatter, all_to_all, send };
inline constexpr int collective_kinds = 6;

/// For example "all_gather".
constexpr const char* name_of(Collective kind) {
  constexpr const char* names[] = {"none",           "all_reduce", "all_gather",
                                   "reduce_scatter", "all_to_all", "send"};
  return names[static_cast<int>(kind)];
}

/// One collective (or local step) that leads to layout `to`. `possible` is false where no single step does.
struct Step {
  bool possible = false;
  Collective kind = Collective::none;
  AxisSet axes = 0;
  Layout to{};
};

/// Whether a placement can become another one: not a pending maximum or minimum.
constexpr bool convertible(Placement from, Placement to) {
  return !to.is_partial() || from == to || (to == partial_sum && !from.is_partial());
}

namespace detail {

/// The axes of more than one rank on which two layouts differ.
constexpr AxisSet changed_axes(const Layout& from, const Layout& to, const MeshSizes& sizes) {
  AxisSet changed = 0;
  const Placement *before = from.placements.values, *after = to.placements.values;
  for (int axis = 0; axis < from.axes; ++axis) {
    if (before[axis].code != after[axis].code && sizes.values[axis] > 1) changed |= 1u << axis;
  }
  return changed;
}

/// Whether the axes of `moving` end their lists in `from`, and the rest begin the lists of `to`.
constexpr bool keeps_outer_blocks(const Layout& from, const Layout& to, AxisSet moving, AxisSet active) {
  for (int axis = 0; axis < from.axes; ++axis) {
    if (!(active >> axis & 1u) || !from[axis].is_shard()) continue;
    int dim = from[axis].dim();
    bool moves = moving >> axis & 1u;
    if (!moves && !to[axis].is_shard(dim)) return false;
    for (int outer = 0; outer < axis; ++outer) {
      if (!(active >> outer & 1u)) continue;
      bool outer_keeps = from[outer].is_shard(dim) && !(moving >> outer & 1u);
      if (moves || outer_keeps) continue;
      if (from[outer].is_shard(dim) || to[outer].is_shard(dim)) return false;
    }
  }
  return true;
}

/// The fewest axes whose blocks must travel: for each dimension, all axes from the first difference inwards.
constexpr AxisSet travelling_axes(const Layout& from, const Layout& to, AxisSet active) {
  return active & axes_where(from.axes, [&](int axis) {
           if (!from[axis].is_shard()) return false;
           const int dim = from[axis].dim();
           const AxisSet outer = active & ((1u << axis) - 1);
           return !to[axis].is_shard(dim) || ((from.axes_sharding(dim) ^ to.axes_sharding(dim)) & outer) != 0;
         });
}

}  // namespace detail

/// The single step from `from` to `to`, if there is one. An axis of one rank never communicates.
constexpr Step single_step(const Layout& from, const Layout& to, const MeshSizes& sizes) {
  AxisSet active = 0, reduced_to_full = 0, reduced_to_shard = 0, became_partial = 0, blocks_to_partial = 0,
          changed = 0, gathered = 0;
  for (int axis = 0; axis < from.axes; ++axis) {
    if (!convertible(from[axis], to[axis])) return {};
    if (sizes[axis] == 1) continue;
    AxisSet bit = 1u << axis;
    active |= bit;
    if (same_data(from[axis], to[axis])) continue;
    changed |= bit;
    if (from[axis].is_partial()) (to[axis].is_shard() ? reduced_to_shard : reduced_to_full) |= bit;
    if (to[axis].is_partial()) became_partial |= bit;
    if (to[axis].is_partial() && from[axis].is_shard()) blocks_to_partial |= bit;
    if (to[axis].is_full() && from[axis].is_shard()) gathered |= bit;
  }
  auto step = [&](bool possible, Collective kind, AxisSet axes) { return Step{possible, kind, axes, to}; };
  if (changed == 0) return step(true, Collective::none, 0);
  if (changed == reduced_to_full) return step(true, Collective::all_reduce, changed);
  if (changed == reduced_to_shard) {
    return step(detail::keeps_outer_blocks(from, to, 0, active), Collective::reduce_scatter, changed);
  }
  if ((reduced_to_full | reduced_to_shard) != 0) return {};
  if (became_partial != 0) {
    return step(detail::keeps_outer_blocks(from, to, blocks_to_partial, active), Collective::none, 0);
  }
  AxisSet moving = detail::travelling_axes(from, to, active);
  if (moving == 0) return step(true, Collective::none, 0);
  bool gather = moving == gathered && moving == changed;
  return step(true, gather ? Collective::all_gather : Collective::all_to_all, moving);
}

}  // namespace shardwise
