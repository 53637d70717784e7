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
#include <shardwise/checkpoint/contents.hpp>
#include <shardwise/checkpoint/manifest_file.hpp>
#include <shardwise/guard/agreement.hpp>
#include <shardwise/io/direct_writer.hpp>
#include <shardwise/io/new_folder.hpp>

namespace shardwise {

namespace detail {

/// The rows of a block that this rank writes, and where.
struct OwnPiece {
  std::size_t tensor = 0;  ///< its number among those of all ranks
  CheckpointPiece piece;
  const char* data = nullptr;
  Index bytes = 0;
};

/// The pieces of its blocks that this rank writes: of a block that several ranks have, a part of the rows.
inline std::vector<OwnPiece> own_pieces(const CheckpointContents& contents, const ContentsOfAll& all) {
  std::vector<OwnPiece> pieces;
  Index offset = 0;
  for (const CheckpointBlock& block : contents.blocks()) {
    const auto saved = all.saved.find(&block);
    if (saved == all.saved.end()) continue;
    AnyBox box = block.tensor.box();
    if (box.elements() == 0) continue;
    const Index row = box.elements() / box.size[0] * block.tensor.element_bytes();
    const Range rows = own_rows(block.tensor);
    if (rows.size == 0) continue;
    box.begin[0] += rows.begin;
    box.size[0] = rows.size;
    const auto extents = [&](const AnyShape& of_any_rank) {
      return std::vector<Index>(of_any_rank.begin(), of_any_rank.begin() + block.tensor.rank);
    };
    const auto file = static_cast<std::size_t>(contents.ranks().rank());
    const auto* data = static_cast<const char*>(block.tensor.buffer->data) + rows.begin * row;
    pieces.push_back(
        {saved->second, {file, offset, extents(box.begin), extents(box.size), {}}, data, rows.size * row});
    offset += rows.size * row;
  }
  return pieces;
}
inline Index bytes_of(const std::vector<OwnPiece>& pieces) {
  return pieces.empty() ? 0 : pieces.back().piece.offset + pieces.back().bytes;
}

/// With zeros before it.
inline std::string with_digits(std::size_t digits, Index number) {
  const std::string text = std::to_string(number);
  return std::string(digits - std::min(digits, text.size()), '0') + text;
}
inline std::string rank_file_name(int rank) { return "rank-" + with_digits(5, rank) + ".bin"; }

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
      : work_(contents.ranks(), "the checkpoint " + target.string()), texts_(texts), copy_(copy) {
    begin(contents, target, std::move(notes));
  }
  CheckpointSave& operator=(CheckpointSave&&) = delete;

  /// Writes this rank's file, and has it on the device. Not collective; `commit` reports errors.
  void write() noexcept;

  /// When `write` has returned on this rank. Makes the checkpoint whole, instead of one that is there. Collective.
  /// Throws `std::runtime_error` on all ranks if something went wrong on any; then nothing of it is left.
  void commit();

  /// Bytes of elements that this rank writes.
  Index own_bytes() const { return bytes_of(pieces_); }

 private:
  void begin(const CheckpointContents& contents, const Path& target, Json notes);

  /// After an error, no file is left.
  void end_step() {
    work_.end_step([&] { folder_.reset(); });
  }

  /// As the file is going to be. Checksums are made on the way, by all ranks at once: a thread beside the steps would
  /// delay each rank at another moment, and the others wait for it every time.
  void copy_blocks() {
    try {
      copy_->reserve(bytes_of(pieces_));
    } catch (const std::bad_alloc&) {
      fail<std::runtime_error>({"there is no memory to copy ", bytes_of(pieces_), " bytes"});
    }
    char* place = copy_->data();
    for (OwnPiece& piece : pieces_) {
      read(piece, [&](const char* bytes, Index count) {
        std::memcpy(place, bytes, static_cast<std::size_t>(count));
        place += count;
      });
    }
  }

