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

#include <shardwise/mesh/communication_plan.hpp>
#include <shardwise/mesh/mesh_on_axes.hpp>
#include <shardwise/mesh/mesh_state.hpp>
#include <shardwise/mesh/same_on_all_ranks.hpp>

namespace shardwise {

/// In a list of mesh sizes: whatever makes the sizes multiply to the number of ranks. At most once.
inline constexpr int any = -1;

namespace detail {

/// The sizes of a mesh of these ranks whose axes have these names. Collective; throws `std::invalid_argument`, on every
/// rank, if the ranks want different ones, or if they do not multiply to their number.
template <class = void>
MeshSizes fitted(const Communicator& ranks, std::span<const char* const> names, std::span<const int> wanted) {
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

/// A cheap handle; all copies are the same mesh, and belong to one thread. Its sizes, and parts along axes: `MeshOnAxes`.
template <MeshAxis... Axes>
class Mesh : public detail::MeshOnAxes<Mesh<Axes...>, Axes...> {
 public:
  using Mesh::MeshOnAxes::axes, Mesh::MeshOnAxes::rank;
  using typename Mesh::MeshOnAxes::AxesOf, typename Mesh::MeshOnAxes::SizesOf;
  static constexpr bool dry = false;

  Mesh() = default;

  /// Arranges all ranks of `ranks`, in their order; in that of `ranks.by_host()` the last axes stay within hosts as far as
  /// hosts have room. Collective over them. Throws `std::invalid_argument`, on every rank, if the sizes do not multiply to
  /// their number, or if a rank has other axes or sizes.
  Mesh(const Communicator& ranks, const SizesOf& sizes)
      : state_(Shared<detail::MeshState>::make(
            ranks, MeshPlace::job(axes, detail::fitted(ranks, AxesOf::names, sizes)), &AxesOf::text,
            Shared<detail::MeshState>())) {}

  /// This rank's position among all.
  int rank() const { return state_->all.rank(); }
  const MeshSizes& coordinates() const { return state_->coordinates; }
  const MeshPlace& place() const { return state_->place; }

  /// The ranks that differ from this one along the given axes only.
  template <class... Some>
  const Communicator& communicator() const {
    static_assert((AxesOf::template has<Some> && ...), "this mesh has no such axis");
    return communicator(((1u << AxesOf::template index<Some>) | ...));
  }
  /// The same for a set of axes. A joint communicator is made when a plan first needs it: collective over its
  /// members then.
  const Communicator& communicator(AxisSet set) const { return state_->communicator(set); }

  /// Do all ranks along an axis share a host?
  template <class Axis>
  bool within_host() const {
    return communicator<Axis>().hosts().count() == 1;
  }

  /// A mesh of any ranks of the job. Collective over them; throws `std::invalid_argument` on a rank that is not among
  /// them, and for ranks that the job does not have.
  template <class... Some>
  Mesh<Some...> part(const MeshRanks<Some...>& ranks) const {
    return Mesh<Some...>(state_->part(ranks.grid(), &AxisList<Some...>::text));
  }

  /// The recorder, while a `Recording` runs; else null.
  Recorder* recorder() const { return state_->active_recorder(); }
  /// For `MeshView` and `Recording`.
  detail::MeshState& state() const { return *state_; }

  friend bool operator==(const Mesh& a, const Mesh& b) { return a.state_.same_as(b.state_); }

 private:
  template <MeshAxis...>
  friend class Mesh;

  explicit Mesh(Shared<detail::MeshState> state) : state_(std::move(state)) {}

  Shared<detail::MeshState> state_;
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
  detail::MeshState& state() const { return mesh_.state(); }

  MeshType mesh_;
};

}  // namespace shardwise
