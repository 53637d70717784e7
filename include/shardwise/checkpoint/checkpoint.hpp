// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Checkpoints: whole or not there at all, written by all ranks at once, and read onto any mesh, layout and ZeRO
/// level.
///
/// ```
/// CheckpointContents run(mesh);
/// run.add("model", model);
/// run.add("optimizer", adamw, model);
/// run.add("step", step);
/// save_checkpoint("runs/7/step-1000", run);
/// load_checkpoint("runs/7/step-1000", run);   // on this mesh, or another
/// ```
/// `Checkpointer` (checkpoint/checkpointer.hpp) saves beside a training run, and keeps the last ones.

#include <shardwise/checkpoint/load.hpp>
#include <shardwise/checkpoint/manifest_file.hpp>
#include <shardwise/checkpoint/save.hpp>
#include <shardwise/tensor/shape_text.hpp>

namespace shardwise {

/// Writes all of `contents` to `folder`, which appears, or changes places with what it was, by one rename when all is
/// on the device: a kill at any moment leaves the old one or the new one whole. Each rank writes its own blocks, and
/// of blocks that several ranks have, a part; nothing is gathered. `notes` is kept beside it. Returns the bytes of
/// elements that this rank wrote.
///
/// Collective. Throws `std::runtime_error` on all ranks if anything fails on any, and if `folder` has something else
/// than a checkpoint; then nothing new is left.
inline Index save_checkpoint(const std::filesystem::path& folder, const CheckpointContents& contents,
                             const Json& notes = {}) {
  detail::CheckpointSave save(contents, folder, nullptr, notes);
  save.write();
  save.commit();
  return save.own_bytes();
}

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

namespace detail {

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
  const auto mine = static_cast<Index>(manifest.checksum);
  const Index bounds[] = {mine, ~mine};  // the least of the second is the greatest of the first
  Index least[2];
  ranks.all_reduce(bounds, least, 2, DataType::i64, ReduceOp::min);
  if (least[0] != ~least[1]) {
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
