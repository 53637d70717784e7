// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The pieces of a checkpoint that each rank saves: its own blocks, and of blocks that several ranks have, a part.

#include <shardwise/checkpoint/contents.hpp>
#include <shardwise/checkpoint/manifest_file.hpp>
#include <shardwise/io/direct_writer.hpp>

namespace shardwise::detail {

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
    const auto* data = static_cast<const char*>(block.now().buffer->data) + rows.begin * row;
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

/// This rank's pieces, and the manifest of all ranks.
class CheckpointPieces {
 public:
  /// Collective. Throws `std::runtime_error`, on all ranks, if ranks have other numbers or extents of one name.
  CheckpointPieces(const CheckpointContents& contents, std::string_view task, Json notes) {
    ContentsOfAll all = contents_of_all(contents, task);
    check_numbers(contents, task);
    pieces_ = own_pieces(contents, all);
    manifest_.mesh = contents.named_sizes();
    manifest_.notes = std::move(notes);
    manifest_.numbers = std::move(all.numbers);
    manifest_.tensors = std::move(all.tensors);
  }
  const CheckpointManifest& manifest() const { return manifest_; }
  Index bytes() const { return bytes_of(pieces_); }

  /// Throws `std::runtime_error` if a parameter has no value.
  static void check_set(const CheckpointContents& contents) {
    for (const CheckpointBlock& block : contents.blocks()) {
      if (block.parameter) prefix_errors("\"" + block.name + "\"", [&] { block.parameter->check_set(); });
    }
  }
  /// As the file is going to be. Checksums are made on the way, by all ranks at once: a thread beside the steps would
  /// delay each rank at another moment, and the others wait for it every time.
  void copy_to(PageBuffer& copy) {
    try {
      copy.reserve(bytes());
    } catch (const std::bad_alloc&) {
      fail<std::runtime_error>({"there is no memory to copy ", bytes(), " bytes"});
    }
    char* place = copy.data();
    read([&](const char* bytes, Index count) {
      std::memcpy(place, bytes, static_cast<std::size_t>(count));
      place += count;
    });
  }
  /// Calls f(bytes, count) for one part of the pieces after the other, and makes their checksums.
  template <class F>
  void read(F f) {
    for (OwnPiece& piece : pieces_) read(piece, f);
  }

  /// Bytes and pieces that the ranks have read, a line of each. A rank without memory for that stops all: `end_step` is
  /// that of `work`. Collective.
  template <class EndStep>
  std::string gather_descriptions(CollectiveWrite& work, EndStep end_step) const {
    std::string mine, text;
    work.on_each([&] {
      Json pieces = Json::array();
      for (const OwnPiece& own : pieces_) pieces.push_back({own.tensor, json_of(own.piece)});
      mine = Json{bytes(), pieces}.dump() + '\n';
    });
    const Index bytes[]{static_cast<Index>(mine.size())};
    const std::vector<Index> lengths = work.ranks.all_gather(bytes);
    work.on_each([&] { text.resize(static_cast<std::size_t>(sum_of(lengths))); });
    end_step();
    work.ranks.all_gather(mine.data(), text.data(), lengths, offsets_of(lengths), DataType::u8);
    return text;
  }
  /// The text of the manifest, from the descriptions.
  std::string manifest_text(std::string_view descriptions) const {
    Json manifest = json_of(manifest_);
    for (int r = 0; !descriptions.empty(); ++r) {
      const Json told = json_of(take_part(descriptions, '\n'));
      manifest["files"].push_back({rank_file_name(r), told[0]});
      for (const Json& each : told[1])
        manifest["tensors"][each[0].get<std::size_t>()]["pieces"].push_back(each[1]);
    }
    std::string text = framed_text(manifest);
    parse_manifest(text, "what the ranks have saved");  // is a part missing that a rank did not add?
    return text;
  }

 private:
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

  CheckpointManifest manifest_;
  std::vector<OwnPiece> pieces_;
};

}  // namespace shardwise::detail
