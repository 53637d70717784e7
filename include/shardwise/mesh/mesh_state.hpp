// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// A mesh without the names of its axes: the state that all copies share, and a view of it for code that is
/// compiled once for all meshes.

#include <optional>

#include <shardwise/base/bodies.hpp>
#include <shardwise/comm/communicator.hpp>
#include <shardwise/layout/layout.hpp>
#include <shardwise/memory/shared.hpp>
#include <shardwise/mesh/mesh_ranks.hpp>
#include <shardwise/record/recorder.hpp>

namespace shardwise {
namespace detail {

/// Recorders for meshes, of any thread. Counted blocks of memory may outlive their mesh, so recorders are never freed,
/// but reused.
Recorder* take_recorder();
void give_back(Recorder* recorder);

struct RealRanks : Counted {
  using NameOf = std::string (*)(AxisSet set, const char* between);
  RealRanks(Communicator ranks, NameOf names) : all(std::move(ranks)), name_of(names) {}

  Communicator all;
  NameOf name_of;  ///< returns the names of axes
  std::array<std::optional<Communicator>, 1 << max_axes> groups;
  std::array<std::optional<bool>, 1 << max_axes> any_crosses_hosts;  ///< where it was asked for
};

struct MeshState : Counted {
  /// A real mesh. `names`: returns the names of its axes.
  MeshState(const Communicator& ranks, const MeshPlace& in_job, RealRanks::NameOf names,
            const Shared<MeshState>& of);
  /// A dry mesh. `counts`: the recorder of a job; null for a part of one.
  constexpr MeshState(Recorder* counts, const MeshPlace& in_job, const MeshSizes& at,
                      const Shared<MeshState>& of, int of_host = 0)
      : dry(true),
        place(in_job),
        coordinates(at),
        job(of),
        ranks_per_host(of_host),
        recorder(counts),
        recording(counts != nullptr) {}
  MeshState& operator=(MeshState&&) = delete;
  constexpr ~MeshState() {
    if (recorder && (real || job)) give_back(recorder);
  }

  /// A mesh of some ranks of this one's job. Collective over them.
  [[gnu::noinline]] constexpr Shared<MeshState> part(const RankGrid& ranks, RealRanks::NameOf names) {
    Shared<MeshState> whole = job;
    if (!whole)
      whole = Shared<MeshState>::to(*this);  // an `if`: g++ 12 miscounts the handles of `?:` in constants
    const int number = number_on_part(ranks, place, place.ranks.rank(coordinates));
    if (real) return Shared<MeshState>::make(whole->among(ranks.all()), place.part(ranks), names, whole);
    return Shared<MeshState>::make(nullptr, place.part(ranks), ranks.member(number), whole);
  }

  /// The ranks that differ from this one only along a set of axes. The first call is collective over them. Throws
  /// `std::logic_error` on a dry mesh.
  const Communicator& communicator(AxisSet set) const;
  constexpr int host_of(int rank) const {
    const MeshState& whole = job_or_self();
    if (real) return whole.real->all.hosts().of(rank);
    return whole.ranks_per_host > 0 ? rank / whole.ranks_per_host : 0;
  }
  /// Whether the job is on several hosts.
  constexpr bool has_several_hosts() const {
    const MeshState& whole = job_or_self();
    if (!dry) return whole.real->all.hosts().count() > 1;
    return whole.ranks_per_host > 0 && whole.ranks_per_host < whole.place.ranks.size();
  }
  /// Whether the ranks along these axes, with this one, are on several hosts.
  constexpr bool crosses_hosts(AxisSet set) const {
    if (!has_several_hosts()) return false;
    const std::vector<int> group = place.ranks.group(set, coordinates);
    return std::any_of(group.begin(), group.end(),
                       [&](int rank) { return host_of(rank) != host_of(group[0]); });
  }
  /// The same for any rank of the mesh, where hosts may have other numbers of ranks; on a dry mesh for this one.
  constexpr bool any_crosses_hosts(AxisSet set) const {
    if (dry || !has_several_hosts()) return crosses_hosts(set);
    std::optional<bool>& known = real->any_crosses_hosts[set];
    for (int number = 0; !known && number < place.ranks.size(); ++number) {
      MeshSizes at = place.ranks.member(number);
      const int host = host_of(place.ranks.rank(at));
      for (int axis = 0; axis < place.ranks.axes; ++axis) at[axis] = set >> axis & 1u ? 0 : at[axis];
      if (host_of(place.ranks.rank(at)) != host) known = true;
    }
    if (!known) known = false;
    return *known;
  }
  using AllHosts = Array<HostsAlong, 1 << max_axes>;
  SHARDWISE_ONCE(AllHosts, hosts_along_axes, () const, (),
                 shardwise::hosts_along_axes(place.ranks, coordinates,
                                             [&](int rank) { return host_of(rank); }))
  /// Its own recorder if it is being recorded, else its job's.
  constexpr Recorder* active_recorder() const {
    if (recording) return recorder;
    return job ? job->active_recorder() : nullptr;
  }
  constexpr const MeshState& job_or_self() const { return job ? *job : *this; }

