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

#include <shardwise/mesh/communication_plan.hpp>
#include <shardwise/mesh/mesh_on_axes.hpp>

namespace shardwise {

template <MeshAxis... Axes>
class DryMesh : public detail::MeshOnAxes<DryMesh<Axes...>, Axes...> {
 public:
  using DryMesh::MeshOnAxes::axes;
  using typename DryMesh::MeshOnAxes::SizesOf;
  static constexpr bool dry = true;

  constexpr DryMesh() = default;
  /// A mesh of these sizes, seen by the rank at `coordinates`. Hosts have `ranks_per_host` ranks that follow one
  /// another; 0: all.
  constexpr DryMesh(Recorder& recorder, const SizesOf& sizes, const SizesOf& coordinates = {},
                    int ranks_per_host = 0)
      : recorder_(&recorder) {
    MeshSizes all = one_rank;
    for (std::size_t axis = 0; axis < sizes.size(); ++axis) {
      if (sizes[axis] < 1) throw std::invalid_argument("DryMesh: every axis needs at least one rank");
      if (coordinates[axis] < 0 || coordinates[axis] >= sizes[axis]) {
        throw std::invalid_argument("DryMesh: the coordinates lie outside the mesh");
      }
      all[axis] = sizes[axis];
      coordinates_[axis] = coordinates[axis];
    }
    place_ = recorder.place(MeshPlace::job(axes, all));
    if (ranks_per_host < 0) throw std::invalid_argument("DryMesh: ranks_per_host is negative");
    if (ranks_per_host == 0) return;
    recorder.set_ranks_per_host(ranks_per_host);
    recorder.set_hosts(
        hosts_along_axes(all, coordinates_, axes, [&](int rank) { return recorder.host_of(rank); }));
  }

  constexpr const MeshSizes& coordinates() const { return coordinates_; }
  constexpr const MeshPlace& place() const { return *place_; }
  constexpr Recorder* recorder() const { return recorder_; }

  /// A part of its job, as of a real mesh.
  template <class... Some>
  constexpr DryMesh<Some...> part(const MeshRanks<Some...>& ranks) const {
    const int number = detail::number_on_part(ranks.grid(), *place_, place_->ranks.rank(coordinates_));
    DryMesh<Some...> made;
    made.place_ = recorder_->place(place_->part(ranks.grid()));
    made.coordinates_ = ranks.grid().member(number);
    made.recorder_ = recorder_;
    return made;
  }

  friend constexpr bool operator==(const DryMesh& a, const DryMesh& b) {
    return a.recorder_ == b.recorder_ && a.place_ == b.place_;
  }

 private:
  template <MeshAxis...>
  friend class DryMesh;

  const MeshPlace* place_ = &nowhere;
  MeshSizes coordinates_{};
  Recorder* recorder_ = nullptr;
};

/// Runs `f(mesh)` dry on a mesh of `sizes`, as the rank at `coordinates`, and returns its plan. Hosts have
/// `ranks_per_host` ranks that follow one another; 0: all. `log`: keeps what happens in which order, if it is not null.
template <class MeshType, class F>
constexpr typename MeshType::PlanOf trace(const typename MeshType::SizesOf& sizes, F f,
                                          const typename MeshType::SizesOf& coordinates = {},
                                          int ranks_per_host = 0, EventLog* log = nullptr) {
  static_assert(MeshType::dry, "trace runs on a DryMesh; on a real mesh, make a Recording");
  Recorder recorder;
  MeshType mesh(recorder, sizes, coordinates, ranks_per_host);
  recorder.set_log(log);
  f(mesh);
  return {recorder.record(), mesh.sizes()};
}

}  // namespace shardwise
