// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// A plan: what a run does on one rank, as a value that can be asserted. Made by `trace`, or by recording a
/// run on a real mesh.
///
/// ```
/// static_assert(step.count(Collective::all_reduce) == 2);
/// static_assert(step.count(Collective::all_reduce, Phase::backward) == 1);
/// static_assert(step.bytes<tp>() == 2 * 2048 * 1024 * sizeof(float));
/// ```

#include <shardwise/mesh/axis.hpp>
#include <shardwise/mesh/recorder.hpp>

namespace shardwise {

template <MeshAxis... Axes>
class CommunicationPlan {
 public:
  using AxesOf = AxisList<Axes...>;

  constexpr CommunicationPlan() = default;
  constexpr CommunicationPlan(const Record& record, const MeshSizes& sizes)
      : record_(record), sizes_(sizes) {}

  /// Calls of one kind, in all phases or in one, on any axes.
  constexpr std::int64_t count(Collective kind) const { return total(kind, kind, all_phases, 0).calls; }
  constexpr std::int64_t count(Collective kind, Phase phase) const {
    return total(kind, kind, set_of(phase), 0).calls;
  }
  /// Calls of one kind in whose group the given axis takes part.
  template <class Axis>
  constexpr std::int64_t count(Collective kind) const {
    return total(kind, kind, all_phases, axis_bit<Axis>()).calls;
  }
  /// All collectives.
  constexpr std::int64_t collectives() const { return everything(all_phases, 0).calls; }
  constexpr std::int64_t collectives(Phase phase) const { return everything(set_of(phase), 0).calls; }

  /// Bytes of all collectives, in which the given axis takes part if one is given.
  constexpr std::int64_t bytes() const { return everything(all_phases, 0).bytes; }
  constexpr std::int64_t bytes(Phase phase) const { return everything(set_of(phase), 0).bytes; }
  template <class Axis>
  constexpr std::int64_t bytes() const {
    return everything(all_phases, axis_bit<Axis>()).bytes;
  }

  /// Floating-point operations of this rank; a multiply-add counts two.
  constexpr std::int64_t flops() const { return record_.flops[0] + record_.flops[1] + record_.flops[2]; }
  constexpr std::int64_t flops(Phase phase) const { return record_.flops[static_cast<int>(phase)]; }

  /// Bytes of this rank's blocks: the most that were in use at one time.
  constexpr std::int64_t peak_bytes(MemoryUse use) const {
    return record_.memory[static_cast<int>(use)].peak;
  }
  /// The same of all blocks together.
  constexpr std::int64_t peak_bytes() const { return record_.all_memory.peak; }
  constexpr std::int64_t parameter_bytes() const { return peak_bytes(MemoryUse::parameter); }
  constexpr std::int64_t peak_activation_bytes() const { return peak_bytes(MemoryUse::activation); }

  constexpr const Record& record() const { return record_; }
  constexpr const MeshSizes& sizes() const { return sizes_; }

  /// Equal in every collective, in their order, in bytes and flops, and in memory.
  friend constexpr bool operator==(const CommunicationPlan& a, const CommunicationPlan& b) {
    for (int use = 0; use < memory_uses; ++use) {
      if (a.record_.memory[use].peak != b.record_.memory[use].peak) return false;
    }
    return same_communication(a, b) && a.record_.flops == b.record_.flops;
  }
  /// Equal in every collective, in their order and in their bytes.
  friend constexpr bool same_communication(const CommunicationPlan& a, const CommunicationPlan& b) {
    return a.record_.traffic == b.record_.traffic && a.record_.sequence == b.record_.sequence;
  }

 private:
  static constexpr unsigned all_phases = 7;
  static constexpr unsigned set_of(Phase phase) { return 1u << static_cast<unsigned>(phase); }

  template <class Axis>
  static constexpr AxisSet axis_bit() {
    static_assert(AxesOf::template has<Axis>, "the mesh of this plan has no such axis");
    return 1u << AxesOf::template index<Axis>;
  }

  constexpr Traffic everything(unsigned phase_set, AxisSet with) const {
    return total(Collective::all_reduce, Collective::all_to_all, phase_set, with);
  }
  constexpr Traffic total(Collective first, Collective last, unsigned phase_set, AxisSet with) const {
    Traffic sum;
    for (int phase = 0; phase < phases; ++phase) {
      if (!(phase_set >> phase & 1u)) continue;
      for (int kind = static_cast<int>(first); kind <= static_cast<int>(last); ++kind) {
        for (AxisSet axes = 0; axes < 1u << AxesOf::count; ++axes) {
          if ((axes & with) != with) continue;
          sum.calls += record_.traffic[phase][kind][axes].calls;
          sum.bytes += record_.traffic[phase][kind][axes].bytes;
        }
      }
    }
    return sum;
  }

  Record record_{};
  MeshSizes sizes_{};
};

}  // namespace shardwise
