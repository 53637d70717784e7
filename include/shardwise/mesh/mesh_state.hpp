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
#include <shardwise/mesh/mesh_ranks.hpp>
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
  using NameOf = std::string (*)(AxisSet set, const char* between);
  /// `names`: those of its axes.
  template <class = void>
  [[gnu::noinline]] MeshState(Communicator ranks, const MeshPlace& in_job, NameOf names, Shared<MeshState> of)
      : all(std::move(ranks)),
        place(in_job),
        name_of(names),
        coordinates(place.ranks.member(all.rank())),
        job(std::move(of)) {
    for (int axis = 0; axis < place.ranks.axes; ++axis) communicator(1u << axis);
  }
  MeshState(const MeshState&) = delete;
  MeshState& operator=(const MeshState&) = delete;
  ~MeshState() {
    if (recorder) idle_recorders().push_back(recorder);
  }
  /// A mesh of some ranks of the job of this one. Collective over them.
  template <class = void>
  Shared<MeshState> part(const RankGrid& ranks, NameOf names) {
    const Shared<MeshState> whole = job ? job : Shared<MeshState>::to(*this);
    number_on_part(ranks, place, whole->all.rank());
    return Shared<MeshState>::make(whole->among(ranks.all()), place.part(ranks), names, whole);
  }

  /// The ranks that differ from this one along a set of axes only. Collective over them when first called.
  template <class = void>
  [[gnu::noinline]] const Communicator& communicator(AxisSet set) {
    std::optional<Communicator>& group = groups_[set];
    if (!group) {
      group = make_group(set).along(name_of(set, " x "));
    }
    return *group;
  }
  template <class = void>
  Array<HostsAlong, 1 << max_axes> hosts_along_axes() const {
    return shardwise::hosts_along_axes(place.ranks.sizes, coordinates, place.ranks.axes,
                                       [&](int rank) { return all.hosts().of(rank); });
  }
  /// Its own, or while it has none, its job's.
  Recorder* active_recorder() const {
    if (recording) return recorder;
    return job ? job->active_recorder() : nullptr;
  }
  const MeshState& job_or_self() const { return job ? *job : *this; }

  Communicator all;
  MeshPlace place;
  NameOf name_of;
  MeshSizes coordinates;
  Shared<MeshState> job;         // null: it is one
  Recorder* recorder = nullptr;  // since the first recording
  bool recording = false;

 private:
  /// These ranks, among which this one is: the communicator of some axes, if they have just these.
  template <class = void>
  [[gnu::noinline]] Communicator among(const std::vector<int>& ranks) {
    std::optional<AxisSet> found;
    for (AxisSet set = (1u << place.ranks.axes) - 1;; --set) {
      if (place.ranks.group(set, coordinates) == ranks && (!found || groups_[set])) found = set;
      if (set == 0) break;
    }
    return found ? communicator(*found) : all.subgroup(ranks);
  }
  template <class = void>
  [[gnu::noinline]] Communicator make_group(AxisSet set) const {
    const std::vector<int> ranks = place.ranks.group(set, coordinates);
    if (static_cast<int>(ranks.size()) == all.size()) return all;
    return job ? job->among(ranks) : all.subgroup(ranks);
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
      : place_(&mesh.place()), coordinates_(mesh.coordinates()) {
    if constexpr (MeshType::dry) {
      recorder_ = mesh.recorder();
    } else {
      state_ = &mesh.state();
    }
  }

  /// It has neither ranks nor memory: what runs on it only counts.
  constexpr bool dry() const { return state_ == nullptr; }
  constexpr int axes() const { return place_->ranks.axes; }
  constexpr const MeshSizes& sizes() const { return place_->ranks.sizes; }
  constexpr const MeshSizes& coordinates() const { return coordinates_; }
  constexpr Recorder* recorder() const { return state_ ? state_->active_recorder() : recorder_; }
  /// Some axes, as the recorder names them: by its job's, if it is the job's recorder.
  constexpr AxisSet recorded(AxisSet axes) const {
    return state_ && state_->recording ? axes : place_->job_axes_of(axes);
  }
  /// The ranks that differ from this one along the given axes only; of a real mesh.
  const Communicator& communicator(AxisSet set) const { return state_->communicator(set); }

  /// Reduces numbers, in place, over some of its axes, those of several ranks; on a dry mesh that is only counted. Collective.
  constexpr void all_reduce(void* numbers, Index count, DataType type, ReduceOp op,
                            AxisSet over = ~0u) const {
    const AxisSet many = over & axes_where(axes(), [&](int axis) { return sizes()[axis] > 1; });
    if (many == 0) return;
    if (Recorder* to = recorder()) {
      to->communicate(Collective::all_reduce, recorded(many), count * size_of(type));
    }
    if (!dry()) communicator(many).all_reduce(numbers, numbers, count, type, op);
  }
  constexpr const MeshPlace& place() const { return *place_; }
  /// This rank's number in the job.
  constexpr int rank_in_job() const { return place_->ranks.rank(coordinates_); }
  /// Are these meshes of one job?
  constexpr bool same_job(const MeshView& other) const {
    if (dry() || other.dry()) return recorder_ == other.recorder_;
    return job() == other.job();
  }
  /// All its ranks, and its recorder; of a real mesh.
  const Communicator& job() const { return state_->job_or_self().all; }
  constexpr Recorder* job_recorder() const {
    return state_ ? state_->job_or_self().active_recorder() : recorder_;
  }
  /// Whether two ranks of the job share a host.
  constexpr bool share_host(int rank, int other) const {
    if (dry()) return recorder_->host_of(rank) == recorder_->host_of(other);
    return job().hosts().of(rank) == job().hosts().of(other);
  }

  friend constexpr bool operator==(const MeshView& a, const MeshView& b) {
    return a.state_ == b.state_ && a.recorder_ == b.recorder_ && a.place_ == b.place_;
  }

 private:
  const MeshPlace* place_ = &nowhere;
  MeshSizes coordinates_{};
  Recorder* recorder_ = nullptr;  // of a dry mesh
  detail::MeshState* state_ = nullptr;
};

}  // namespace shardwise
