// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Holds three accounts of one run against each other: the dry plan, the recording on the real mesh, and what
/// MPI was asked for.

#include <doctest/doctest.h>
#include <shardwise/inspect/plan_table.hpp>
#include <shardwise/mesh/mesh.hpp>
#include <shardwise/mesh/trace.hpp>

#include <support/mpi_counter.hpp>

#include <string>
#include <vector>

namespace shardwise::testing {

/// An all-to-all of bfloat16 among more than two: a sum, made in float, of which an all-reduce's is gathered at once. (A
/// reduce-scatter that an all-gather of as many bytes follows would look the same: tests have none.)
inline bool is_sum(const mpi_counter::Event& event) {
  return event.kind == &mpi_counter::seen.all_to_all && event.type == MPI_UINT16_T &&
         mpi_counter::size_of(event.comm) > 2;
}
inline bool gathers_sum(const mpi_counter::Event& event, const mpi_counter::Event& sum) {
  return event.kind == &mpi_counter::seen.all_gather && event.type == MPI_UINT16_T &&
         event.comm == sum.comm && event.bytes == sum.bytes;
}

/// What MPI saw since the last reset, as a plan of one phase.
template <MeshAxis... Axes>
CommunicationPlan<Axes...> seen_by_mpi(const Mesh<Axes...>& mesh) {
  constexpr AxisSet every_axis = (1u << sizeof...(Axes)) - 1;
  AxisSet active = 0;
  for (std::size_t axis = 0; axis < sizeof...(Axes); ++axis)
    active |= mesh.sizes()[axis] > 1 ? 1u << axis : 0;
  const mpi_counter::Counts& seen = mpi_counter::counts();
  Recorder recorder;
  for (auto next = mpi_counter::events.begin(); next != mpi_counter::events.end();) {
    const mpi_counter::Event& event = *next++;
    AxisSet axes = 0;
    for (AxisSet set = 1; set <= every_axis; ++set) {
      if ((set & active) == set && mesh.communicator(set).native() == event.comm) axes = set;
    }
    Collective kind = event.kind == &seen.all_reduce       ? Collective::all_reduce
                      : event.kind == &seen.all_gather     ? Collective::all_gather
                      : event.kind == &seen.reduce_scatter ? Collective::reduce_scatter
                                                           : Collective::all_to_all;
    if (is_sum(event)) {
      const bool gathered = next != mpi_counter::events.end() && gathers_sum(*next, event);
      kind = gathered ? Collective::all_reduce : Collective::reduce_scatter;
      if (gathered) ++next;
    }
    recorder.communicate(kind, axes, event.bytes);
  }
  return {recorder.record(), mesh.sizes()};
}

/// The same calls and bytes of each kind on each set of axes, whatever the phase.
template <MeshAxis... Axes>
bool same_traffic(const CommunicationPlan<Axes...>& a, const CommunicationPlan<Axes...>& b) {
  for (std::size_t kind = 0; kind < collective_kinds; ++kind) {
    for (std::size_t axes = 0; axes < 1 << max_axes; ++axes) {
      Traffic sums[2];
      for (std::size_t phase = 0; phase < phases; ++phase) {
        for (int i = 0; i < 2; ++i) {
          const Traffic& cell = (i == 0 ? a : b).record().traffic[phase][kind][axes];
          sums[i].calls += cell.calls;
          sums[i].bytes += cell.bytes;
        }
      }
      if (sums[0] != sums[1]) return false;
    }
  }
  return true;
}

/// Checks that the dry plan, the recording on the real mesh, and what MPI saw meanwhile agree in every call, its bytes and
/// their order, in flops and in memory.
template <MeshAxis... Axes>
void check_agreed(const Mesh<Axes...>& mesh, const CommunicationPlan<Axes...>& planned,
                  const CommunicationPlan<Axes...>& recorded) {
  INFO(plan_table("planned", planned, "recorded", recorded));
  CHECK(same_communication(planned, recorded));
  CHECK(planned.record().flops == recorded.record().flops);
  for (int use = 0; use < memory_uses; ++use) {
    CHECK(planned.peak_bytes(static_cast<MemoryUse>(use)) ==
          recorded.peak_bytes(static_cast<MemoryUse>(use)));
  }
  CHECK(planned == recorded);
  if (!mpi_counter::counting()) return;
  if (planned.count(Collective::send) > 0) return;  // MPI does not tell them from the pieces of an all-to-all
  const auto seen = seen_by_mpi(mesh);
  INFO(plan_table("planned", planned, "seen by MPI", seen));
  CHECK(same_traffic(planned, seen));
  CHECK(planned.record().sequence == seen.record().sequence);
  CHECK(mpi_counter::counts().data_calls() == static_cast<std::ptrdiff_t>(mpi_counter::events.size()));
}

/// The plan of `step(mesh)` at this rank's place, which runs on a dry mesh alone: for what another test holds against MPI.
template <MeshAxis... Axes, class F>
CommunicationPlan<Axes...> dry_plan(const Mesh<Axes...>& mesh, const F& step) {
  return trace<Mesh<Axes...>>({mesh.template size<Axes>()...}, step, {mesh.template rank<Axes>()...});
}

/// Runs `step(mesh)`, which works on dry and on real meshes, on `mesh` and dry at this rank's place; checks
/// that all three accounts agree; returns the plan.
template <MeshAxis... Axes, class F>
CommunicationPlan<Axes...> agreed_plan(const Mesh<Axes...>& mesh, const F& step) {
  const auto planned = dry_plan(mesh, step);
  mpi_counter::reset();
  Recording recording(mesh);
  step(mesh);
  check_agreed(mesh, planned, recording.plan());
  return planned;
}

/// Every mesh of a data and a tensor axis that this job can make, with up to 4 ranks along the second.
inline std::vector<Mesh<dp, tp>> data_by_tensor_meshes(const Communicator& all = world()) {
  const int ranks = all.size();
  std::vector<Mesh<dp, tp>> meshes;
  for (int data = 1; data <= ranks; ++data) {
    if (ranks % data == 0 && ranks / data <= 4)
      meshes.emplace_back(all, std::array<int, 2>{data, ranks / data});
  }
  return meshes;
}

/// "forward / backward / optimizer" calls of one kind.
template <class PlanType>
std::string calls(const PlanType& plan, Collective kind) {
  return std::to_string(plan.count(kind, Phase::forward)) + " / " +
         std::to_string(plan.count(kind, Phase::backward)) + " / " +
         std::to_string(plan.count(kind, Phase::optimizer));
}

}  // namespace shardwise::testing
