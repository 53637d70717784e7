// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Checkpoints in the memory of the hosts, for a restart that needs no storage: each host keeps the blocks of its own
/// ranks, and those of other hosts, in files of a memory file system. They outlive the job. When hosts are lost, the
/// others still have all blocks.
///
/// ```
/// MemoryCheckpoints<2> memory(run.ranks(), "/dev/shm/run-7");
/// static_assert(memory.hosts_that_may_be_lost == 1);
/// if (memory.latest()) memory.load(run);   // on the ranks and hosts that there are now, on any mesh
/// while (step < steps) {
///   …
///   if (++step % 20 == 0) memory.save(step, run);
/// }
/// memory.clear();
/// ```

#include <shardwise/checkpoint/host_memory.hpp>

namespace shardwise {

/// `copies`: the hosts that have each block, its own included. Where the job has fewer hosts, so many copies are made.
/// All members are collective over the ranks, those of the contents.
template <int copies = 2>
class MemoryCheckpoints {
  static_assert(copies >= 1, "each block has at least its own copy");

 public:
  /// So many hosts may be lost at once, at any moment, also while it saves: the others have the newest step that was
  /// saved completely, or the one before.
  static constexpr int hosts_that_may_be_lost = copies - 1;
  /// The bytes that a rank sends to other hosts per save, whose own part of the blocks has `own_bytes`.
  static constexpr Index sent_bytes(Index own_bytes) { return hosts_that_may_be_lost * own_bytes; }

  /// `folder`: of one run, on a memory file system of each host, such as /dev/shm/run-7. Each host needs room there for
  /// twice the blocks that it keeps; to `load`, and until the next save, for the whole checkpoint besides. A rank keeps
  /// a copy of its own blocks, as `Checkpointer` does.
  MemoryCheckpoints(Communicator ranks, std::filesystem::path folder)
      : memory_(std::move(ranks), std::move(folder), copies) {}

  /// Saves this step, and removes the others when all hosts have it. Throws `std::runtime_error`, on all ranks, which
  /// names the ranks, if a host has no room, or if hosts share the folder: then the step before stays.
  void save(Index step, const CheckpointContents& contents, Json notes = {}) {
    memory_.save(step, contents, std::move(notes));
  }
  /// The newest step of which the hosts together have all blocks, the same on every rank.
  std::optional<Index> latest() const { return memory_.latest(); }
  /// The notes that were saved with it; null if there is none.
  Json latest_notes() const { return memory_.latest_notes(); }
  /// Copies to each host what it lacks of that step, and loads it, as `load_checkpoint` does. Throws
  /// `std::runtime_error`, on all ranks, if there is none.
  LoadedCheckpoint load(const CheckpointContents& contents, const LoadCheckpointOptions& options = {}) {
    return memory_.load(contents, options);
  }
  /// Removes all steps, and on each host the folder, if it is empty then.
  void clear() const { memory_.clear(); }

 private:
  detail::HostMemory memory_;
};

}  // namespace shardwise