  const bool dry = false;  // a member (not `!real`): compile-time planning reads it for each block
  MeshPlace place;
  MeshSizes coordinates;
  Shared<MeshState> job;         // null: this is the job
  Shared<RealRanks> real;        // null on a dry mesh
  int ranks_per_host = 0;        // of a dry job, consecutive; 0: all
  Recorder* recorder = nullptr;  // a dry job's is the caller's; others: since the first recording
  bool recording = false;

 private:
  /// The communicator of these ranks, which include this one: that of some axes if it has exactly these ranks.
  Communicator among(const std::vector<int>& ranks) const;
};

SHARDWISE_COMPILE(end_pooled<RealRanks>)
SHARDWISE_COMPILE(end_pooled<MeshState>)

/// A real mesh: see the first constructor of `MeshState`.
Shared<MeshState> real_mesh(const Communicator& ranks, const MeshPlace& in_job, RealRanks::NameOf names);

}  // namespace detail

/// The state that all copies of a mesh share.
using MeshHandle = Shared<detail::MeshState>;

/// A non-owning view of a mesh.
class MeshView {
 public:
  constexpr MeshView() = default;
  /// Of a mesh that outlives the view.
  constexpr explicit MeshView(const MeshHandle& mesh) : state_(&*mesh) {}
  template <class MeshType>
  constexpr explicit MeshView(const MeshType& mesh) : MeshView(mesh.handle()) {}

  /// It has no processes and no memory: operations are only counted.
  constexpr bool dry() const { return state_->dry; }
  constexpr int axes() const { return state_->place.ranks.axes; }
  constexpr const MeshSizes& sizes() const { return state_->place.ranks.sizes; }
  constexpr const MeshSizes& coordinates() const { return state_->coordinates; }
  constexpr Recorder* recorder() const { return state_->active_recorder(); }
  /// The set of axes in the recorder's terms: the job's axes if the recorder is the job's.
  constexpr AxisSet recorded(AxisSet axes) const {
    return state_->recording ? axes : place().job_axes_of(axes);
  }
  /// The ranks of a real mesh that differ from this one only along the given axes.
  const Communicator& communicator(AxisSet set) const { return state_->communicator(set); }
  const Communicator& communicator() const { return communicator((1u << axes()) - 1); }
  /// Whether the job, or the ranks along these axes, are on several hosts.
  constexpr bool has_several_hosts() const { return state_->has_several_hosts(); }
  constexpr bool crosses_hosts(AxisSet set) const { return state_->crosses_hosts(set); }
  constexpr bool any_crosses_hosts(AxisSet set) const { return state_->any_crosses_hosts(set); }

  /// Reduces numbers in place over those axes of `over` that have several ranks; a dry mesh only counts it. Collective.
  constexpr void all_reduce(void* numbers, Index count, DataType type, ReduceOp op,
                            AxisSet over = ~0u) const {
    const AxisSet many = counted(over, count * size_of(type));
    if (many != 0) communicator(many).all_reduce(numbers, numbers, count, type, op);
  }
  template <Reducible M>
  constexpr void all_reduce(M* structs, Index count, AxisSet over) const {
    const AxisSet many = counted(over, count * static_cast<Index>(sizeof(M)));
    if (many != 0) communicator(many).all_reduce(structs, structs, count);
  }
  constexpr const MeshPlace& place() const { return state_->place; }
  constexpr int rank_in_job() const { return place().ranks.rank(coordinates()); }
  constexpr bool same_job(const MeshView& other) const {
    if (dry() || other.dry()) return job_recorder() == other.job_recorder();
    return job() == other.job();
  }
  /// All ranks of the job (of a real mesh only), and its recorder.
  const Communicator& job() const { return state_->job_or_self().real->all; }
  constexpr Recorder* job_recorder() const { return state_->job_or_self().active_recorder(); }
  constexpr bool share_host(int rank, int other) const {
    return state_->host_of(rank) == state_->host_of(other);
  }

  friend constexpr bool operator==(const MeshView&, const MeshView&) = default;

 private:
  /// Counts an all-reduce; returns the axes over which it must be made, or 0.
  constexpr AxisSet counted(AxisSet over, Index bytes) const {
    const AxisSet many = over & axes_where(axes(), [&](int axis) { return sizes()[axis] > 1; });
    if (many == 0) return 0;
    if (Recorder* to = recorder()) to->communicate(Collective::all_reduce, recorded(many), bytes);
    return dry() ? 0 : many;
  }

