// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// How a parameter is sharded along data axes, whose ranks use it on different samples (Rajbhandari et al., "ZeRO",
/// 2020): a dimension, and a level for each axis of the mesh.
///
/// | level | stored       | used      | accumulated gradient | finished gradient, optimizer state |
/// |-------|--------------|-----------|----------------------|------------------------------------|
/// | 0     | as used      | `Reduced` | `Partial`            | `Replicate`                        |
/// | 1     | as used      | `Reduced` | `Partial`            | `Shard<dim>`                       |
/// | 2     | as used      | `Reduced` | `Shard<dim>`         | `Shard<dim>`                       |
/// | 3     | `Shard<dim>` | `Reduced` | `Shard<dim>`         | `Shard<dim>`                       |
///
/// Gradients accumulate between backward passes; after the last pass they are finished. A frozen parameter has no
/// gradient and no state, so only level 3 affects it.

#include <shardwise/layout/layout.hpp>

namespace shardwise {

struct Sharding {
  int dim = -1;                   ///< the sharded dimension; -1: none
  Array<int, max_axes> levels{};  ///< 0 to 3, one per axis
  bool frozen = false;
  bool counted = false;  ///< its gradient counts choices: see `Optimizer::set_bias_rate`

  /// If several axes shard one dimension, each axis divides the blocks of those to its left. So the axes to its
  /// left must shard at least as early, or not at all.
  constexpr bool nests() const {
    int least = 3;
    for (int level : levels) {
      if (level > least) return false;
      if (level > 0) least = level;
    }
    return true;
  }
  /// Whether a rank updates a part of what it stores of a parameter that is used in this layout: no axis to the right
  /// of one with level 1 or 2 shards the same dimension.
  constexpr bool fits(const Layout& used) const {
    for (int axis = 0; axis < used.axes; ++axis) {
      if (levels[axis] != 1 && levels[axis] != 2) continue;
      for (int inner = axis + 1; inner < used.axes; ++inner) {
        if (used[inner].is_shard(dim)) return false;
      }
    }
    return true;
  }
};

/// A sharding as a template argument, because g++ 12 does not accept class types there; 0: not sharded.
using PackedSharding = std::uint32_t;
constexpr PackedSharding packed(const Sharding& how) {
  auto bits = static_cast<PackedSharding>(how.dim + 1);
  for (int axis = 0; axis < max_axes; ++axis)
    bits |= static_cast<PackedSharding>(how.levels[axis]) << (8 + 4 * axis);
  return bits | static_cast<PackedSharding>(how.frozen) << 31 |
         static_cast<PackedSharding>(how.counted) << 30;
}
constexpr Sharding unpacked(PackedSharding bits) {
  Sharding how{static_cast<int>(bits & 0xffu) - 1};
  for (int axis = 0; axis < max_axes; ++axis)
    how.levels[axis] = static_cast<int>(bits >> (8 + 4 * axis) & 0x3u);
  how.frozen = bits >> 31 != 0;
  how.counted = (bits >> 30 & 1u) != 0;
  return how;
}

/// The layout between steps of a parameter that is used in the layout `used`.
constexpr Layout stored_layout(const Layout& used, const Sharding& how) {
  return Layout::by_axis(used.axes,
                         [&](int axis) { return how.levels[axis] >= 3 ? shard(how.dim) : used[axis]; });
}
/// The layout of its gradient between two backward passes.
constexpr Layout accumulated_layout(const Layout& used, const Sharding& how) {
  return Layout::by_axis(
      used.axes, [&](int axis) { return how.levels[axis] >= 2 ? shard(how.dim) : cotangent(used[axis]); });
}
/// The layout of its gradient when nothing is pending.
constexpr Layout finished_layout(const Layout& used, const Sharding& how) {
  return Layout::by_axis(used.axes, [&](int axis) {
    return how.levels[axis] >= 1 ? shard(how.dim) : used[axis] == reduced ? replicate : used[axis];
  });
}

struct ParameterLayouts {
  /// Of a parameter that operations use in the layout `used_in`.
  constexpr ParameterLayouts(const Layout& used_in, const Sharding& how)
      : used(used_in),
        stored(stored_layout(used_in, how)),
        pending(cotangent(used_in)),
        accumulated(accumulated_layout(used_in, how)),
        finished(finished_layout(used_in, how)),
        gathered(!(stored == used)),
        updated_in_parts(!(cut_like(stored, finished) == stored)),
        accumulates_pending(accumulated == pending),
        frozen(how.frozen),
        counted(how.counted) {}

  Layout used, stored;
  Layout pending, accumulated, finished;  ///< of its gradient: from `backward`; the others as above
  bool gathered;                          ///< stored in another layout than it is used in
  bool updated_in_parts;                  ///< its finished gradient is sharded where the parameter is not
  bool accumulates_pending;               ///< gradients stay pending sums until the step
  bool frozen;                            ///< no gradients
  bool counted;                           ///< gradients are numbers of choices
  /// At most at this level on axes where it is stored as it is used.
  constexpr ParameterLayouts at_most(int level) const {
    ParameterLayouts result = *this;
    const auto except = [&](const Layout& otherwise, const Layout& there) {
      return Layout::by_axis(
          used.axes, [&](int axis) { return stored[axis] == used[axis] ? there[axis] : otherwise[axis]; });
    };
    if (level < 2) result.accumulated = except(accumulated, pending);
    if (level < 1) result.finished = except(finished, finished_layout(used, {}));
    result.updated_in_parts = !(cut_like(stored, result.finished) == stored);
    result.accumulates_pending = result.accumulated == pending;
    return result;
  }
  /// Whether an optimizer's update trains it.
  constexpr bool trained() const { return !frozen && !counted; }
};

}  // namespace shardwise
