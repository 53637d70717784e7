// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The recorder counts collectives (by phase, kind and axes) with their bytes, flops, and memory by use. The dry
/// run uses it, also in constant expressions; so does a real mesh while it is recorded.
///
/// The bytes of a collective are those of the larger of its two buffers on one rank, as in nccl-tests: an
/// all-reduce counts its buffer, an all-gather its result, a reduce-scatter its input, an all-to-all what the rank
/// sends (its own part included). A message between two ranks counts where it is sent. Bytes that the rank sends to
/// other hosts are also counted separately. With an `EventLog`, the recorder also logs events in order.

#include <shardwise/base/hash.hpp>
#include <shardwise/layout/rank_grid.hpp>
#include <shardwise/record/event_log.hpp>

namespace shardwise {

/// The number of calls, and their bytes.
struct Traffic {
  std::int64_t calls = 0;
  std::int64_t bytes = 0;
  friend constexpr bool operator==(const Traffic&, const Traffic&) = default;
};

/// How the ranks along some axes are distributed over hosts, as seen by one of them; see `Hosts`.
struct HostsAlong {
  int ranks = 1;
  int hosts = 1;
  int elsewhere = 0;  ///< ranks on other hosts
  int kept = 0;       ///< of these, the ranks whose blocks this rank keeps
};

/// The distribution over hosts for each set of axes of a grid; `host_of` returns the host of a rank. Counts as `Hosts`
/// pairs ranks, without its lists.
template <class HostOf>
constexpr Array<HostsAlong, 1 << max_axes> hosts_along_axes(const RankGrid& grid,
                                                            const MeshSizes& coordinates, HostOf host_of) {
  Array<HostsAlong, 1 << max_axes> all{};
  const AxisSet several = axes_where(grid.axes, [&](int axis) { return grid.sizes[axis] > 1; });
  for (AxisSet set = 1; set < 1u << grid.axes; ++set) {
    if ((set & several) != set) {
      all[set] = all[set & several];
      continue;
    }
    std::vector<int> ids = grid.group(set, coordinates);
    const auto self = std::find(ids.begin(), ids.end(), grid.rank(coordinates)) - ids.begin();
    for (int& each : ids) each = host_of(each);
    const int own = ids[static_cast<std::size_t>(self)];
    const auto number = std::count(ids.begin(), ids.begin() + self, own),  // of this rank on its host
        together = std::count(ids.begin(), ids.end(), own);
    if (!std::is_sorted(ids.begin(), ids.end())) std::sort(ids.begin(), ids.end());
    const auto ranks = static_cast<int>(ids.size());
    HostsAlong& along = all[set] = {ranks, 0, ranks - static_cast<int>(together)};
    for (auto host = ids.begin(), next = host; host != ids.end(); host = next) {
      next = std::upper_bound(host, ids.end(), *host);
      ++along.hosts;
      if (*host != own) along.kept += static_cast<int>((next - host - number + together - 1) / together);
    }
  }
  return all;
}

/// The same if all ranks are on one host.
constexpr Array<HostsAlong, 1 << max_axes> all_on_one_host(const MeshSizes& sizes, int axes) {
  Array<HostsAlong, 1 << max_axes> all{};
  for (AxisSet set = 1; set < 1u << axes; ++set) all[set].ranks = group_size(sizes, axes, set);
  return all;
}

/// Bytes that a rank sends to other hosts in a collective of `bytes`: each block that it keeps goes home, its own
/// goes to each other host. (The total over all ranks is the minimum possible; blocks are assumed equal.)
constexpr std::int64_t bytes_to_other_hosts(Collective kind, std::int64_t bytes, const HostsAlong& along) {
  std::int64_t blocks = 0;
  if (kind == Collective::all_reduce || kind == Collective::reduce_scatter) blocks += along.kept;
  if (kind == Collective::all_reduce || kind == Collective::all_gather) blocks += along.hosts - 1;
  if (kind == Collective::all_to_all) blocks = along.elsewhere;
  return bytes * blocks / along.ranks;
}

/// The least that a rank sends in a collective of `bytes` on this number of ranks.
constexpr std::int64_t bytes_sent(Collective kind, std::int64_t bytes, int ranks) {
  const std::int64_t all = kind == Collective::all_reduce ? 2 * bytes : bytes;
  return all / ranks * (ranks - 1) + all % ranks * (ranks - 1) / ranks;  // all · (ranks - 1) would overflow
}

/// Redistributions of one kind, along the same axes and before the same operation, that a program can save.
struct Waste {
  /// Why the redistribution is not needed.
  enum Kind : std::uint8_t {
    repeated,      ///< of a value, and its gradient, that another layer redistributes in the same way
    summed_whole,  ///< of a gradient that is all-reduced although each rank then keeps only its part
  };
  Kind kind = repeated;
  AxisSet axes = 0;
  const char* operation = "";  ///< as "linear"
  std::int64_t calls = 0;
  std::int64_t bytes = 0;  ///< that the rank receives too much, as in `CommunicationPlan::received_bytes`
};

/// Bytes in use: now, and at the peak.
struct Memory {
  std::int64_t live = 0;
  std::int64_t peak = 0;

