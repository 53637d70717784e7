// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The files of `MemoryCheckpoints`: on each host a folder, in it one folder per step, which has the manifest of a
/// checkpoint and the files of some ranks.

#include <tuple>

#include <shardwise/checkpoint/load.hpp>
#include <shardwise/checkpoint/save.hpp>

namespace shardwise::detail {

/// The folder of each host, with one folder per step: the manifest, and the files of some ranks.
class HostMemory {
 public:
  HostMemory(Communicator ranks, Path folder, int copies)
      : ranks_(std::move(ranks)), folder_(std::move(folder)), copies_(copies) {}

  void save(Index step, const CheckpointContents& contents, Json notes);
  std::optional<Index> latest() const;
  Json latest_notes() const;
  LoadedCheckpoint load(const CheckpointContents& contents, const LoadCheckpointOptions& options);
  void clear() const;

 private:
  /// The files that a host has of a step.
  struct Held {
    Index step = -1;
    std::string checksum;  ///< of the manifest; another job may have saved the same step
    int files = 0;         ///< of the checkpoint
    std::vector<int> of;   ///< the ranks whose files are there
  };
  /// A step, and which hosts have its files.
  struct Found {
    Index step = -1;                     ///< -1: none
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
  static constexpr Index part_bytes = 8 << 20;  ///< that are sent at a time
  /// `verified`: with right checksums.
  std::vector<Held> held(bool verified) const;
  void keep_undamaged(const Path& path, const CheckpointManifest& manifest, std::vector<int>& files) const;
  Found found(bool verified = false) const;
  std::string manifest_text(const Found& found) const;
  int first_on(std::size_t host) const { return hosts().ranks_on(static_cast<int>(host)).front(); }
  /// Calls f(path, step) for this host's steps, whole or not. Other files are not touched.
  template <class F>
  void for_each_step(F f) const {
    if (!std::filesystem::exists(folder_)) return;
    for (const auto& each : std::filesystem::directory_iterator(folder_)) {
      const std::string name = each.path().filename();
      const std::string_view whole = std::string_view(name).substr(0, name.find(temporary_mark));
      Index step = -1;
      if (whole.starts_with("step-")) std::from_chars(whole.data() + 5, whole.data() + whole.size(), step);
      if (step >= 0 && folder_ / whole == path_of(step)) f(each.path(), step);
    }
  }
  void check_folder(CollectiveWrite& work);
  void write_files(const CheckpointPieces& pieces, const Path& path, CollectiveWrite& work,
                   const std::function<void()>& end_step);
  void fetch(const Found& found, CollectiveWrite& work);

  Communicator ranks_;
  Path folder_;
  int copies_;
  PageBuffer own_, part_;
  bool is_checked_ = false;  ///< the folder
};

}  // namespace shardwise::detail

#ifdef SHARDWISE_BODIES
namespace shardwise::detail {

/// Collective: two hosts that share the folder find each other's file.
SHARDWISE_INLINE void HostMemory::check_folder(CollectiveWrite& work) {
  if (is_checked_) return;
  const std::string prefix = "host-" + std::to_string(work.token) + "-";
  const Path mine = folder_ / (prefix + std::to_string(host()));
  const auto discard = [&] {
    std::error_code none;
    if (is_first_on_host()) std::filesystem::remove(mine, none);
  };
  work.on_each([&] {
    if (!is_first_on_host()) return;
    std::filesystem::create_directories(folder_);
    write_new_file(mine, "");
  });
  work.end_step(discard);
  work.on_each([&] {
    if (!is_first_on_host()) return;
    for (const auto& each : std::filesystem::directory_iterator(folder_)) {
      const std::string name = each.path().filename();
      if (name.starts_with(prefix) && each.path() != mine) {
        fail<std::runtime_error>(
            {"the hosts share this folder: name one that each host has for itself, such as in "
             "/dev/shm"});
      }
    }
  });
  ranks_.barrier();
  discard();
  work.end_step([] {});
  is_checked_ = true;
}

SHARDWISE_INLINE void HostMemory::save(Index step, const CheckpointContents& contents, Json notes) {
  CollectiveWrite work(ranks_, "the checkpoint in the hosts' memory, " + path_of(step).string());
  check_folder(work);
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
    for_each_step([&](const Path& each, Index of) {  // of jobs that were killed
      if (each != path_of(of)) remove_folder(each);
    });
    std::filesystem::create_directories(path);
  });
  end_step();
  const std::string descriptions = pieces.gather_descriptions(work, end_step);
  write_files(pieces, path, work, end_step);
  end_step();
  work.on_each([&] {
    if (!is_first_on_host()) return;
    write_new_file(path / manifest_name, pieces.manifest_text(descriptions));
    remove_folder(target);  // of a job that was lost
    std::filesystem::rename(path, target);
  });
  end_step();
  throw_on_all_ranks(ranks_, work.task, [&] {
    if (!is_first_on_host()) return;
    for_each_step([&](const Path& each, Index) {  // now all hosts have this one
      if (each != target) remove_folder(each);
    });
  });
}

