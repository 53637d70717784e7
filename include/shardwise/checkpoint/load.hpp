// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Reads a checkpoint onto any mesh: the ranks share the groups of rows of each tensor, so that every byte is read
/// once, and its checksum found right, by one of them; then each rank gets the elements of its blocks. Slab by slab, so
/// that a rank needs little memory beside its blocks. (save.hpp has an example.)

#include <shardwise/base/bodies.hpp>
#include <shardwise/checkpoint/contents.hpp>
#include <shardwise/checkpoint/reader.hpp>
#include <shardwise/guard/agreement.hpp>
#include <shardwise/tensor/exchange.hpp>

namespace shardwise {

struct LoadCheckpointOptions {
  /// What is wanted and not in the checkpoint stays as it is, and what is there and not wanted is left out; both are
  /// listed in `LoadedCheckpoint`. Otherwise they are errors.
  bool partial = false;
  /// The name in the checkpoint of what is wanted; if not given, or if it gives nothing, its own.
  std::function<std::string(std::string_view)> name_of = {};
};

struct LoadedCheckpoint {
  std::vector<std::string> missing;  ///< wanted on any rank, and not in the checkpoint
  std::vector<std::string> surplus;  ///< in the checkpoint, and not wanted
  Json notes;
  Index bytes_read = 0;  ///< by this rank; the ranks of a mesh together read each wanted byte once
};

namespace detail {

/// A tensor that is there and wanted.
struct WantedTensor {
  const CheckpointTensor* stored = nullptr;
  const CheckpointBlock* block = nullptr;
  AnyTensor target{};  ///< to write to
};

/// Whole groups of rows of one.
struct WantedRows {
  WantedTensor tensor;
  Range rows;
};

/// The problems of this rank, and whether damage is among them.
struct LoadProblems : Problems {
  bool damage = false;
  template <class F>
  void guard(F f) {
    Problems::guard([&] {
      try {
        f();
      } catch (const DamagedCheckpoint&) {
        damage = true;
        throw;
      }
    });
  }
  /// As `Problems`, but throws `DamagedCheckpoint` if at least `enough` ranks have found damage.
  void throw_together(const Communicator& ranks, std::string_view task, Index enough) const {
    const Index mine[]{damage ? 1 : 0};
    const bool damaged = sum_of(ranks.all_gather(mine)) >= enough;
    try {
      Problems::throw_together(ranks, task);
    } catch (const std::runtime_error& error) {
      if (damaged) throw DamagedCheckpoint(error.what());
      throw;
    }
  }
};

/// Carries rows of tensors on one mesh from the files to the blocks of all its ranks. Collective.
inline void exchange_rows(const std::vector<WantedRows>& slab, CheckpointReader& reader,
                          LoadProblems& problems) {
  const MeshView& mesh = slab.front().tensor.block->tensor.mesh;
  const Communicator& ranks = mesh.communicator();
  Exchange all(mesh, DataType::u8, {Collective::all_to_all, (1u << mesh.axes()) - 1});
  bool reads = true;
  for (std::size_t i = 0; i < slab.size(); ++i) {
    const WantedTensor& tensor = slab[i].tensor;
    const AnyTensor& target = tensor.target;
    const DividedRows divided{slab[i].rows, tensor.stored->group_rows, static_cast<int>(i) % ranks.size()};
    const AnyBox share = divided.box(target.shape, ranks.size(), ranks.rank());
    const Buffer bytes = allocate_buffer(mesh, share.elements() * target.element_bytes());
    if (reads && share.elements() > 0) {
      reads = false;  // if this fails, the elements are of no use
      problems.guard([&] {
        reader.read(*tensor.stored, share.range(0), static_cast<char*>(bytes->data));
        reads = true;
      });
    }
    all.add(bytes, divided, target);
  }
  all.start(false);
  all.finish();
}

/// The same of whole tensors on any meshes, slab by slab. Collective.
inline void exchange_tensors(const std::vector<WantedTensor>& wanted, CheckpointReader& reader,
                             LoadProblems& problems) {
  constexpr Index slab_bytes = 12 << 20;  // of all ranks: more than this has groups do not all read
  std::vector<WantedRows> slab;
  Index bytes = 0;
  auto flush = [&] {
    if (!slab.empty()) exchange_rows(slab, reader, problems);
    slab.clear();
    bytes = 0;
  };
  for (const WantedTensor& tensor : wanted) {
    if (!slab.empty() && !(slab.front().tensor.block->tensor.mesh == tensor.block->tensor.mesh)) flush();
    const Index rows = tensor.stored->rows(), row = tensor.stored->row_bytes();
    if (row == 0) continue;
    const Index group = tensor.stored->group_rows;
    for (Index begin = 0; begin < rows;) {
      const Index room = std::max<Index>(1, (slab_bytes - bytes) / (row * group)) * group;
      const Range part{begin, std::min(rows - begin, room)};
      slab.push_back({tensor, part});
      bytes += part.size * row;
      begin = part.end();
      if (bytes >= slab_bytes) flush();
    }
  }
  flush();
}

/// Throws `std::runtime_error` unless the one can be read into the other.
inline void check_match(const CheckpointTensor& stored, const AnyTensor& wanted) {
  const std::vector<Index> shape = wanted.extents();
  const StoredType type = stored_as(wanted.type);
  if (stored.shape == shape && stored.type == type) return;
  const bool shapes = stored.shape != shape;
  fail<std::runtime_error>(
      {"tensor \"", stored.name, "\": expected the ",
       shapes ? text({"shape ", shape, ", found ", stored.shape})
              : "type " + std::string(name_of(type)) + ", found " + std::string(name_of(stored.type))});
}

/// The first names of a list.
inline std::string listed(const char* title, const std::vector<std::string>& names) {
  constexpr std::size_t most = 5;
  std::string text;
  for (std::size_t i = 0; i < std::min(most, names.size()); ++i) {
    text += (i > 0 ? ", \"" : title + std::string("\"")) + names[i] + "\"";
  }
  return text + (names.size() > most ? " and " + std::to_string(names.size() - most) + " more" : "");
}

/// What is wanted of a checkpoint, found in its manifest.
struct CheckpointMatch {
  std::vector<WantedTensor> wanted;
  std::vector<std::pair<std::int64_t*, std::int64_t>> numbers;
  std::vector<std::string> missing, surplus;
};

/// Throws `std::runtime_error` for what does not match.
inline CheckpointMatch matched(const CheckpointManifest& manifest, const CheckpointContents& contents,
                               const ContentsOfAll& all, const LoadCheckpointOptions& options) {
  CheckpointMatch match;
  std::map<std::string, const CheckpointTensor*> tensors;
  for (const CheckpointTensor& tensor : manifest.tensors) tensors[tensor.name] = &tensor;
  std::set<std::string> used;
  auto find = [&](const auto& stored, const std::string& name) {
    const std::string other = options.name_of ? options.name_of(name) : std::string();
    return stored.find(other.empty() ? name : other);
  };
  auto use = [&](const auto& stored, const std::string& name) {
    const auto found = find(stored, name);
    if (found == stored.end()) {
      match.missing.push_back(name);
    } else {
      used.insert(found->first);
    }
  };
  for (const CheckpointTensor& tensor : all.tensors) use(tensors, tensor.name);
  for (const auto& [name, number] : all.numbers) use(manifest.numbers, name);
  for (const CheckpointBlock& block : contents.blocks()) {
    const auto found = find(tensors, block.name);
    if (found == tensors.end()) continue;
    check_match(*found->second, block.tensor);
    match.wanted.push_back({found->second, &block});
  }
  for (const auto& [name, number] : contents.numbers()) {
    const auto found = find(manifest.numbers, name);
    if (found != manifest.numbers.end()) match.numbers.emplace_back(number, found->second);
  }
  auto surplus = [&](const std::string& name) {
    if (!used.contains(name)) match.surplus.push_back(name);
  };
  for (const auto& [name, tensor] : tensors) surplus(name);
  for (const auto& [name, number] : manifest.numbers) surplus(name);
  if (options.partial || (match.missing.empty() && match.surplus.empty())) return match;
  fail<std::runtime_error>({"of another model or run:", listed(" not there: ", match.missing),
                            match.missing.empty() || match.surplus.empty() ? "" : ";",
                            listed(" not wanted: ", match.surplus)});
}

}  // namespace detail

/// Reads `contents` from a checkpoint that any mesh wrote. Every byte is read by one rank, and its checksum checked.
///
/// Collective. Throws on all ranks, before anything is changed: `std::runtime_error` if the checkpoint has other
/// tensors or numbers than are wanted (unless that is asked for), of other shapes or types, if it is of a newer format,
/// or another one on another rank; `DamagedCheckpoint` if every rank finds its manifest damaged, or a file missing or
/// of another size. Throws `DamagedCheckpoint` if a checksum is wrong, `std::runtime_error` if data cannot be read:
/// then the blocks are of no use any more. The error names file and tensor.
LoadedCheckpoint load_checkpoint(const std::filesystem::path& folder, const CheckpointContents& contents,
                                 const LoadCheckpointOptions& options = {});

#ifdef SHARDWISE_BODIES

SHARDWISE_INLINE LoadedCheckpoint load_checkpoint(const std::filesystem::path& folder,
                                                  const CheckpointContents& contents,
                                                  const LoadCheckpointOptions& options) {
  const Communicator ranks = contents.ranks();
  const std::string task = "load_checkpoint";
  const detail::ContentsOfAll all = detail::contents_of_all(contents, task);
  detail::LoadProblems problems;
  CheckpointManifest manifest;
  detail::CheckpointMatch match;
  problems.guard([&] {
    manifest = read_manifest(folder);
    match = prefix_errors((folder / manifest_name).string(),
                          [&] { return detail::matched(manifest, contents, all, options); });
  });
  problems.throw_together(ranks, task, ranks.size());  // all have read the same
  const Index mine[]{static_cast<Index>(manifest.checksum)};
  const std::vector<Index> checksums = ranks.all_gather(mine);
  if (std::ranges::count(checksums, mine[0]) != ranks.size()) {
    detail::fail<std::runtime_error>(
        {task, ": ", folder.string(), " is not the same checkpoint on all ranks"});
  }
  for (detail::WantedTensor& tensor : match.wanted) {
    if (const auto& parameter = tensor.block->parameter) parameter->await();
    tensor.target = tensor.block->now(true);
  }
  detail::CheckpointReader reader(folder, manifest);
  detail::exchange_tensors(match.wanted, reader, problems);
  problems.throw_together(ranks, task, 1);
  for (const auto& [number, value] : match.numbers) *number = value;
  for (const detail::WantedTensor& tensor : match.wanted) {
    if (const auto& parameter = tensor.block->parameter)
      parameter->writable();  // it has a value, and another one
  }
  return {std::move(match.missing), std::move(match.surplus), std::move(manifest.notes), reader.bytes_read()};
}

#endif

}  // namespace shardwise
