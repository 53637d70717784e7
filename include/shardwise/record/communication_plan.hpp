// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// A plan: the communication, flops and memory of a run on one rank, as a value for assertions. `trace` makes one,
/// and so does recording a run on a real mesh.
///
/// ```
/// static_assert(step.count(Collective::all_reduce) == 2);
/// static_assert(step.count(Collective::all_reduce, Phase::backward) == 1);
/// static_assert(step.bytes<tp>() == 2 * 2048 * 1024 * sizeof(float));
/// ```

#include <optional>

#include <shardwise/layout/axis.hpp>
#include <shardwise/record/recorder.hpp>

namespace shardwise {

/// The counts of one rank of a mesh with these axes.
template <MeshAxis... Axes>
class CommunicationPlan {
 public:
  using AxesOf = AxisList<Axes...>;

  constexpr CommunicationPlan() = default;
  /// From the counts of a recorder on a mesh of these sizes.
  constexpr CommunicationPlan(const Record& record, const MeshSizes& sizes)
      : record_(record), sizes_(sizes) {}

  /// Calls of one kind, in one phase or in all. With an axis: those whose group includes this axis, alone or with
  /// others.
  template <class Axis = void>
  constexpr std::int64_t count(Collective kind, std::optional<Phase> phase = {}) const {
    return total(kind, phase, axis_bit<Axis>()).calls;
  }
  template <class Axis = void>
  constexpr std::int64_t collectives(std::optional<Phase> phase = {}) const {
    return total({}, phase, axis_bit<Axis>()).calls;
  }
  template <class Axis = void>
  constexpr std::int64_t bytes(std::optional<Phase> phase = {}) const {
    return total({}, phase, axis_bit<Axis>()).bytes;
  }

  /// The bytes that this rank receives in collectives, if blocks are equal and each collective receives the least
  /// possible: of g ranks, (g-1)/g of its bytes, an all-reduce twice that.
  template <class Axis = void>
  constexpr std::int64_t received_bytes(std::optional<Phase> phase = {}) const {
    std::int64_t sum = 0;
    for (const Collective kind : {Collective::all_reduce, Collective::all_gather, Collective::reduce_scatter,
                                  Collective::all_to_all}) {
      for (AxisSet axes = 0; axes < 1u << AxesOf::count; ++axes) {
        if ((axes & axis_bit<Axis>()) != axis_bit<Axis>()) continue;
        const int ranks = group_size(sizes_, AxesOf::count, axes);
        for (int p = 0; p < phases; ++p) {
          if (phase && *phase != static_cast<Phase>(p)) continue;
          sum += bytes_sent(kind, record_.traffic[p][static_cast<int>(kind)][axes].bytes, ranks);
        }
      }
    }
    return sum;
  }

  /// Bytes that this rank sends to other hosts: in all phases, or in one.
  constexpr std::int64_t bytes_to_other_hosts() const {
    return record_.to_other_hosts[0] + record_.to_other_hosts[1] + record_.to_other_hosts[2];
  }
  constexpr std::int64_t bytes_to_other_hosts(Phase phase) const {
    return record_.to_other_hosts[static_cast<int>(phase)];
  }

  /// Floating-point operations of this rank; a multiply-add counts as two.
  constexpr std::int64_t flops() const { return record_.flops[0] + record_.flops[1] + record_.flops[2]; }
  constexpr std::int64_t flops(Phase phase) const { return record_.flops[static_cast<int>(phase)]; }

  /// The most bytes that this rank's blocks of this use occupied at one time.
  constexpr std::int64_t peak_bytes(MemoryUse use) const {
    return record_.memory[static_cast<int>(use)].peak;
  }
  /// The same for blocks of all uses together.
  constexpr std::int64_t peak_bytes() const { return record_.all_memory.peak; }
  constexpr std::int64_t parameter_bytes() const { return peak_bytes(MemoryUse::parameter); }
  constexpr std::int64_t peak_activation_bytes() const { return peak_bytes(MemoryUse::activation); }

  /// The counts, and the sizes of the mesh.
  constexpr const Record& record() const { return record_; }
  constexpr const MeshSizes& sizes() const { return sizes_; }

  /// Equal in every collective and their order, in bytes, flops and memory.
  friend constexpr bool operator==(const CommunicationPlan& a, const CommunicationPlan& b) {
    for (int use = 0; use < memory_uses; ++use) {
      if (a.record_.memory[use].peak != b.record_.memory[use].peak) return false;
    }
    return same_communication(a, b) && a.record_.flops == b.record_.flops;
  }
  /// Equal in every collective, in their order and bytes.
  friend constexpr bool same_communication(const CommunicationPlan& a, const CommunicationPlan& b) {
    return a.record_.traffic == b.record_.traffic && a.record_.sequence == b.record_.sequence;
  }

 private:
  template <class Axis>
  static constexpr AxisSet axis_bit() {
    if constexpr (std::is_void_v<Axis>) {
      return 0;
    } else {
      static_assert(AxesOf::template has<Axis>, "the mesh of this plan has no such axis");
      return 1u << AxesOf::template index<Axis>;
    }
  }

  /// The traffic of one kind or all, in one phase or all, on the groups that include all axes of `with`.
  constexpr Traffic total(std::optional<Collective> kind, std::optional<Phase> phase, AxisSet with) const {
    Traffic sum;
    for (int p = 0; p < phases; ++p) {
      for (int k = 0; k < collective_kinds; ++k) {
        if ((phase && *phase != static_cast<Phase>(p)) || (kind && *kind != static_cast<Collective>(k)))
          continue;
        for (AxisSet axes = 0; axes < 1u << AxesOf::count; ++axes) {
          if ((axes & with) != with) continue;
          sum.calls += record_.traffic[p][k][axes].calls;
          sum.bytes += record_.traffic[p][k][axes].bytes;
        }
      }
    }
    return sum;
  }

  Record record_{};
  MeshSizes sizes_{};
};

/// Redistributions that a step could save, by kind, axes and operation. They are found where the gradient of a value is
/// redistributed, so not in a run without a backward pass. `plan_table` prints them, with what to write instead.
/// ```
/// static_assert(wasted(step).empty());
/// ```
template <MeshAxis... Axes>
constexpr std::vector<Waste> wasted(const CommunicationPlan<Axes...>& plan) {
  std::vector<Waste> found;
  for (const Waste& each : plan.record().wasted) {
    if (each.calls > 0) found.push_back(each);
  }
  return found;
}

}  // namespace shardwise
