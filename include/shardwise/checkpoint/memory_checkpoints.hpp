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

#include <tuple>

#include <shardwise/checkpoint/load.hpp>
#include <shardwise/checkpoint/save.hpp>

namespace shardwise {

namespace detail {

/// The folder of each host, with one folder per step: the manifest, and the files of some ranks.
class HostMemory {
 public:
  HostMemory(Communicator ranks, Path folder, int copies)
      : ranks_(std::move(ranks)), folder_(std::move(folder)), copies_(copies) {}

  void save(Index step, const CheckpointContents& contents, Json notes);
  std::optional<Index> latest();
  LoadedCheckpoint load(const CheckpointContents& contents, const LoadCheckpointOptions& options);
  void clear();

 private:
  /// The files that a host has of a step.
  struct Held {
    Index step = -1;
    std::string checksum;  ///< of the manifest; another job may have saved the same step
    int files = 0;         ///< of the checkpoint
    std::vector<int> of;   ///< the ranks whose files are there
  };
  /// The newest step that the hosts together have.
  struct Found {
    Held whole;
    std::vector<std::vector<bool>> has;  ///< for each host and file
    std::vector<bool> has_manifest;      ///< for each host
  };

  const Hosts& hosts() const { return ranks_.hosts(); }
  int host() const { return hosts().of(ranks_.rank()); }
  bool is_first_on_host() const { return hosts().ranks_on(host()).front() == ranks_.rank(); }
  Path path_of(Index step) const { return folder_ / ("step-" + with_digits(8, step)); }
  /// Calls f(other) for the ranks of other hosts whose files this rank keeps.
  template <class F>
  void for_kept(F f) const {
    for (int other = 0; other < ranks_.size(); ++other) {
      for (int i = 1; i < std::min(copies_, hosts().count()); ++i) {
        if (hosts().keeper((hosts().of(other) + i) % hosts().count(), other) == ranks_.rank()) f(other);
      }
    }
  }
  std::vector<Held> held() const;
  Found found() const;
  void remove_all_but(Index step) const;
  void fetch(const Found& found, CollectiveWrite& work);

  Communicator ranks_;
  Path folder_;
  int copies_;
  PageBuffer own_, kept_;
};

}  // namespace detail

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
  /// twice `copies` times the blocks of its ranks, and to `load`, for the whole checkpoint.
  MemoryCheckpoints(Communicator ranks, std::filesystem::path folder)
      : memory_(std::move(ranks), std::move(folder), copies) {}

  /// Saves this step, and removes the others when all hosts have it. Throws `std::runtime_error`, on all
  /// ranks, if a host has no room: then nothing of this step is left.
  void save(Index step, const CheckpointContents& contents, Json notes = {}) {
    memory_.save(step, contents, std::move(notes));
  }
  /// The newest step of which the hosts together have all blocks, the same on every rank.
  std::optional<Index> latest() { return memory_.latest(); }
  /// Copies to each host what it lacks of that step, and loads it, as `load_checkpoint` does. Throws
  /// `std::runtime_error`, on all ranks, if there is none.
  LoadedCheckpoint load(const CheckpointContents& contents, const LoadCheckpointOptions& options = {}) {
    return memory_.load(contents, options);
  }
  /// Removes the folder on each host.
  void clear() { memory_.clear(); }

 private:
  detail::HostMemory memory_;
};

}  // namespace shardwise