/// This rank's file, and those of other hosts that it keeps, which come a part at a time.
SHARDWISE_INLINE void HostMemory::write_files(const CheckpointPieces& pieces, const Path& path,
                                              CollectiveWrite& work, const std::function<void()>& end_step) {
  const Index own[]{pieces.bytes()};
  const std::vector<Index> sizes = ranks_.all_gather(own);
  const auto ranks = static_cast<std::size_t>(ranks_.size());
  const auto new_file = [&](int rank) {
    return File(path / rank_file_name(rank), O_WRONLY | O_CREAT | O_EXCL);
  };
  std::map<int, File> kept;
  work.on_each([&] {
    new_file(ranks_.rank()).write({own_.data(), static_cast<std::size_t>(own[0])}, 0);
    for_kept([&](int other) { kept.emplace(other, new_file(other)); });
  });
  Index received = 0;
  for_kept([&](int other) { received += std::min(part_bytes, sizes[static_cast<std::size_t>(other)]); });
  work.on_each([&] { part_.reserve(received); });
  end_step();
  const Index largest = *std::max_element(sizes.begin(), sizes.end());
  for (Index done = 0; done < largest; done += part_bytes) {
    const auto part_of = [&](std::size_t rank) {
      return std::clamp<Index>(sizes[rank] - done, 0, part_bytes);
    };
    std::vector<Index> to(ranks, 0), from(ranks, 0);
    for (int i = 1; i < std::min(copies_, hosts().count()); ++i) {
      const int keeper = hosts().keeper((host() + i) % hosts().count(), ranks_.rank());
      to[static_cast<std::size_t>(keeper)] = part_of(static_cast<std::size_t>(ranks_.rank()));
    }
    for_kept(
        [&](int other) { from[static_cast<std::size_t>(other)] = part_of(static_cast<std::size_t>(other)); });
    const std::vector<Index> begin(ranks, std::min(done, own[0])), places = offsets_of(from);
    ranks_.all_to_all(own_.data(), to, begin, part_.data(), from, places, DataType::u8);
    work.on_each([&] {
      for (const auto& [other, file] : kept) {
        const auto r = static_cast<std::size_t>(other);
        file.write({part_.data() + places[r], static_cast<std::size_t>(from[r])}, done);
      }
    });
  }
}

/// Removes the files with wrong checksums, or that cannot be read, from a list.
SHARDWISE_INLINE void HostMemory::keep_undamaged(const Path& path, const CheckpointManifest& manifest,
                                                 std::vector<int>& files) const {
  CheckpointReader reader(path, manifest);
  for (const CheckpointTensor& tensor : manifest.tensors) {
    for (const CheckpointPiece& piece : tensor.pieces) {
      const auto file = static_cast<int>(piece.file);
      if (!std::ranges::binary_search(files, file)) continue;
      bool is_right = true;
      try {
        reader.for_each_group(
            tensor, piece, rows_of(piece), [](Index, const char*, Index) {},
            [&](Range, bool group_is_right) { is_right = is_right && group_is_right; });
      } catch (const std::runtime_error&) {
        is_right = false;
      }
      if (!is_right) std::erase(files, file);
    }
  }
}

SHARDWISE_INLINE std::vector<HostMemory::Held> HostMemory::held(bool verified) const {
  std::vector<Held> all;
  for_each_step([&](const Path& path, Index step) {
    if (path != path_of(step)) return;
    try {
      const std::string source = (path / manifest_name).string();
      const CheckpointManifest manifest = parse_manifest(read_text(source), source);
      const std::uint64_t number[]{manifest.checksum};
      Held held{step, hex_of(number), static_cast<int>(manifest.files.size()), {}};
      for (int i = 0; i < held.files; ++i) {
        const CheckpointFile& file = manifest.files[static_cast<std::size_t>(i)];
        std::error_code error;
        const auto bytes = std::filesystem::file_size(path / file.name, error);
        if (!error && static_cast<Index>(bytes) == file.bytes) held.of.push_back(i);
      }
      if (verified) keep_undamaged(path, manifest, held.of);
      all.push_back(std::move(held));
    } catch (const std::runtime_error&) {  // no checkpoint, or damaged: another host may have it
    }
  });
  return all;
}

