// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Writes a checkpoint, whole or not at all: every rank its own blocks, into a file of its own in a folder beside the
/// target; blocks that several ranks have are divided among them. Then the manifest, and one rename.
///
/// ```
/// CheckpointContents run(mesh);
/// run.add("model", model);             // its parameters, as they are stored
/// run.add("optimizer", adamw, model);  // its state, made if it is not there yet
/// run.add("step", step);               // a std::int64_t
/// save_checkpoint("runs/7/step-1000", run);
/// load_checkpoint("runs/7/step-1000", run);   // load.hpp: on this mesh, or another, at any ZeRO level
/// ```
/// `Checkpointer` (checkpoint/checkpointer.hpp) saves beside a training run, and keeps the last ones.

#include <shardwise/base/bodies.hpp>
#include <shardwise/checkpoint/pieces.hpp>
#include <shardwise/guard/agreement.hpp>
#include <shardwise/io/new_folder.hpp>

namespace shardwise {

namespace detail {

/// Throws `std::runtime_error` unless a checkpoint may take the place of another: not where each has tensors that the
/// other lacks.
inline void check_replaces(const Path& old, const CheckpointManifest& next) {
  if (!holds_checkpoint(old))
    fail<std::runtime_error>({old.string(), ": is not replaced, for it is not a checkpoint"});
  std::set<std::string> lost;
  try {
    const std::string source = (old / manifest_name).string();
    for (const CheckpointTensor& tensor : parse_manifest(read_text(source), source).tensors)
      lost.insert(tensor.name);
  } catch (const DamagedCheckpoint&) {  // nothing is lost
    return;
  }
  const CheckpointTensor* added = nullptr;
  for (const CheckpointTensor& tensor : next.tensors) {
    if (lost.erase(tensor.name) == 0) added = &tensor;
  }
  if (lost.empty() || !added) return;
  fail<std::runtime_error>({old.string(), ": is not replaced, for it is of other tensors: it has \"",
                            *lost.begin(), "\", the new one \"", added->name,
                            "\". Stages of a pipeline are saved as one, or each in a folder of its own"});
}

/// A checkpoint that is being written. Every rank: make one, `write` (in a thread if it likes), `commit`.
class CheckpointSave {
 public:
  /// Collective. If `copy` is given, the blocks are copied there now, so that they may change while they are written;
  /// it must stay until they are, as must `texts`, the files beside the data. Throws `std::runtime_error`, on all
  /// ranks, if the folder cannot be made, or if something else than a checkpoint is in its place.
  CheckpointSave(const CheckpointContents& contents, const Path& target, PageBuffer* copy, Json notes = {},
                 const std::map<std::string, std::string>* texts = nullptr)
      : work_(contents.ranks(), "the checkpoint " + target.string()),
        pieces_(contents, work_.task, std::move(notes)),
        texts_(texts),
        copy_(copy) {
    begin(contents, target);
  }
  CheckpointSave& operator=(CheckpointSave&&) = delete;

  /// Writes this rank's file, and has it on the device. Not collective; `commit` reports errors.
  void write() noexcept;

  /// When `write` has returned on this rank. Makes the checkpoint whole, instead of one that is there. Collective.
  /// Throws `std::runtime_error` on all ranks if something went wrong on any; then nothing of it is left.
  void commit();

  /// Bytes of elements that this rank writes.
  Index own_bytes() const { return pieces_.bytes(); }

 private:
  void begin(const CheckpointContents& contents, const Path& target);

  /// After an error, no file is left.
  void end_step() {
    work_.end_step([&] { folder_.reset(); });
  }

  CollectiveWrite work_;
  Path path_;
  std::optional<NewFolder> folder_;  // at that path, of rank 0
  CheckpointPieces pieces_;
  const std::map<std::string, std::string>* texts_;  // or null
  PageBuffer* copy_;
};

}  // namespace detail

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

}  // namespace shardwise

#ifdef SHARDWISE_BODIES
namespace shardwise {
namespace detail {

SHARDWISE_INLINE void CheckpointSave::begin(const CheckpointContents& contents, const Path& target) {
  work_.on_each([&] {
    CheckpointPieces::check_set(contents);
    path_ = temporary_path(whole_path(target), work_.token);
    if (copy_) pieces_.copy_to(*copy_);
  });
  work_.on_first([&] {
    folder_.emplace(target, work_.token, [&](const Path& old) { check_replaces(old, pieces_.manifest()); });
  });
  end_step();
}

SHARDWISE_INLINE void CheckpointSave::commit() {
  end_step();
  const std::string descriptions = pieces_.gather_descriptions(work_, [&] { end_step(); });
  work_.on_first([&] {
    const std::string manifest = pieces_.manifest_text(descriptions);
    if (texts_ != nullptr) {
      for (const auto& [name, bytes] : *texts_) write_new_file(path_ / name, bytes);
    }
    write_new_file(path_ / manifest_name, manifest);
    folder_->commit();
  });
  end_step();
}

SHARDWISE_INLINE void CheckpointSave::write() noexcept {
  work_.on_each([&] {
    DirectWriter writer(path_ / rank_file_name(work_.ranks.rank()));
    if (copy_) {
      writer.write(copy_->data(), pieces_.bytes());
    } else {
      pieces_.read([&](const char* bytes, Index count) { writer.write(bytes, count); });
    }
    writer.finish();
  });
}

}  // namespace detail
}  // namespace shardwise
#endif
