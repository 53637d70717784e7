// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Reads a checkpoint onto any mesh: the ranks share the groups of rows of each tensor, so that every byte is read
/// once, and its checksum found right, by one of them; then each rank gets the elements of its blocks. Slab by slab, so
/// that a rank needs little memory beside its blocks.

#include <algorithm>
#include <optional>

#include <shardwise/checkpoint/contents.hpp>
#include <shardwise/checkpoint/files.hpp>
#include <shardwise/checkpoint/manifest.hpp>
#include <shardwise/io/fingerprint.hpp>
#include <shardwise/mesh/agreement.hpp>
#include <shardwise/tensor/exchange.hpp>

namespace shardwise::detail {

inline AnyBox box_of(const CheckpointPiece& piece) {
  AnyBox box;
  box.size.fill(1);
  std::copy(piece.begin.begin(), piece.begin.end(), box.begin.begin());
  std::copy(piece.size.begin(), piece.size.end(), box.size.begin());
  return box;
}

/// What a checksum that is wrong is called.
inline std::string damage_text(const Path& file, const CheckpointTensor& tensor, Range rows) {
  return file.string() + ": tensor \"" + tensor.name + "\": the checksum of rows " +
         std::to_string(rows.begin) + " to " + std::to_string(rows.end()) + " is wrong: the file is damaged";
}

/// The files of a checkpoint, of which groups of rows are read and checked.
class CheckpointReader {
 public:
  CheckpointReader(Path folder, const CheckpointManifest& manifest) : files_(std::move(folder), manifest) {}

  /// Reads rows of a tensor, which begin and end with groups (or with the tensor), to `target`, whose block is `rows`:
  /// whole rows. Throws `std::runtime_error`, naming file and tensor, if a checksum is wrong.
  void read(const CheckpointTensor& tensor, const AnyBox& rows, char* target) {
    const Index element = size_of(tensor.type);
    for (const CheckpointPiece& piece : tensor.pieces) {
      const AnyBox box = box_of(piece), part = intersection(box, rows);
      if (part.elements() == 0) continue;
      const Index row = box.elements() / box.size[0] * element;
      bytes_.resize(static_cast<std::size_t>(part.size[0] * row));
      const File& file = files_.opened(piece.file);
      file.read(bytes_.data(), static_cast<Index>(bytes_.size()),
                piece.offset + (part.begin[0] - box.begin[0]) * row);
      bytes_read_ += static_cast<Index>(bytes_.size());
      check(tensor, piece, part.range(0), row, file);
      copy_part(element, part, bytes_.data(), part, target, rows);
    }
  }

  Index bytes_read() const { return bytes_read_; }
  CheckpointFiles& files() { return files_; }

 private:
  void check(const CheckpointTensor& tensor, const CheckpointPiece& piece, Range rows, Index row,
             const File& file) const {
    const Index first = groups_of(rows_of(piece), tensor.group_rows).begin;
    const Range groups = groups_of(rows, tensor.group_rows);
    for (Index group = groups.begin; group < groups.end(); ++group) {
      const Range part = intersection(rows, {group * tensor.group_rows, tensor.group_rows});
      const std::string_view bytes(bytes_.data() + (part.begin - rows.begin) * row,
                                   static_cast<std::size_t>(part.size * row));
      if (fingerprint_of(bytes) == piece.checksums[static_cast<std::size_t>(group - first)]) continue;
      throw std::runtime_error(damage_text(file.path(), tensor, part));
    }
  }

  CheckpointFiles files_;
  std::vector<char> bytes_;
  Index bytes_read_ = 0;
};

/// A tensor that is there and wanted.
struct WantedTensor {
  const CheckpointTensor* stored = nullptr;
  const CheckpointBlock* block = nullptr;
};

/// Carries tensors from the files to the blocks of all ranks. Collective.
class CheckpointExchange {
 public:
  CheckpointExchange(const CheckpointContents& contents, CheckpointReader& reader, Problems& problems)
      : contents_(contents), ranks_(contents.ranks()), reader_(reader), problems_(problems) {
    for (int r = 0; r < ranks_.size(); ++r) coordinates_.push_back(contents.coordinates_of(r));
  }

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