#ifdef SHARDWISE_BODIES
namespace shardwise::detail {

SHARDWISE_INLINE void HostMemory::save(Index step, const CheckpointContents& contents, Json notes) {
  CollectiveWrite work(ranks_, "the checkpoint in the hosts' memory, " + path_of(step).string());
  CheckpointPieces pieces(contents, work.task, std::move(notes));
  const Path target = path_of(step), path = temporary_path(target, work.token);
  const auto end_step = [&] {
    work.end_step([&] {
      ranks_.barrier();  // no rank still writes there
      if (is_first_on_host()) remove_folder(path);
    });
  };
  work.on_each([&] {
    pieces.check_set(contents);
    pieces.copy_to(own_);
    if (!is_first_on_host()) return;
    std::filesystem::create_directories(folder_);
    remove_abandoned(folder_, "step-");
    std::filesystem::create_directory(path);
  });
  end_step();
  const std::string descriptions = pieces.gather_descriptions(work, end_step);

  const Index own[]{pieces.bytes()};
  const std::vector<Index> sizes = ranks_.all_gather(own);
  const auto ranks = static_cast<std::size_t>(ranks_.size());
  std::vector<Index> to(ranks, 0), from(ranks, 0);
  for (int i = 1; i < std::min(copies_, hosts().count()); ++i) {
    to[static_cast<std::size_t>(hosts().keeper((host() + i) % hosts().count(), ranks_.rank()))] = own[0];
  }
  for_kept(
      [&](int other) { from[static_cast<std::size_t>(other)] = sizes[static_cast<std::size_t>(other)]; });
  work.on_each([&] { kept_.reserve(sum_of(from)); });
  end_step();
  const std::vector<Index> begin(ranks, 0), places = offsets_of(from);
  ranks_.all_to_all(own_.data(), to, begin, kept_.data(), from, places, DataType::u8);

  work.on_each([&] {
    const auto write = [&](int rank, const char* data) {
      File(path / rank_file_name(rank), O_WRONLY | O_CREAT | O_EXCL)
          .write({data, static_cast<std::size_t>(sizes[static_cast<std::size_t>(rank)])}, 0);
    };
    write(ranks_.rank(), own_.data());
    for_kept([&](int other) { write(other, kept_.data() + places[static_cast<std::size_t>(other)]); });
  });
  end_step();
  work.on_each([&] {
    if (!is_first_on_host()) return;
    write_new_file(path / manifest_name, pieces.manifest_text(descriptions));
    remove_folder(target);  // of a job that was lost
    std::filesystem::rename(path, target);
  });
  end_step();
  if (is_first_on_host()) remove_all_but(step);  // now all hosts have this one
}

SHARDWISE_INLINE void HostMemory::remove_all_but(Index step) const {
  for (const auto& each : std::filesystem::directory_iterator(folder_)) {
    if (each.path() != path_of(step)) remove_folder(each.path());
  }
}

SHARDWISE_INLINE std::vector<HostMemory::Held> HostMemory::held() const {
  std::vector<Held> all;
  if (!std::filesystem::is_directory(folder_)) return all;
  for (const auto& each : std::filesystem::directory_iterator(folder_)) {
    Index step = -1;
    const std::string name = each.path().filename();
    if (name.find_first_not_of("0123456789", 5) != std::string::npos || !name.starts_with("step-")) continue;
    std::from_chars(name.data() + 5, name.data() + name.size(), step);
    try {
      const std::string source = (each.path() / manifest_name).string();
      const CheckpointManifest manifest = parse_manifest(read_text(source), source);
      const std::uint64_t number[]{manifest.checksum};
      Held held{step, hex_of(number), static_cast<int>(manifest.files.size()), {}};
      for (int i = 0; i < held.files; ++i) {
        const CheckpointFile& file = manifest.files[static_cast<std::size_t>(i)];
        std::error_code error;
        const auto bytes = std::filesystem::file_size(each.path() / file.name, error);
        if (!error && static_cast<Index>(bytes) == file.bytes) held.of.push_back(i);
      }
      all.push_back(std::move(held));
    } catch (const std::runtime_error&) {
      continue;  // damaged: another host may have it
    }
  }
  return all;
}

SHARDWISE_INLINE HostMemory::Found HostMemory::found() const {
  std::string mine;
  if (is_first_on_host()) {
    for (const Held& held : held()) {
      mine += std::to_string(held.step) + ' ' + held.checksum + ' ' + std::to_string(held.files);
      for (const int rank : held.of) mine += ' ' + std::to_string(rank);
      mine += '\n';
    }
  }
  const std::vector<std::string> texts = ranks_.all_gather(mine);
  std::map<std::tuple<Index, std::string>, Found> all;
  for (int host = 0; host < hosts().count(); ++host) {
    std::istringstream lines(texts[static_cast<std::size_t>(hosts().ranks_on(host).front())]);
    for (std::string line; std::getline(lines, line);) {
      std::istringstream words(line);
      Held held;
      words >> held.step >> held.checksum >> held.files;
      Found& found = all[{held.step, held.checksum}];
      if (found.has.empty()) {
        found.whole = held;
        const auto count = static_cast<std::size_t>(hosts().count());
        found.has.assign(count, std::vector<bool>(static_cast<std::size_t>(held.files)));
        found.has_manifest.assign(count, false);
      }
      found.has_manifest[static_cast<std::size_t>(host)] = true;
      for (std::size_t rank = 0; words >> rank;) found.has[static_cast<std::size_t>(host)].at(rank) = true;
    }
  }
  Found newest;
  for (auto& [key, found] : all) {
    bool whole = true;
    for (std::size_t file = 0; file < static_cast<std::size_t>(found.whole.files); ++file)
      whole = whole && std::ranges::any_of(found.has, [&](const auto& on_host) { return on_host[file]; });
    if (whole) newest = std::move(found);
  }
  return newest;
}

SHARDWISE_INLINE std::optional<Index> HostMemory::latest() {
  const Index step = found().whole.step;
  return step < 0 ? std::nullopt : std::optional(step);
}

/// Copies files to the hosts that lack them, a part at a time.
SHARDWISE_INLINE void HostMemory::fetch(const Found& found, CollectiveWrite& work) {
  constexpr Index most = 8 << 20;
  const Path path = path_of(found.whole.step);
  const auto first_on = [&](std::size_t host) { return hosts().ranks_on(static_cast<int>(host)).front(); };
  const auto ranks = static_cast<std::size_t>(ranks_.size());
  const std::size_t count = found.has.size();
  const auto end_step = [&] { work.end_step([] {}); };
  const auto with_manifest = std::ranges::find(found.has_manifest, true) - found.has_manifest.begin();
  std::string manifest;
  work.on_each([&] {
    if (first_on(static_cast<std::size_t>(with_manifest)) == ranks_.rank())
      manifest = read_text((path / manifest_name).string());
  });
  end_step();
  manifest = ranks_.all_gather(
      manifest)[static_cast<std::size_t>(first_on(static_cast<std::size_t>(with_manifest)))];
  const CheckpointManifest contents = parse_manifest(manifest, (path / manifest_name).string());
  work.on_each([&] {
    if (!is_first_on_host() || found.has_manifest[static_cast<std::size_t>(host())]) return;
    std::filesystem::remove_all(path);
    std::filesystem::create_directories(path);
  });
  end_step();
  for (std::size_t file = 0; file < contents.files.size(); ++file) {
    std::size_t source = 0;
    while (!found.has[source][file]) ++source;
    const CheckpointFile& each = contents.files[file];
    const bool sends = first_on(source) == ranks_.rank();
    const bool lacks = is_first_on_host() && !found.has[static_cast<std::size_t>(host())][file];
    if (std::ranges::all_of(found.has, [&](const auto& on_host) { return on_host[file]; })) continue;
    std::optional<File> open;
    work.on_each([&] {
      if (sends) open.emplace(path / each.name, O_RDONLY);
      if (lacks) open.emplace(path / each.name, O_WRONLY | O_CREAT | O_TRUNC);
      kept_.reserve(most);
    });
    end_step();
    for (Index done = 0; done < each.bytes; done += most) {
      const Index part = std::min(most, each.bytes - done);
      std::vector<Index> to(ranks, 0), from(ranks, 0);
      const std::vector<Index> begin(ranks, 0);
      for (std::size_t host = 0; host < count && sends; ++host)
        if (!found.has[host][file]) to[static_cast<std::size_t>(first_on(host))] = part;
      if (lacks) from[static_cast<std::size_t>(first_on(source))] = part;
      work.on_each([&] {
        if (sends) open->read(kept_.data(), part, done);
      });
      ranks_.all_to_all(sends ? kept_.data() : nullptr, to, begin, lacks ? kept_.data() : nullptr, from,
                        begin, DataType::u8);
      work.on_each([&] {
        if (lacks) open->write({kept_.data(), static_cast<std::size_t>(part)}, done);
      });
    }
    end_step();
  }
  work.on_each([&] {
    if (is_first_on_host() && !found.has_manifest[static_cast<std::size_t>(host())])
      write_new_file(path / manifest_name, manifest);
  });
  end_step();
}

SHARDWISE_INLINE LoadedCheckpoint HostMemory::load(const CheckpointContents& contents,
                                                   const LoadCheckpointOptions& options) {
  CollectiveWrite work(ranks_, "the checkpoint in the hosts' memory, " + folder_.string());
  const Found newest = found();
  if (newest.whole.step < 0) {
    fail<std::runtime_error>(
        {work.task, ": the ", hosts().count(), " hosts do not have all blocks of a step"});
  }
  fetch(newest, work);
  return load_checkpoint(path_of(newest.whole.step), contents, options);
}

SHARDWISE_INLINE void HostMemory::clear() {
  ranks_.barrier();
  if (is_first_on_host()) remove_folder(folder_);
  ranks_.barrier();
}

}  // namespace shardwise::detail
#endif
