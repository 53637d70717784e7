// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The ranks that form a mesh within a job: a first rank, and a size and a stride for each axis. PyTorch's
/// DeviceMesh stores them the same way (`_MeshLayout`, after CuTe's layouts).

#include <algorithm>
#include <vector>

#include <shardwise/layout/layout.hpp>

namespace shardwise {

/// The rank at coordinates c is `first` + Σ strides[axis] · c[axis].
struct RankGrid {
  int axes = 0;
  MeshSizes sizes = one_rank;
  MeshSizes strides{};
  int first = 0;

  /// The ranks from 0 on, with the last axis varying fastest.
  static constexpr RankGrid whole(int axes, const MeshSizes& sizes) {
    RankGrid grid{axes, sizes};
    for (int axis = axes - 1, stride = 1; axis >= 0; stride *= sizes[axis--]) grid.strides[axis] = stride;
    return grid;
  }

  constexpr int size() const { return group_size(sizes, axes, ~0u); }
  constexpr int rank(const MeshSizes& coordinates) const {
    int rank = first;
    for (int axis = 0; axis < axes; ++axis) rank += strides[axis] * coordinates[axis];
    return rank;
  }
  /// The coordinates of member `number`, below `size()`; the last axis varies fastest.
  constexpr MeshSizes member(int number) const { return group_member(sizes, {}, axes, ~0u, number); }
  /// The ranks that differ from the one at `coordinates` only along the axes of `set`; the last axis varies fastest.
  constexpr std::vector<int> group(AxisSet set, MeshSizes coordinates) const {
    for (int axis = 0; axis < axes; ++axis) {
      if (set >> axis & 1u) coordinates[axis] = 0;
    }
    std::vector<int> ranks;
    ranks.reserve(static_cast<std::size_t>(group_size(sizes, axes, set)));
    ranks.push_back(rank(coordinates));
    for (int axis = axes - 1; axis >= 0; --axis) {
      if (!(set >> axis & 1u)) continue;
      const std::size_t count = ranks.size();
      for (int at = 1; at < sizes[axis]; ++at) {
        for (std::size_t i = 0; i < count; ++i) ranks.push_back(ranks[i] + at * strides[axis]);
      }
    }
    return ranks;
  }
  constexpr std::vector<int> all() const { return group(~0u, {}); }
  /// The number of the member with rank `wanted`, or -1.
  constexpr int find(int wanted) const {
    const std::vector<int> ranks = all();
    const auto found = std::find(ranks.begin(), ranks.end(), wanted);
    return found == ranks.end() ? -1 : static_cast<int>(found - ranks.begin());
  }
  /// The grid of the axes `kept`, in any order, through the member at `coordinates`.
  constexpr RankGrid slice(std::initializer_list<int> kept, MeshSizes coordinates) const {
    RankGrid part;
    for (const int axis : kept) {
      coordinates[axis] = 0;
      part.sizes[part.axes] = sizes[axis];
      part.strides[part.axes++] = strides[axis];
    }
    part.first = rank(coordinates);
    return part;
  }

  friend constexpr bool operator==(const RankGrid&, const RankGrid&) = default;
};

/// The place of a mesh in its job. The job is itself a mesh: the one that this mesh is a part of, or this mesh.
struct MeshPlace {
  RankGrid ranks;
  int job_axes = 0;
  MeshSizes job_sizes = one_rank;
  bool is_job = false;
  Array<AxisSet, max_axes> along{};  ///< the job's axes along which ranks differ that differ along an axis

  static constexpr MeshPlace job(int axes, const MeshSizes& sizes) {
    MeshPlace place{RankGrid::whole(axes, sizes), axes, sizes, true};
    for (int axis = 0; axis < axes; ++axis) place.along[axis] = 1u << axis;
    return place;
  }
  constexpr int job_size() const { return group_size(job_sizes, job_axes, ~0u); }
  /// The place of a part of the mesh, given as ranks of the job.
  constexpr MeshPlace part(const RankGrid& some) const {
    MeshPlace place{some, job_axes, job_sizes};
    for (int axis = 0; axis < some.axes; ++axis) {
      for (int i = 1; i < some.sizes[axis]; ++i)
        place.along[axis] |= axes_between(some.first, some.first + i * some.strides[axis]);
    }
    return place;
  }

  /// The job's axes along which two of its ranks differ.
  constexpr AxisSet axes_between(int rank, int other) const {
    const MeshSizes a = group_member(job_sizes, {}, job_axes, ~0u, rank);
    const MeshSizes b = group_member(job_sizes, {}, job_axes, ~0u, other);
    return axes_where(job_axes, [&](int axis) { return a[axis] != b[axis]; });
  }
  /// The job's axes along which ranks differ that differ along these axes of the mesh.
  constexpr AxisSet job_axes_of(AxisSet axes) const {
    AxisSet all = 0;
    for (int axis = 0; axis < ranks.axes; ++axis) all |= axes >> axis & 1u ? along[axis] : 0;
    return all;
  }

  friend constexpr bool operator==(const MeshPlace&, const MeshPlace&) = default;
};

}  // namespace shardwise