SHARDWISE_INLINE HostMemory::Found HostMemory::found(bool verified) const {
  std::string mine;
  throw_on_all_ranks(ranks_, "the checkpoints in the hosts' memory, " + folder_.string(), [&] {
    if (!is_first_on_host()) return;
    for (const Held& held : held(verified)) {
      mine += std::to_string(held.step) + ' ' + held.checksum + ' ' + std::to_string(held.files);
      for (const int rank : held.of) mine += ' ' + std::to_string(rank);
      mine += '\n';
    }
  });
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
        found.step = held.step;
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
    for (std::size_t file = 0; file < found.has.front().size(); ++file)
      whole = whole && std::ranges::any_of(found.has, [&](const auto& on_host) { return on_host[file]; });
    if (whole) newest = std::move(found);
  }
  return newest;
}

SHARDWISE_INLINE std::optional<Index> HostMemory::latest() const {
  const Index step = found().step;
  return step < 0 ? std::nullopt : std::optional(step);
}

SHARDWISE_INLINE Json HostMemory::latest_notes() const {
  const Found newest = found();
  if (newest.step < 0) return Json();
  return parse_manifest(manifest_text(newest), folder_.string()).notes;
}

/// The text that the first host with a manifest has. Collective.
SHARDWISE_INLINE std::string HostMemory::manifest_text(const Found& found) const {
  const auto host = std::ranges::find(found.has_manifest, true) - found.has_manifest.begin();
  const int source = first_on(static_cast<std::size_t>(host));
  std::string text;
  throw_on_all_ranks(ranks_, "the checkpoints in the hosts' memory, " + folder_.string(), [&] {
    if (source == ranks_.rank()) text = read_text((path_of(found.step) / manifest_name).string());
  });
  return ranks_.all_gather(text)[static_cast<std::size_t>(source)];
}

/// Copies files to the hosts that lack them, a part at a time.
SHARDWISE_INLINE void HostMemory::fetch(const Found& found, CollectiveWrite& work) {
  const Path path = path_of(found.step);
  const auto ranks = static_cast<std::size_t>(ranks_.size());
  const std::size_t count = found.has.size();
  const auto end_step = [&] { work.end_step([] {}); };
  const std::string manifest = manifest_text(found);
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
      part_.reserve(part_bytes);
    });
    end_step();
    for (Index done = 0; done < each.bytes; done += part_bytes) {
      const Index part = std::min(part_bytes, each.bytes - done);
      std::vector<Index> to(ranks, 0), from(ranks, 0);
      const std::vector<Index> begin(ranks, 0);
      for (std::size_t host = 0; host < count && sends; ++host)
        if (!found.has[host][file]) to[static_cast<std::size_t>(first_on(host))] = part;
      if (lacks) from[static_cast<std::size_t>(first_on(source))] = part;
      work.on_each([&] {
        if (sends) open->read(part_.data(), part, done);
      });
      ranks_.all_to_all(sends ? part_.data() : nullptr, to, begin, lacks ? part_.data() : nullptr, from,
                        begin, DataType::u8);
      work.on_each([&] {
        if (lacks) open->write({part_.data(), static_cast<std::size_t>(part)}, done);
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
  const Found newest = found(true);
  if (newest.step < 0) {
    fail<std::runtime_error>(
        {work.task, ": the ", hosts().count(), " hosts do not have all blocks of a step"});
  }
  fetch(newest, work);
  return load_checkpoint(path_of(newest.step), contents, options);
}

SHARDWISE_INLINE void HostMemory::clear() const {
  ranks_.barrier();
  throw_on_all_ranks(ranks_, "the checkpoints in the hosts' memory, " + folder_.string(), [&] {
    if (!is_first_on_host()) return;
    for_each_step([](const Path& each, Index) { remove_folder(each); });
    std::error_code is_not_empty;
    std::filesystem::remove(folder_, is_not_empty);
  });
}

}  // namespace shardwise::detail
#endif
