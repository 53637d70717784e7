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

/// In a list of mesh sizes: whatever makes the sizes multiply to the number of ranks. At most once.
inline constexpr int any = -1;

namespace detail {

/// The sizes of a mesh of these ranks whose axes have these names. Collective; throws `std::invalid_argument`, on every
/// rank, if the ranks want different ones, or if they do not multiply to their number.
MeshSizes fitted(const Communicator& ranks, std::span<const char* const> names, std::span<const int> wanted);

/// A dry mesh that is a job.
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
  if (ranks_per_host > 0) counts.set_hosts(made->hosts_along_axes());
  return made;
}

}  // namespace detail

/// A cheap handle; all copies are the same mesh, and belong to one thread.
///
/// A mesh is real or dry. A dry one has sizes and a rank, but neither processes nor memory: what runs on it only counts, at
/// run time or in the compiler. `trace` makes one.
template <MeshAxis... Axes>
class Mesh {
 public:
  using AxesOf = AxisList<Axes...>;
  using PlanOf = CommunicationPlan<Axes...>;
  using SizesOf = std::array<int, sizeof...(Axes)>;
  static constexpr int axes = AxesOf::count;

  constexpr Mesh() = default;

  /// Arranges all ranks of `ranks`, in their order; in that of `ranks.by_host()` the last axes stay within hosts as far as
  /// hosts have room. Collective over them. Throws `std::invalid_argument`, on every rank, if the sizes do not multiply to
  /// their number, or if a rank has other axes or sizes.
  Mesh(const Communicator& ranks, const SizesOf& sizes)
      : state_(MeshHandle::make(ranks, MeshPlace::job(axes, detail::fitted(ranks, AxesOf::names, sizes)),
                                &AxesOf::text, MeshHandle())) {}

  template <std::size_t N, IllFormed Why = WrittenOtherwise<Hint::give_one_size_per_axis>>
    requires(N != axes)
  Mesh(const Communicator&, const int (&)[N])
  = delete;  // see Why
  template <IllFormed Why = WrittenOtherwise<Hint::give_it_Communicator_duplicate_of_this>>
  Mesh(MPI_Comm, const SizesOf&) = delete;  // see Why

  /// A dry mesh of these sizes, seen by the rank at `coordinates`; `counts` must live as long. Hosts have `ranks_per_host`
  /// ranks that follow one another; 0: all.
  constexpr Mesh(Recorder& counts, const SizesOf& sizes, const SizesOf& coordinates = {},
                 int ranks_per_host = 0)
      : state_(detail::dry_job(counts, AxesOf::names, sizes, coordinates, ranks_per_host)) {}

  constexpr bool dry() const { return handle()->dry; }

  /// Number of ranks along an axis, and this rank's position there.
  template <class Axis>
  constexpr int size() const {
    return sizes()[index<Axis>()];
  }
  template <class Axis>
  constexpr int rank() const {
    return coordinates()[index<Axis>()];
  }
  /// Number of ranks in all, and this rank's position among them.
  constexpr int size() const { return place().ranks.size(); }
  constexpr int rank() const { return RankGrid::whole(axes, sizes()).rank(coordinates()); }
  constexpr const MeshSizes& sizes() const { return handle()->place.ranks.sizes; }
  constexpr const MeshSizes& coordinates() const { return handle()->coordinates; }
  constexpr const MeshPlace& place() const { return handle()->place; }
  /// This rank's coordinates, but `position` along an axis.
  template <class Axis>
  constexpr MeshSizes at(int position) const {
    if (position < 0 || position >= size<Axis>())
      detail::fail({"at: axis ", Axis::name, " has ", size<Axis>(), " ranks, and none at ", position});
    MeshSizes changed = coordinates();
    changed[index<Axis>()] = position;
    return changed;
  }

  /// All ranks; or those that differ from this one along the given axes only. Throws `std::logic_error` on a dry mesh.
  const Communicator& communicator() const { return communicator((1u << axes) - 1); }
  template <class... Some>
    requires(sizeof...(Some) > 0)
  const Communicator& communicator() const { return communicator(((1u << index<Some>()) | ...)); }
  /// The same for a set of axes. A joint communicator is made when a plan first needs it: collective over its
  /// members then.
  const Communicator& communicator(AxisSet set) const { return handle()->communicator(set); }

