// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// A mesh: the processes of a communicator, arranged along named axes, the last axis varying fastest.
///
/// ```
/// Mesh<dp, tp> mesh(world(), {any, 4});      // as many dp groups as the job has room for
/// mesh.size<tp>(); mesh.rank<tp>(); mesh.communicator<tp>();
/// ```

#include <shardwise/base/bodies.hpp>
#include <shardwise/guard/same_on_all_ranks.hpp>
#include <shardwise/layout/diagnosis.hpp>
#include <shardwise/mesh/mesh_state.hpp>
#include <shardwise/record/communication_plan.hpp>

namespace shardwise {

/// In a list of mesh sizes: the size that makes the product equal the number of ranks. At most once.
inline constexpr int any = -1;

/// A cheap handle. All copies refer to the same mesh; they are not thread-safe.
///
/// A mesh is real or dry. A dry mesh has sizes and a rank, but no processes and no memory: operations on it are
/// only counted, at run time or in constant expressions. `trace` makes one.
template <MeshAxis... Axes>
class Mesh {
  static_assert(((detail::times_among<Axes, Axes...> == 1) && ...), "an axis is named twice");

 public:
  using AxesOf = AxisList<Axes...>;
  using PlanOf = CommunicationPlan<Axes...>;
  using SizesOf = std::array<int, sizeof...(Axes)>;
  static constexpr int axes = static_cast<int>(sizeof...(Axes));

  constexpr Mesh() = default;

  /// Arranges all ranks of `ranks` in their order. If they are sorted by host, as those of `world()` are, the last
  /// axes stay within hosts as far as they fit. Collective over them. Throws `std::invalid_argument` on every rank if
  /// the product of the sizes is not their number, or if ranks request different axes or sizes.
  Mesh(const Communicator& ranks, const SizesOf& sizes)
      : state_(detail::real_mesh(ranks, MeshPlace::job(axes, detail::fitted(ranks, AxesOf::names, sizes)),
                                 &AxesOf::text)) {}

  /// A dry mesh of these sizes, as seen by the rank at `coordinates`; `counts` must outlive it. Each host has
  /// `ranks_per_host` consecutive ranks; 0: all ranks share one host.
  constexpr Mesh(Recorder& counts, const SizesOf& sizes, const SizesOf& coordinates = {},
                 int ranks_per_host = 0)
      : state_(detail::dry_job(counts, AxesOf::names, sizes, coordinates, ranks_per_host)) {}

  /// Whether it has no processes: operations are only counted.
  constexpr bool dry() const { return handle()->dry; }

  /// The number of ranks along an axis, and this rank's position there.
  template <class Axis>
  constexpr int size() const {
    return sizes()[index<Axis>()];
  }
  template <class Axis>
  constexpr int rank() const {
    return coordinates()[index<Axis>()];
  }
  /// The number of all ranks, and this rank's position among them.
  constexpr int size() const { return place().ranks.size(); }
  constexpr int rank() const { return RankGrid::whole(axes, sizes()).rank(coordinates()); }
  /// The same for each axis, in the order of the mesh; and the place of this mesh in its job.
  constexpr const MeshSizes& sizes() const { return handle()->place.ranks.sizes; }
  constexpr const MeshSizes& coordinates() const { return handle()->coordinates; }
  constexpr const MeshPlace& place() const { return handle()->place; }
  /// This rank's coordinates, with `position` along one axis.
  template <class Axis>
  constexpr MeshSizes at(int position) const {
    if (position < 0 || position >= size<Axis>())
      detail::fail({"at: axis ", Axis::name, " has ", size<Axis>(), " ranks, and none at ", position});
    MeshSizes changed = coordinates();
    changed[index<Axis>()] = position;
    return changed;
  }

  /// All ranks, or the ranks that differ from this one only along the given axes. Throws `std::logic_error` on a
  /// dry mesh.
  const Communicator& communicator() const { return communicator((1u << axes) - 1); }
  template <class... Some>
    requires(sizeof...(Some) > 0)
  const Communicator& communicator() const { return communicator(((1u << index<Some>()) | ...)); }
  /// The same for a set of axes. The communicator is created on first use, which is collective over its members.
  const Communicator& communicator(AxisSet set) const { return handle()->communicator(set); }

  /// Whether all ranks along an axis share a host.
  template <class Axis>
  constexpr bool within_host() const {
    return handle()->hosts_along_axes()[1u << index<Axis>()].hosts == 1;
  }

  /// The ranks of the job in this mesh. (A mesh made from a communicator is a job, and has all of them.)
  constexpr MeshRanks<Axes...> ranks() const { return MeshRanks<Axes...>(place().ranks); }
  /// A mesh of any ranks of the job. Collective over them; throws `std::invalid_argument` on a rank outside them,
  /// and for ranks outside the job.
  template <class... Some>
  constexpr Mesh<Some...> part(const MeshRanks<Some...>& some) const {
    return Mesh<Some...>(handle()->part(some.grid(), &AxisList<Some...>::text));
  }
  /// The mesh of the ranks that differ from this one only along the given axes, in that order. Collective over
  /// them. It is part of the same job: its operations are recorded by the job's recorder, under the job's axes.
  template <class... Some>
  constexpr Mesh<Some...> submesh() const {
    return part(submesh_ranks<Some...>(coordinates()));
  }
  /// The ranks of the `submesh<Some...>()` of the rank at `through`, for example `at<pp>(1)`.
  template <class... Some>
  constexpr MeshRanks<Some...> submesh_ranks(const MeshSizes& through) const {
    return MeshRanks<Some...>(place().ranks.slice({index<Some>()...}, through));
  }

