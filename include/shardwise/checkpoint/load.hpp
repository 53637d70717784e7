// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Reads a checkpoint onto any mesh: the ranks share the groups of rows of each tensor, so that every byte is read
/// once, and its checksum found right, by one of them; then each rank gets the elements of its blocks. Slab by slab, so
/// that a rank needs little memory beside its blocks.
///
/// ```
/// load_checkpoint("runs/7/step-1000", run);   // see save.hpp
/// ```

#include <algorithm>
#include <functional>
#include <map>
#include <optional>

#include <shardwise/checkpoint/contents.hpp>
#include <shardwise/checkpoint/reader.hpp>
#include <shardwise/mesh/agreement.hpp>
#include <shardwise/tensor/exchange.hpp>
#include <shardwise/tensor/shape_text.hpp>

namespace shardwise {

struct LoadCheckpointOptions {
  /// What is wanted and not in the checkpoint stays as it is, and what is there and not wanted is left out; both are
  /// listed in `LoadedCheckpoint`. Otherwise they are errors.
  bool partial = false;
  /// The name in the checkpoint of what is wanted; if not given, or if it gives nothing, its own.
  std::function<std::string(std::string_view)> name_of;
};

struct LoadedCheckpoint {
  std::vector<std::string> missing;  ///< wanted, and not in the checkpoint
  std::vector<std::string> surplus;  ///< in the checkpoint, and not wanted
  Json notes;
  Index bytes_read = 0;  ///< by this rank: of all ranks together, each byte of what is wanted once
};

// Implementation details: not part of the interface.
namespace detail {

/// A tensor that is there and wanted.
struct WantedTensor {
  const CheckpointTensor* stored = nullptr;
  const CheckpointBlock* block = nullptr;
};

/// Carries tensors from the files to the blocks of all ranks. Collective.
class CheckpointExchange {
 public:
  CheckpointExchange(CheckpointReader& reader, Problems& problems) : reader_(reader), problems_(problems) {}

  void run(const std::vector<WantedTensor>& wanted) {
    std::vector<Span> slab;
    Index bytes = 0;
    for (const WantedTensor& tensor : wanted) {
      const Index rows = tensor.block->tensor.shape[0], row = tensor.block->row_bytes();
      if (rows == 0 || row == 0) continue;
      const Index group = tensor.stored->group_rows;
      for (Index begin = 0; begin < rows;) {
        const Index room = std::max<Index>(1, (slab_bytes - bytes) / (row * group)) * group;
        const Range part{begin, std::min(rows - begin, room)};
        slab.push_back({tensor, part});
        bytes += part.size * row;
        begin = part.end();
        if (bytes < slab_bytes) continue;
        exchange(slab);
        slab.clear();
        bytes = 0;
      }
    }
    if (!slab.empty()) exchange(slab);
  }

 private:
  /// Of all ranks together. More ranks than this has groups do not all read.
  static constexpr Index slab_bytes = 12 << 20;

  /// Whole groups of rows of a tensor.
  struct Span {
    WantedTensor tensor;
    Range rows;
  };

  void exchange(const std::vector<Span>& slab) {
    const MeshView& mesh = slab.front().tensor.block->tensor.mesh;
    const Communicator& ranks = all_ranks_of(mesh);
    Exchange all(mesh, DataType::u8, {Collective::all_to_all, (1u << mesh.axes()) - 1});
    bool reads = true;
    for (std::size_t i = 0; i < slab.size(); ++i) {
      const WantedTensor& tensor = slab[i].tensor;
      const AnyTensor& target = tensor.block->tensor;
      const DividedRows divided{slab[i].rows, tensor.stored->group_rows, static_cast<int>(i) % ranks.size()};
      const AnyBox share = divided.box(target.shape, ranks.size(), ranks.rank());
      const Buffer bytes = Buffer::allocate(mesh, share.elements() * target.element_bytes());
      if (reads && share.elements() > 0) {
        reads = false;  // if this fails, what goes on the way is of no use
        problems_.guard([&] {
          reader_.read(*tensor.stored, share.range(0), static_cast<char*>(bytes.data()));
          reads = true;
        });
      }
      all.add(bytes, divided, target);
    }
    all.start(false);
    all.finish();
  }

