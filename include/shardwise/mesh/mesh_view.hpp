// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// A mesh without the names of its axes, real or dry: for code that is compiled once for all meshes.

#include <shardwise/mesh/mesh_state.hpp>

namespace shardwise {

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