  /// The rows of a span that a rank reads; `number` is that of the span, so that small ones go to different ranks.
  AnyBox share_of(const Span& span, std::size_t number, int rank) const {
    const Index group = span.tensor.stored->group_rows;
    const Index groups = (span.rows.size + group - 1) / group;
    const int place = (rank + static_cast<int>(number)) % ranks_.size();
    const Range mine = balanced_block(groups, ranks_.size(), place);
    const Range rows = intersection(span.rows, {span.rows.begin + mine.begin * group, mine.size * group});
    AnyBox box{{}, span.tensor.block->tensor.shape};
    box.begin[0] = rows.begin;
    box.size[0] = rows.size;
    return box;
  }

  void exchange(const std::vector<Span>& slab) {
    const auto size = static_cast<std::size_t>(ranks_.size());
    std::vector<std::vector<char>> shares(slab.size());
    problems_.guard([&] {
      for (std::size_t i = 0; i < slab.size(); ++i) {
        const AnyBox share = share_of(slab[i], i, ranks_.rank());
        shares[i].resize(static_cast<std::size_t>(share.elements() * slab[i].tensor.block->element_bytes()));
        if (share.elements() > 0) reader_.read(*slab[i].tensor.stored, share, shares[i].data());
      }
    });
    // What rank `from` has read of a span and rank `to` needs.
    auto part = [&](std::size_t i, std::size_t from, std::size_t to) {
      return intersection(share_of(slab[i], i, static_cast<int>(from)),
                          slab[i].tensor.block->tensor.box_at(coordinates_[to]));
    };
    const auto self = static_cast<std::size_t>(ranks_.rank());
    Pieces sent, received;
    for (std::size_t r = 0; r < size; ++r) {
      Index out = 0, in = 0;
      for (std::size_t i = 0; i < slab.size(); ++i) {
        const Index element = slab[i].tensor.block->element_bytes();
        out += part(i, self, r).elements() * element;
        in += part(i, r, self).elements() * element;
      }
      sent.add(out);
      received.add(in);
    }
    std::vector<char> outgoing(static_cast<std::size_t>(sent.total)),
        incoming(static_cast<std::size_t>(received.total));
    char* place = outgoing.data();
    for (std::size_t r = 0; r < size; ++r) {
      for (std::size_t i = 0; i < slab.size(); ++i) {
        const AnyBox box = part(i, self, r), share = share_of(slab[i], i, ranks_.rank());
        const Index element = slab[i].tensor.block->element_bytes(), bytes = box.elements() * element;
        const bool was_read = static_cast<Index>(shares[i].size()) == share.elements() * element;
        if (bytes > 0 && was_read) copy_part(element, box, shares[i].data(), share, place, box);
        place += bytes;
      }
    }
    shares.clear();
    ranks_.all_to_all(outgoing.data(), sent.counts, sent.offsets, incoming.data(), received.counts,
                      received.offsets, DataType::u8);
    const char* from = incoming.data();
    for (std::size_t r = 0; r < size; ++r) {
      for (std::size_t i = 0; i < slab.size(); ++i) {
        const CheckpointBlock& block = *slab[i].tensor.block;
        const AnyBox box = part(i, r, self);
        if (box.elements() == 0) continue;
        copy_part(block.element_bytes(), box, from, box, block.data(), block.tensor.box());
        from += box.elements() * block.element_bytes();
      }
    }
  }

  const CheckpointContents& contents_;
  Communicator ranks_;
  CheckpointReader& reader_;
  Problems& problems_;
  std::vector<MeshSizes> coordinates_;
};

}  // namespace shardwise::detail