  detail::MeshState* state_ = nullptr;
};

namespace detail {

/// The sizes of a mesh on these ranks with axes of these names. Collective; throws `std::invalid_argument` on every
/// rank if the ranks request different sizes, or if the product is not the number of ranks.
MeshSizes fitted(const Communicator& ranks, std::span<const char* const> names, std::span<const int> wanted);

void begin_recording(MeshState& mesh, EventLog* log);
void restart_recording(MeshState& mesh);
void end_recording(MeshState& mesh);

/// Throws because a mesh has no ranks.
[[noreturn, gnu::cold]] void no_ranks();

/// A dry mesh that is a whole job.
[[gnu::noinline]] constexpr MeshHandle dry_job(Recorder& counts, std::span<const char* const> names,
                                               std::span<const int> sizes, std::span<const int> coordinates,
                                               int ranks_per_host) {
  MeshSizes all = one_rank, own{};
  for (std::size_t axis = 0; axis < sizes.size(); ++axis) {
    const int size = all[axis] = sizes[axis], at = own[axis] = coordinates[axis];
    if (size < 1) fail({"Mesh: a dry mesh needs at least one rank along ", names[axis], ", and got ", size});
    if (at < 0 || at >= size)
      fail({"Mesh: a dry mesh has ", size, " ranks along ", names[axis], ", and none at ", at});
  }
  if (ranks_per_host < 0)
    fail({"Mesh: ranks_per_host of a dry mesh is ", ranks_per_host, ", which is negative"});
  auto made = MeshHandle::make(&counts, MeshPlace::job(static_cast<int>(sizes.size()), all), own,
                               MeshHandle(), ranks_per_host);
  counts.set_hosts(ranks_per_host > 0 ? made->hosts_along_axes()
                                      : all_on_one_host(all, static_cast<int>(sizes.size())));
  return made;
}

/// Counts a computation of this rank, if something records its work: see `Recorder::compute`.
constexpr void count_work(const auto& mesh, std::int64_t flops, std::int64_t moved = 0,
                          const char* operation = nullptr) {
  if (Recorder* recorder = mesh.recorder()) recorder->compute(flops, moved, operation);
}

#ifdef SHARDWISE_BODIES

inline constinit Mutex idle_mutex;
inline std::vector<Recorder*>& idle_recorders() {
  static auto& idle = *new std::vector<Recorder*>;
  return idle;
}

SHARDWISE_INLINE Recorder* take_recorder() {
  const Locked lock(idle_mutex);
  if (idle_recorders().empty()) return new Recorder;
  Recorder* recorder = idle_recorders().back();
  idle_recorders().pop_back();
  return recorder;
}

SHARDWISE_INLINE void give_back(Recorder* recorder) {
  const Locked lock(idle_mutex);
  idle_recorders().push_back(recorder);
}

SHARDWISE_INLINE MeshState::MeshState(const Communicator& ranks, const MeshPlace& in_job,
                                      RealRanks::NameOf names, const Shared<MeshState>& of)
    : place(in_job),
      coordinates(place.ranks.member(ranks.rank())),
      job(of),
      real(Shared<RealRanks>::make(ranks, names)) {
  for (int axis = 0; axis < place.ranks.axes; ++axis) communicator(1u << axis);
}

SHARDWISE_INLINE Shared<MeshState> real_mesh(const Communicator& ranks, const MeshPlace& in_job,
                                             RealRanks::NameOf names) {
  return Shared<MeshState>::make(ranks, in_job, names, Shared<MeshState>());
}

SHARDWISE_INLINE const Communicator& MeshState::communicator(AxisSet set) const {
  if (dry) throw std::logic_error("communicator: the mesh is dry, it has sizes and no processes");
  std::optional<Communicator>& group = real->groups[set];
  if (!group) {
    const std::vector<int> ranks = place.ranks.group(set, coordinates);
    const bool all = static_cast<int>(ranks.size()) == real->all.size();
    const Communicator made = all ? real->all : job ? job->among(ranks) : real->all.subgroup(ranks);
    group = made.along(real->name_of(set, " x "));
  }
  return *group;
}

SHARDWISE_INLINE Communicator MeshState::among(const std::vector<int>& ranks) const {
  std::optional<AxisSet> found;
  for (AxisSet set = (1u << place.ranks.axes) - 1;; --set) {
    if (place.ranks.group(set, coordinates) == ranks && (!found || real->groups[set])) found = set;
    if (set == 0) break;
  }
  return found ? communicator(*found) : real->all.subgroup(ranks);
}

#endif

}  // namespace detail

}  // namespace shardwise