  /// Adds bytes, or takes away if negative.
  constexpr void add(std::int64_t bytes) {
    live += bytes;
    if (live > peak) peak = live;
  }
};

/// The counts: a plain value, which can be a constexpr variable.
struct Record {
  Array<Array<Array<Traffic, 1 << max_axes>, collective_kinds>, phases> traffic{};
  Array<std::int64_t, phases> to_other_hosts{};  ///< bytes
  Array<std::int64_t, phases> flops{};
  Array<Memory, memory_uses> memory{};
  Memory all_memory;
  Array<Waste, 8> wasted{};  ///< the first eight; those without calls are unused
  /// A hash of the sequence of collectives: equal for runs that make the same calls in the same order.
  detail::Fnv1a sequence;
};

/// Counts for one rank of a mesh, and keeps a log if it has one.
class Recorder {
 public:
  /// `background`: later events may overlap it; report its progress with `started` and `wait`. Returns its number
  /// in a log.
  constexpr std::int64_t communicate(Collective kind, AxisSet axes, Index bytes, bool background = false) {
    const std::int64_t across = bytes_to_other_hosts(kind, bytes, hosts_[axes]),
                       sent = bytes_sent(kind, bytes, hosts_[axes].ranks);
    return count(kind, axes, bytes, std::max<std::int64_t>(sent - across, 0), across, background);
  }
  /// A message in the background to a rank that differs from this one along these axes.
  constexpr std::int64_t send(AxisSet axes, Index bytes, bool to_other_host) {
    return count(Collective::send, axes, bytes, to_other_host ? 0 : bytes, to_other_host ? bytes : 0, true);
  }
  /// `moved`: the bytes that it reads and writes; 0 if its arithmetic certainly takes longer.
  constexpr void compute(std::int64_t flops, std::int64_t moved = 0, const char* operation = nullptr) {
    record_.flops.values[static_cast<int>(phase_)] += flops;
    if (operation) operation_ = operation;
    if (log_) begin({.operation = operation, .amount = flops, .moved = moved});
  }
  /// A redistribution of this kind, after the latest computation, could be saved: see `Waste`.
  constexpr void waste(Waste::Kind kind, AxisSet axes, std::int64_t bytes) {
    for (Waste& each : record_.wasted.values) {
      if (each.calls == 0) each = {kind, axes, operation_};
      if (each.kind != kind || each.axes != axes || each.operation != std::string_view(operation_)) continue;
      each.calls += 1;
      each.bytes += bytes;
      return;
    }
  }
  /// Returns the number of resets so far, to be passed to `release`.
  constexpr unsigned allocate(MemoryUse use, Index bytes) {
    record_.memory.values[static_cast<int>(use)].add(bytes);
    record_.all_memory.add(bytes);
    if (log_) log_->use(in_use());
    return epoch_;
  }
  /// Returns false, and counts nothing, if there was a reset since the allocation.
  constexpr bool release(MemoryUse use, Index bytes, unsigned epoch) {
    if (epoch != epoch_) return false;
    record_.memory.values[static_cast<int>(use)].live -= bytes;
    record_.all_memory.live -= bytes;
    return true;
  }