  /// The recorder of a dry mesh, or of a running `Recording`; else null.
  constexpr Recorder* recorder() const { return handle()->active_recorder(); }
  /// For `MeshView` and `Recording`. Throws `std::logic_error` for a mesh without ranks, such as a
  /// default-constructed one.
  constexpr const MeshHandle& handle() const {
    if (!state_) detail::no_ranks();
    return state_;
  }

  friend constexpr bool operator==(const Mesh& a, const Mesh& b) { return a.state_.same_as(b.state_); }

  // Refused: sizes for other axes, sizes without braces, and a communicator of MPI.
  template <std::size_t N, IllFormed Why = WrittenOtherwise<Hint::pass_one_size_per_axis>>
    requires(N != sizeof...(Axes))
  Mesh(const Communicator&, const int (&)[N])
  = delete;  // see Why
  template <std::convertible_to<int>... Sizes,
            IllFormed Why = WrittenOtherwise<Hint::write_the_sizes_in_braces>>
    requires(sizeof...(Sizes) > 0)
  Mesh(const Communicator&, Sizes...)
  = delete;  // see Why
  template <IllFormed Why = WrittenOtherwise<Hint::pass_Communicator_duplicate_of_this>>
  Mesh(MPI_Comm, const SizesOf&) = delete;  // see Why

 private:
  template <MeshAxis...>
  friend class Mesh;

  constexpr explicit Mesh(MeshHandle state) : state_(std::move(state)) {}
  template <class Axis>
  static constexpr int index() {
    static_assert(AxesOf::template has<Axis>, "this mesh has no such axis");
    return AxesOf::template index<Axis>;
  }

  MeshHandle state_;
};

/// Records the operations on a real mesh for as long as it lives.
///
/// ```
/// Recording recording(mesh);
/// … a training step …
/// same_communication(recording.plan(), planned);
/// ```
template <class MeshType>
class Recording {
 public:
  /// `log`: also logs events in order, if not null.
  explicit Recording(MeshType mesh, EventLog* log = nullptr) : mesh_(std::move(mesh)) {
    detail::begin_recording(state(), log);
  }
  ~Recording() { detail::end_recording(state()); }
  Recording& operator=(Recording&&) = delete;

  /// Resets the counts, but keeps the memory that is in use: to record one step of many.
  void restart() { detail::restart_recording(state()); }

  /// The communication, flops and memory since the beginning or the last `restart`.
  typename MeshType::PlanOf plan() const { return {state().recorder->record(), mesh_.sizes()}; }

 private:
  detail::MeshState& state() const { return *mesh_.handle(); }

  MeshType mesh_;
};

}  // namespace shardwise

#ifdef SHARDWISE_BODIES
namespace shardwise::detail {

SHARDWISE_INLINE MeshSizes fitted(const Communicator& ranks, std::span<const char* const> names,
                                  std::span<const int> wanted) {
  std::string text;
  for (std::size_t axis = 0; axis < wanted.size(); ++axis) {
    text += (axis ? " x " : "") + std::string(names[axis]) + " " +
            (wanted[axis] == any ? "any" : std::to_string(wanted[axis]));
  }
  require_same(ranks, {{"", text}}, "Mesh");
  MeshSizes sizes = one_rank;
  Index product = 1;
  int open = -1;
  for (std::size_t axis = 0; axis < wanted.size(); ++axis) {
    const int size = sizes[axis] = wanted[axis];
    if (size == any && open >= 0) fail({"Mesh: only one size can be `any`, in ", text});
    if (size == any) open = static_cast<int>(axis);
    if (size < 1 && size != any) fail({"Mesh: a size must be at least 1, in ", text});
    if (size != any && product <= std::numeric_limits<int>::max()) product *= size;  // no overflow
  }
  if (open < 0 ? product != ranks.size() : ranks.size() % product != 0) {
    fail({"Mesh: ", text, open < 0 ? " is " : " needs a multiple of ", product, " ranks, but the job has ",
          ranks.size()});
  }
  if (open >= 0) sizes[open] = ranks.size() / static_cast<int>(product);
  return sizes;
}

SHARDWISE_INLINE void no_ranks() {
  fail<std::logic_error>({"a mesh that was made without ranks, as by Mesh(), or is that of an empty tensor"});
}

SHARDWISE_INLINE void begin_recording(MeshState& mesh, EventLog* log) {
  if (mesh.recording) throw std::logic_error("Recording: this mesh is being recorded already");
  if (!mesh.recorder) mesh.recorder = take_recorder();
  mesh.recorder->reset();
  mesh.recorder->set_hosts(mesh.hosts_along_axes());
  mesh.recorder->set_log(log);
  mesh.recording = true;
}
SHARDWISE_INLINE void restart_recording(MeshState& mesh) { mesh.recorder->restart(); }
SHARDWISE_INLINE void end_recording(MeshState& mesh) {
  mesh.recorder->set_log(nullptr);
  mesh.recording = false;
}

}  // namespace shardwise::detail
#endif