  /// Calls f(bytes, count) for one part of a piece after the other, and makes its checksums.
  template <class F>
  void read(OwnPiece& piece, F f) {
    constexpr Index most = 4 << 10;  // the processor copies while it still computes: the copy costs no time
    const Range rows = rows_of(piece.piece);
    const Index group_rows = manifest_.tensors[piece.tensor].group_rows, row = piece.bytes / rows.size;
    const Range groups = groups_of(rows, group_rows);
    const char* next = piece.data;
    for (Index group = groups.begin; group < groups.end(); ++group) {
      Fingerprint fingerprint;
      for (Index rest = intersection(rows, {group * group_rows, group_rows}).size * row; rest > 0;) {
        const Index now = std::min(rest, most);
        fingerprint.add({next, static_cast<std::size_t>(now)});
        f(next, now);
        next += now;
        rest -= now;
      }
      piece.piece.checksums.push_back(fingerprint.value());
    }
  }

  /// Bytes and pieces that the ranks have written, a line of each. A rank without memory for that stops all.
  std::string gather_descriptions() {
    std::string mine, text;
    work_.on_each([&] {
      Json pieces = Json::array();
      for (const OwnPiece& own : pieces_) pieces.push_back({own.tensor, json_of(own.piece)});
      mine = Json{own_bytes(), pieces}.dump() + '\n';
    });
    const Index bytes[]{static_cast<Index>(mine.size())};
    const std::vector<Index> lengths = work_.ranks.all_gather(bytes);
    work_.on_each([&] { text.resize(static_cast<std::size_t>(sum_of(lengths))); });
    end_step();
    work_.ranks.all_gather(mine.data(), text.data(), lengths, offsets_of(lengths), DataType::u8);
    return text;
  }

  /// Writes the manifest and renames the folder.
  void finish(std::string_view descriptions) {
    Json manifest = json_of(manifest_);
    for (int r = 0; !descriptions.empty(); ++r) {
      const Json told = json_of(take_part(descriptions, '\n'));
      manifest["files"].push_back({rank_file_name(r), told[0]});
      for (const Json& each : told[1])
        manifest["tensors"][each[0].get<std::size_t>()]["pieces"].push_back(each[1]);
    }
    const std::string text = framed_text(manifest);
    parse_manifest(text, "what the ranks have saved");  // is a part missing that a rank did not add?
    if (texts_ != nullptr) {
      for (const auto& [name, bytes] : *texts_) write_new_file(path_ / name, bytes);
    }
    write_new_file(path_ / manifest_name, text);
    folder_->commit();
  }

  CollectiveWrite work_;
  Path path_;
  std::optional<NewFolder> folder_;  // at that path, of rank 0
  CheckpointManifest manifest_;
  std::vector<OwnPiece> pieces_;
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

SHARDWISE_INLINE void CheckpointSave::begin(const CheckpointContents& contents, const Path& target,
                                            Json notes) {
  ContentsOfAll all = contents_of_all(contents, work_.task);
  check_numbers(contents, work_.task);
  pieces_ = own_pieces(contents, all);
  manifest_.mesh = contents.named_sizes();
  manifest_.notes = std::move(notes);
  manifest_.numbers = std::move(all.numbers);
  manifest_.tensors = std::move(all.tensors);
  work_.on_each([&] {
    for (const CheckpointBlock& block : contents.blocks()) {
      if (block.parameter) prefix_errors("\"" + block.name + "\"", [&] { block.parameter->check_set(); });
    }
    path_ = temporary_path(whole_path(target), work_.token);
    if (copy_) copy_blocks();
  });
  work_.on_first([&] {
    folder_.emplace(target, work_.token, [&](const Path& old) { check_replaces(old, manifest_); });
  });
  end_step();
}

SHARDWISE_INLINE void CheckpointSave::commit() {
  end_step();
  const std::string descriptions = gather_descriptions();
  work_.on_first([&] { finish(descriptions); });
  end_step();
}

SHARDWISE_INLINE void CheckpointSave::write() noexcept {
  work_.on_each([&] {
    DirectWriter writer(path_ / rank_file_name(work_.ranks.rank()));
    if (copy_) {
      writer.write(copy_->data(), bytes_of(pieces_));
    } else {
      for (OwnPiece& piece : pieces_) {
        read(piece, [&](const char* bytes, Index count) { writer.write(bytes, count); });
      }
    }
    writer.finish();
  });
}

}  // namespace detail
}  // namespace shardwise
#endif