  /// Starts to log; of the memory in use the log then knows only the bytes. Null: no log.
  constexpr void set_log(EventLog* log) {
    log_ = log;
    begin_log();
  }
  constexpr bool logs() const { return log_ != nullptr; }
  /// The latest communication has been started, or is already `complete`.
  constexpr void started(bool complete) {
    if (log_) log_->close(complete);
  }
  /// This rank waits for a background communication, from here until `arrived`.
  constexpr void wait(Collective kind, AxisSet axes, std::int64_t number) {
    if (log_) begin({.kind = kind, .axes = axes, .waits = true, .awaited = number});
  }
  constexpr void arrived(std::int64_t number, std::int64_t count = 1) {
    if (log_) log_->arrived(number, count);
  }
  /// The part of the model that the work belongs to, see `Unit`; -1: none.
  constexpr int unit() const { return unit_; }
  constexpr void set_unit(int unit) { unit_ = unit; }
  /// The module that the work belongs to: its number in the log; -1: none.
  constexpr int module() const { return module_; }
  constexpr void set_module(int module) { module_ = module; }
  /// The number of the module at this address; the current one if it has no name.
  constexpr int module_at(const void* object) const {
    return log_ ? log_->module_at(object, module_) : module_;
  }
  /// Of the latest communication, these bytes belong to a module; -1: to the current one.
  constexpr void divide(int module, std::int64_t bytes) {
    if (log_) log_->divide(module < 0 ? module_ : module, bytes);
  }

  /// The distribution over hosts of the ranks along each set of axes. Before this call, events have no bytes that are
  /// sent.
  constexpr void set_hosts(const Array<HostsAlong, 1 << max_axes>& hosts) { hosts_ = hosts; }

  constexpr Phase phase() const { return phase_; }
  constexpr void set_phase(Phase phase) {
    phase_ = phase;
    if (log_) log_->close();
  }

  /// The counts since the last `reset` or `restart`.
  constexpr const Record& record() const { return record_; }

  /// Resets the counts, but keeps the memory that is in use.
  constexpr void restart() {
    Record fresh;
    for (int use = 0; use < memory_uses; ++use) fresh.memory[use].add(record_.memory[use].live);
    fresh.all_memory.add(record_.all_memory.live);
    record_ = fresh;
    begin_log();
  }

  /// Forgets all counts, also of memory.
  constexpr void reset() {
    record_ = {};
    phase_ = Phase::forward;
    unit_ = module_ = -1;
    ++epoch_;
  }

 private:
  constexpr std::int64_t count(Collective kind, AxisSet axes, Index bytes, std::int64_t within,
                               std::int64_t across, bool background) {
    Traffic& cell = record_.traffic[static_cast<int>(phase_)][static_cast<int>(kind)][axes];
    cell.calls += 1;
    cell.bytes += bytes;
    record_.to_other_hosts[static_cast<int>(phase_)] += across;
    for (std::uint64_t word : {static_cast<std::uint64_t>(kind), static_cast<std::uint64_t>(axes),
                               static_cast<std::uint64_t>(bytes)}) {
      record_.sequence.add(word);
    }
    if (!log_) return 0;
    begin({.kind = kind,
           .axes = axes,
           .background = background,
           .amount = bytes,
           .moved = within,
           .across = across});
    return events_ - 1;
  }
  constexpr void begin(Event event) {
    event.phase = phase_;
    event.unit = unit_;
    event.module = module_;
    event.number = events_++;
    event.memory = in_use();
    log_->begin(event);
  }
  constexpr void begin_log() {
    if (!log_) return;
    log_->clear();
    begin({});
  }
  constexpr Array<std::int64_t, memory_uses> in_use() const {
    Array<std::int64_t, memory_uses> bytes{};
    for (int use = 0; use < memory_uses; ++use) bytes[use] = record_.memory[use].live;
    return bytes;
  }

  Record record_{};
  Array<HostsAlong, 1 << max_axes> hosts_{};
  Phase phase_ = Phase::forward;
  unsigned epoch_ = 0;
  int unit_ = -1, module_ = -1;
  const char* operation_ = "";  ///< of the latest computation that has a name
  EventLog* log_ = nullptr;
  std::int64_t events_ = 1;  ///< events logged so far, plus one
};

/// Sets a property of the recorder for the duration of a scope.
template <auto get, auto set>
class RecorderScope {
 public:
  /// Sets `value` until the scope ends; does nothing without a recorder.
  template <class Value>
  constexpr RecorderScope(Recorder* recorder, Value value) : recorder_(recorder) {
    if (!recorder_) return;
    before_ = (recorder_->*get)();
    (recorder_->*set)(value);
  }
  constexpr ~RecorderScope() {
    if (recorder_) (recorder_->*set)(before_);
  }
  RecorderScope& operator=(RecorderScope&&) = delete;

 private:
  Recorder* recorder_;
  decltype((std::declval<Recorder&>().*get)()) before_{};
};
using PhaseScope = RecorderScope<&Recorder::phase, &Recorder::set_phase>;
using UnitScope = RecorderScope<&Recorder::unit, &Recorder::set_unit>;
using ModuleScope = RecorderScope<&Recorder::module, &Recorder::set_module>;

}  // namespace shardwise