  /// Do all ranks along an axis share a host?
  template <class Axis>
  constexpr bool within_host() const {
    return handle()->hosts_along_axes()[1u << index<Axis>()].hosts == 1;
  }

  /// Which ranks of the job it has. (A mesh that was made of a communicator is a job, and has all of them.)
  constexpr MeshRanks<Axes...> ranks() const { return MeshRanks<Axes...>(place().ranks); }
  /// A mesh of any ranks of the job. Collective over them; throws `std::invalid_argument` on a rank that is not among
  /// them, and for ranks that the job does not have.
  template <class... Some>
  constexpr Mesh<Some...> part(const MeshRanks<Some...>& some) const {
    return Mesh<Some...>(handle()->part(some.grid(), &AxisList<Some...>::text));
  }
  /// The mesh of the ranks that differ from this one along the given axes only, in that order. Collective over them. It
  /// is a part of the same job: what runs on it is recorded with the job, by the job's axes.
  template <class... Some>
  constexpr Mesh<Some...> submesh() const {
    return part(submesh_ranks<Some...>(coordinates()));
  }
  /// Those of the `submesh<Some...>()` of the rank at `through`: of any, by `at`.
  template <class... Some>
  constexpr MeshRanks<Some...> submesh_ranks(const MeshSizes& through) const {
    return MeshRanks<Some...>(place().ranks.slice({index<Some>()...}, through));
  }

  /// Of a dry mesh, or while a `Recording` runs; else null.
  constexpr Recorder* recorder() const { return handle()->active_recorder(); }
  /// For `MeshView` and `Recording`. Throws `std::logic_error` if there are no ranks, as all that asks for them does.
  constexpr const MeshHandle& handle() const {
    if (!state_)
      detail::fail<std::logic_error>(
          {"a mesh that was made without ranks, as by Mesh(), or is that of an empty tensor"});
    return state_;
  }

  friend constexpr bool operator==(const Mesh& a, const Mesh& b) { return a.state_.same_as(b.state_); }

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

/// Records what runs on a real mesh, from construction to destruction.
///
/// ```
/// Recording recording(mesh);
/// … a training step …
/// same_communication(recording.plan(), planned);
/// ```
template <class MeshType>
class Recording {
 public:
  /// `log`: keeps what happens when, if it is not null.
  explicit Recording(MeshType mesh, EventLog* log = nullptr) : mesh_(std::move(mesh)) {
    if (state().recording) throw std::logic_error("Recording: this mesh is being recorded already");
    if (!state().recorder) state().recorder = detail::take_recorder();
    state().recorder->reset();
    state().recorder->set_hosts(state().hosts_along_axes());
    state().recorder->set_log(log);
    state().recording = true;
  }
  ~Recording() {
    state().recorder->set_log(nullptr);
    state().recording = false;
  }
  Recording(const Recording&) = delete;
  Recording& operator=(const Recording&) = delete;

  /// Counts afresh from here, but knows of the memory that is in use: for one step of many.
  void restart() { state().recorder->restart(); }

  /// What has been recorded up to now.
  typename MeshType::PlanOf plan() const { return {state().recorder->record(), mesh_.sizes()}; }

 private:
  detail::MeshState& state() const { return *mesh_.handle(); }

  MeshType mesh_;
};

}  // namespace shardwise

#ifdef SHARDWISE_BODIES
namespace shardwise {
namespace detail {

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
    if (size != any && product <= std::numeric_limits<int>::max()) product *= size;  // never overflows
  }
  if (open < 0 ? product != ranks.size() : ranks.size() % product != 0) {
    fail({"Mesh: ", text, open < 0 ? " is " : " needs a multiple of ", product, " ranks, but the job has ",
          ranks.size()});
  }
  if (open >= 0) sizes[open] = ranks.size() / static_cast<int>(product);
  return sizes;
}

}  // namespace detail
}  // namespace shardwise
#endif
