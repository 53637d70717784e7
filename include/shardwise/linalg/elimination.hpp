// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The order in which a factorization of a matrix eliminates rows that lie in blocks on the ranks of a mesh: some rows of
/// the first rank, as many of the second, …, then the next ones of the first. So all ranks work until the end. That is
/// the balance of a block-cyclic layout, but no row moves: the order is cyclic, not the layout.

#include <vector>

#include <shardwise/tensor/transfer.hpp>

namespace shardwise::detail {

/// Rows of one rank that are eliminated together.
struct Tile {
  int owner;
  Index row;       ///< the first one, in the matrix
  Index size;      ///< number of rows
  Index local;     ///< the first one, in the owner's block
  Index position;  ///< the number of rows that are eliminated before
};

/// All tiles of n rows in their order. Every axis of the mesh shards the rows.
class EliminationOrder {
 public:
  constexpr EliminationOrder(Index n, int ranks, Index height) : ranks_(ranks), height_(height) {
    Index position = 0;
    for (Index local = 0; local < most_rows(n); local += height) {
      for (int rank = 0; rank < ranks; ++rank) {
        const Range block = balanced_block(n, ranks, rank);
        const Index size = std::min(height, block.size - local);
        if (size <= 0) continue;
        tiles_.push_back({rank, block.begin + local, size, local, position});
        position += size;
      }
    }
  }
  constexpr const std::vector<Tile>& tiles() const { return tiles_; }
  constexpr Index height() const { return height_; }
  /// The rows of the largest block.
  constexpr Index most_rows(Index n) const { return (n + ranks_ - 1) / ranks_; }
  /// In the block of `rank`, the first row that is not eliminated when `tile` has been.
  constexpr Index rows_done(const Tile& tile, int rank) const {
    return tile.local + (rank <= tile.owner ? height_ : 0);
  }
  /// Copies a row of the matrix, so that its columns are in the order of elimination.
  template <class T>
  void permute(const T* row, T* to) const {
    for (const Tile& tile : tiles_) std::copy_n(row + tile.row, tile.size, to + tile.position);
  }

 private:
  int ranks_;
  Index height_;
  std::vector<Tile> tiles_;
};

/// The ranks of a mesh as one line, along which matrices are sharded by rows.
struct RankLine {
  MeshView mesh;
  DataType type;

  constexpr int ranks() const { return group_size(mesh.sizes(), mesh.axes(), ~0u); }
  constexpr int rank() const { return group_rank(mesh.sizes(), mesh.coordinates(), mesh.axes(), ~0u); }
  constexpr Layout rows() const { return everywhere(mesh.axes(), shard(0)); }
  constexpr AnyTensor tensor(std::initializer_list<Index> extents, const Layout& layout) const {
    AnyTensor x(mesh, type, layout, std::span(extents.begin(), extents.size()), Buffer());
    return x.unwritten(layout, MemoryUse::activation);
  }
  /// The height of tiles for n rows: large enough for fast products, and several tiles for each rank.
  constexpr Index tile_height(Index n) const { return std::clamp<Index>(n / ranks() / 8, 8, 64); }

  /// All ranks' blocks [height, width] one after another. `write(block)` fills this rank's one, if it is not a dry mesh.
  template <class T, class Write>
  constexpr AnyTensor gathered(Index height, Index width, Write write) const {
    AnyTensor mine = tensor({ranks(), height, width}, rows());
    if (!mesh.dry()) write(static_cast<T*>(mine.buffer->data));
    return redistributed_to(std::move(mine), everywhere(mesh.axes(), replicate), type);
  }
  /// The sum of all ranks' blocks [height, width]. `write(block)` fills this rank's one, which holds zeros.
  template <class T, class Write>
  constexpr AnyTensor summed(Index height, Index width, Write write) const {
    AnyTensor mine = tensor({height, width}, everywhere(mesh.axes(), partial_sum));
    if (!mesh.dry()) {
      auto* block = static_cast<T*>(mine.buffer->data);
      std::fill_n(block, height * width, T{0});
      write(block);
    }
    return redistributed_to(std::move(mine), everywhere(mesh.axes(), replicate), type);
  }
  constexpr void compute(Index flops) const {
    if (Recorder* recorder = mesh.recorder()) recorder->compute(flops);
  }
};

}  // namespace shardwise::detail