  CheckpointReader& reader_;
  Problems& problems_;
};

/// What is wanted of a checkpoint, found in its manifest.
class CheckpointMatch {
 public:
  CheckpointMatch(const CheckpointManifest& manifest, const CheckpointContents& contents,
                  const LoadCheckpointOptions& options, const std::string& source) {
    std::map<std::string_view, const CheckpointTensor*> tensors;
    for (const CheckpointTensor& tensor : manifest.tensors) tensors[tensor.name] = &tensor;
    for (const CheckpointBlock& block : contents.blocks()) {
      const auto found = tensors.find(stored_name(block.name, options));
      if (found == tensors.end()) {
        missing.push_back(block.name);
        continue;
      }
      check(*found->second, block, source);
      wanted.push_back({found->second, &block});
      tensors.erase(found);
    }
    auto left = manifest.numbers;
    for (const auto& [name, number] : contents.numbers()) {
      const auto found = left.find(stored_name(name, options));
      if (found == left.end()) {
        missing.push_back(name);
        continue;
      }
      numbers.emplace_back(number, found->second);
      left.erase(found);
    }
    for (const auto& [name, tensor] : tensors) surplus.emplace_back(name);
    for (const auto& [name, number] : left) surplus.push_back(name);
    if (options.partial || (missing.empty() && surplus.empty())) return;
    throw std::runtime_error(source + ": of another model or run:" + listed(" not there: ", missing) +
                             (missing.empty() || surplus.empty() ? "" : ";") +
                             listed(" not wanted: ", surplus));
  }

  std::vector<WantedTensor> wanted;
  std::vector<std::pair<std::int64_t*, std::int64_t>> numbers;
  std::vector<std::string> missing, surplus;

 private:
  static std::string stored_name(const std::string& name, const LoadCheckpointOptions& options) {
    const std::string other = options.name_of ? options.name_of(name) : std::string();
    return other.empty() ? name : other;
  }
  static std::string listed(const char* title, const std::vector<std::string>& names) {
    constexpr std::size_t most = 5;
    std::string text;
    for (std::size_t i = 0; i < std::min(most, names.size()); ++i) {
      text += (i > 0 ? ", \"" : title + std::string("\"")) + names[i] + "\"";
    }
    return text + (names.size() > most ? " and " + std::to_string(names.size() - most) + " more" : "");
  }
  static void check(const CheckpointTensor& stored, const CheckpointBlock& block, const std::string& source) {
    const std::vector<Index> shape = block.tensor.extents();
    if (stored.shape != shape) {
      throw std::runtime_error(source + ": tensor \"" + stored.name + "\": expected the shape " +
                               to_string(shape) + ", found " + to_string(stored.shape));
    }
    if (stored.type != stored_as(block.tensor.type)) {
      throw std::runtime_error(source + ": tensor \"" + stored.name + "\": expected the type " +
                               std::string(name_of(stored_as(block.tensor.type))) + ", found " +
                               std::string(name_of(stored.type)));
    }
  }
};

}  // namespace detail

/// Reads `contents` from a checkpoint that any mesh wrote. Every byte is read by one rank, and its checksum checked.
///
/// Collective. Throws `std::runtime_error` on all ranks, before anything is changed: if the checkpoint has other
/// tensors or numbers than are wanted (unless that is asked for), of other shapes or types; if it is of a newer
/// format; if a file is missing or has another size; if it is another one on another rank. Also if a checksum is wrong:
/// then the blocks are of no use any more. What it says names file and tensor.
inline LoadedCheckpoint load_checkpoint(const std::filesystem::path& folder,
                                        const CheckpointContents& contents,
                                        const LoadCheckpointOptions& options = {}) {
  const Communicator ranks = contents.ranks();
  const std::string task = "load_checkpoint";
  detail::Problems problems;
  CheckpointManifest manifest;
  std::optional<detail::CheckpointMatch> match;
  problems.guard([&] {
    manifest = read_manifest(folder);
    match.emplace(manifest, contents, options, (folder / manifest_name).string());
  });
  problems.throw_together(ranks, task);
  const Index mine[]{static_cast<Index>(manifest.checksum)};
  const std::vector<Index> checksums = detail::gather(ranks, mine);
  if (std::ranges::count(checksums, mine[0]) != ranks.size()) {
    throw std::runtime_error(task + ": " + folder.string() + " is not the same checkpoint on all ranks");
  }
  detail::CheckpointReader reader(folder, manifest);
  detail::CheckpointExchange(reader, problems).run(match->wanted);
  problems.throw_together(ranks, task);
  for (const auto& [number, value] : match->numbers) *number = value;
  return {std::move(match->missing), std::move(match->surplus), std::move(manifest.notes),
          reader.bytes_read()};
}

}  // namespace shardwise
