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
          reader_.read(*tensor.stored, share, static_cast<char*>(bytes.data()));
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

}  // namespace shardwise::detail
