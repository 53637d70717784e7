// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// A mesh without the names of its axes: what all copies of a real one share, and a view of a real or a dry one, for
/// code that is compiled once for all meshes.

#include <optional>

#include <shardwise/layout/layout.hpp>
#include <shardwise/memory/shared.hpp>
#include <shardwise/mesh/communicator.hpp>
#include <shardwise/mesh/recorder.hpp>

namespace shardwise {
namespace detail {

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
  Array<HostsAlong, 1 << max_axes> hosts_along_axes() const {
    return shardwise::hosts_along_axes(sizes, coordinates, axes,
                                       [&](int rank) { return all.hosts().of(rank); });
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

}  // namespace detail

/// Refers to a mesh, which must live as long.
class MeshView {
 public:
  constexpr MeshView() = default;
  template <class MeshType>
  constexpr explicit MeshView(const MeshType& mesh)
      : axes_(MeshType::axes), sizes_(mesh.sizes()), coordinates_(mesh.coordinates()) {
    if constexpr (MeshType::dry) {
      recorder_ = mesh.recorder();
    } else {
      state_ = &mesh.state();
    }
  }

  /// It has neither ranks nor memory: what runs on it only counts.
  constexpr bool dry() const { return state_ == nullptr; }
  constexpr int axes() const { return axes_; }
  constexpr const MeshSizes& sizes() const { return sizes_; }
  constexpr const MeshSizes& coordinates() const { return coordinates_; }
  constexpr Recorder* recorder() const { return state_ ? state_->active_recorder() : recorder_; }
  /// The ranks that differ from this one along the given axes only; of a real mesh.
  const Communicator& communicator(AxisSet set) const { return state_->communicator(set); }

  friend constexpr bool operator==(const MeshView& a, const MeshView& b) {
    return a.state_ == b.state_ && a.recorder_ == b.recorder_;
  }

 private:
  int axes_ = 0;
  MeshSizes sizes_{};
  MeshSizes coordinates_{};
  Recorder* recorder_ = nullptr;  // of a dry mesh
  detail::MeshState* state_ = nullptr;
};

}  // namespace shardwise
