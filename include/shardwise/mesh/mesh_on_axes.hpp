// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// What meshes say of themselves, real and dry ones: their sizes, and their parts along axes.

#include <shardwise/mesh/mesh_ranks.hpp>

namespace shardwise {

template <MeshAxis... Axes>
class CommunicationPlan;

namespace detail {

/// What meshes of any kind say of themselves. `Self` has `place()`, `coordinates()`, and `part(ranks)`, a mesh of its kind.
template <class Self, MeshAxis... Axes>
class MeshOnAxes {
 public:
  using AxesOf = AxisList<Axes...>;
  using PlanOf = CommunicationPlan<Axes...>;
  using SizesOf = std::array<int, sizeof...(Axes)>;
  static constexpr int axes = AxesOf::count;

  /// Number of ranks along an axis, and this rank's position there.
  template <class Axis>
  constexpr int size() const {
    static_assert(AxesOf::template has<Axis>, "this mesh has no such axis");
    return sizes()[AxesOf::template index<Axis>];
  }
  template <class Axis>
  constexpr int rank() const {
    static_assert(AxesOf::template has<Axis>, "this mesh has no such axis");
    return self().coordinates()[AxesOf::template index<Axis>];
  }
  /// Number of ranks in all.
  constexpr int size() const { return self().place().ranks.size(); }
  constexpr const MeshSizes& sizes() const { return self().place().ranks.sizes; }

  /// The mesh of the ranks that differ from this one along the given axes only, in that order. Collective over them. It
  /// is a part of the same job: what runs on it is recorded with the job, by the job's axes.
  template <class... Some>
  constexpr auto submesh() const {
    return self().part(submesh_ranks<Some...>(self().coordinates()));
  }
  /// Which ranks of the job it has. (A mesh that was made of a communicator is a job, and has all of them.)
  constexpr MeshRanks<Axes...> ranks() const { return MeshRanks<Axes...>(self().place().ranks); }
  /// Those of the `submesh<Some...>()` of the rank at `through`: of any, by `at`.
  template <class... Some>
  constexpr MeshRanks<Some...> submesh_ranks(const MeshSizes& through) const {
    static_assert((AxesOf::template has<Some> && ...), "this mesh has no such axis");
    return MeshRanks<Some...>(self().place().ranks.slice({AxesOf::template index<Some>...}, through));
  }
  /// This rank's coordinates, but `position` along an axis.
  template <class Axis>
  constexpr MeshSizes at(int position) const {
    if (position < 0 || position >= size<Axis>())
      fail({"at: axis ", Axis::name, " has ", size<Axis>(), " ranks, and none at ", position});
    MeshSizes coordinates = self().coordinates();
    coordinates[AxesOf::template index<Axis>] = position;
    return coordinates;
  }

 private:
  constexpr const Self& self() const { return static_cast<const Self&>(*this); }
};

}  // namespace detail
}  // namespace shardwise
