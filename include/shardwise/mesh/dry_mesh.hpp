// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// A dry mesh has sizes and a rank but no MPI and no memory: what runs on it only counts. `trace` runs a
/// function on one and returns the plan, at run time or in the compiler:
///
/// ```
/// constexpr auto step = trace<DryMesh<dp, tp>>({1, 4}, [](auto mesh) { … build a model, run it … });
/// static_assert(step.count(Collective::all_reduce) == 1);
/// ```

#include <array>
#include <stdexcept>

#include <shardwise/mesh/communication_plan.hpp>

namespace shardwise {

template <MeshAxis... Axes>
class DryMesh {
 public:
  using AxesOf = AxisList<Axes...>;
  using PlanOf = CommunicationPlan<Axes...>;
  using SizesOf = std::array<int, sizeof...(Axes)>;
  static constexpr int axes = AxesOf::count;
  static constexpr bool dry = true;

  constexpr DryMesh() = default;
  /// A mesh of these sizes, seen by the rank at `coordinates`. Hosts have `ranks_per_host` ranks that follow one
  /// another; 0: all.
  constexpr DryMesh(Recorder& recorder, const SizesOf& sizes, const SizesOf& coordinates = {},
                    int ranks_per_host = 0)
      : recorder_(&recorder) {
    for (std::size_t axis = 0; axis < sizes.size(); ++axis) {
      if (sizes[axis] < 1) throw std::invalid_argument("DryMesh: every axis needs at least one rank");
      if (coordinates[axis] < 0 || coordinates[axis] >= sizes[axis]) {
        throw std::invalid_argument("DryMesh: the coordinates lie outside the mesh");
      }
      sizes_[axis] = sizes[axis];
      coordinates_[axis] = coordinates[axis];
    }
    if (ranks_per_host < 0) throw std::invalid_argument("DryMesh: ranks_per_host is negative");
    if (ranks_per_host == 0) return;
    recorder.set_hosts(
        hosts_along_axes(sizes_, coordinates_, axes, [&](int rank) { return rank / ranks_per_host; }));
  }

  template <class Axis>
  constexpr int size() const {
    static_assert(AxesOf::template has<Axis>, "this mesh has no such axis");
    return sizes_[AxesOf::template index<Axis>];
  }
  template <class Axis>
  constexpr int rank() const {
    static_assert(AxesOf::template has<Axis>, "this mesh has no such axis");
    return coordinates_[AxesOf::template index<Axis>];
  }
  /// Ranks in all.
  constexpr int size() const { return group_size(sizes_, axes, ~0u); }

  constexpr const MeshSizes& sizes() const { return sizes_; }
  constexpr const MeshSizes& coordinates() const { return coordinates_; }
  constexpr Recorder* recorder() const { return recorder_; }

  friend constexpr bool operator==(const DryMesh& a, const DryMesh& b) { return a.recorder_ == b.recorder_; }

 private:
  MeshSizes sizes_{1, 1, 1, 1};
  MeshSizes coordinates_{};
  Recorder* recorder_ = nullptr;
};

/// Runs `f(mesh)` dry on a mesh of `sizes`, as the rank at `coordinates`, and returns its plan. Hosts have
/// `ranks_per_host` ranks that follow one another; 0: all.
template <class MeshType, class F>
constexpr typename MeshType::PlanOf trace(const typename MeshType::SizesOf& sizes, F f,
                                          const typename MeshType::SizesOf& coordinates = {},
                                          int ranks_per_host = 0) {
  static_assert(MeshType::dry, "trace runs on a DryMesh; on a real mesh, make a Recording");
  Recorder recorder;
  MeshType mesh(recorder, sizes, coordinates, ranks_per_host);
  f(mesh);
  return {recorder.record(), mesh.sizes()};
}

}  // namespace shardwise
