// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// What all copies of a mesh share: its ranks, and the groups of them. The names of its axes are the business of `Mesh`.

#include <array>
#include <optional>
#include <vector>

#include <shardwise/layout/layout.hpp>
#include <shardwise/memory/shared.hpp>
#include <shardwise/mesh/communicator.hpp>
#include <shardwise/mesh/recorder.hpp>

namespace shardwise::detail {

/// Recorders for meshes. Blocks of memory that were counted may outlive their mesh; so recorders are never
/// freed, but kept for the next mesh.
inline std::vector<Recorder*>& idle_recorders() {
  static auto& idle = *new std::vector<Recorder*>;
  return idle;
}
inline Recorder* take_recorder() {
  if (idle_recorders().empty()) return new Recorder;
  Recorder* recorder = idle_recorders().back();
  idle_recorders().pop_back();
  return recorder;
}

/// The state of a real mesh.
struct MeshState : Counted {
  explicit MeshState(Communicator ranks) : all(std::move(ranks)) {}
  MeshState(const MeshState&) = delete;
  MeshState& operator=(const MeshState&) = delete;
  ~MeshState() {
    if (recorder) idle_recorders().push_back(recorder);
  }

  /// The ranks that differ from this one along a set of axes only. Collective over them when first called.
  const Communicator& communicator(AxisSet set) {
    std::optional<Communicator>& group = groups_[set];
    if (!group) group = make_group(set);
    return *group;
  }
  Recorder* active_recorder() const { return recording ? recorder : nullptr; }

  Communicator all;
  int axes = 0;
  MeshSizes sizes{1, 1, 1, 1};
  MeshSizes coordinates{};
  Recorder* recorder = nullptr;  // since the first recording
  bool recording = false;

 private:
  Communicator make_group(AxisSet set) const {
    int members = group_size(sizes, axes, set);
    if (members == all.size()) return all;
    std::vector<int> ranks;
    for (int i = 0; i < members; ++i) {
      MeshSizes member = group_member(sizes, coordinates, axes, set, i);
      ranks.push_back(group_rank(sizes, member, axes, (1u << axes) - 1));
    }
    return all.subgroup(ranks);
  }

  std::array<std::optional<Communicator>, 1 << max_axes> groups_;
};

}  // namespace shardwise::detail
