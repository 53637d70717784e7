// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The order in which a factorization of a matrix eliminates rows that lie in blocks on the ranks of a mesh: some
/// rows of the first rank, as many of the second, …, then the next ones of the first. So all ranks work until the
/// end. That is the balance of a block-cyclic layout, but no row moves: the order is cyclic, not the layout.

#include <shardwise/tensor/transfer.hpp>

namespace shardwise::detail {

/// The ranks of a mesh as one line, along which matrices are sharded by rows.
struct RankLine {
  MeshView mesh;
  DataType type;

  constexpr int ranks() const { return group_size(mesh.sizes(), mesh.axes(), ~0u); }
  constexpr int rank() const { return group_rank(mesh.sizes(), mesh.coordinates(), mesh.axes(), ~0u); }
  /// The rows of a rank, of n that every axis shards.
  constexpr Range block(Index n, int rank) const {
    const MeshSizes at = group_member(mesh.sizes(), {}, mesh.axes(), ~0u, rank);
    return local_box(Shape<1>{n}, rows(), mesh.sizes(), at).range(0);
  }
  constexpr Layout rows() const { return everywhere(mesh.axes(), shard(0)); }
  constexpr AnyTensor tensor(std::initializer_list<Index> extents, const Layout& layout) const {
    AnyTensor x(mesh, type, layout, std::span(extents.begin(), extents.size()), Buffer());
    return x.unwritten(layout, MemoryUse::activation);
  }
  /// All ranks' blocks [height, width] one after another. `write(block)` fills this rank's one, if it is not a dry
  /// mesh.
  template <class T, class Write>
  constexpr AnyTensor gathered(Index height, Index width, Write write) const {
    return begin_to_gather<T>(height, width, write)->finish();
  }
  /// The same while it is in flight.
  template <class T, class Write>
  constexpr Shared<AnyInFlight> begin_to_gather(Index height, Index width, Write write) const {
    AnyTensor mine = tensor({ranks(), height, width}, rows());
    if (!mesh.dry()) write(static_cast<T*>(mine.buffer->data));
    return last_step(std::move(mine), everywhere(mesh.axes(), replicate), type);
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
  /// Throws on all ranks, in the name of a function, if a row of a matrix of `T` is not finite. Collective.
  template <class T>
  void check_finite(const char* name, const AnyTensor& a) const {
    constexpr Index none = std::numeric_limits<Index>::max();
    const AnyTensor x = redistributed_to(AnyTensor(a), rows(), type);
    const auto* values = static_cast<const T*>(x.buffer->data);
    const Index begin = x.box().begin[0], own = x.box().size[0], width = x.shape[1];
    Index first = none;
    for (Index i = 0; i < own * width && first == none; ++i) {
      if (!shardwise::detail::is_finite(values[i])) first = begin + i / width;
    }
    mesh.all_reduce(&first, 1, DataType::i64, ReduceOp::min);
    if (first != none) fail<std::runtime_error>({name, ": row ", first, " of the matrix is not finite"});
  }
  constexpr void compute(Index flops, Index moved = 0) const { count_work(mesh, flops, moved); }
};

/// Rows of one rank that are eliminated together.
struct Tile {
  int owner;
  Index row;       ///< the first one, in the matrix
  Index size;      ///< number of rows
  Index local;     ///< the first one, in the owner's block
  Index position;  ///< the number of rows that are eliminated before
};

/// Copies a row of a matrix, so that its columns are in the order of elimination: those that belong to these tiles.
template <class T>
void permute(std::span<const Tile> tiles, const T* row, T* to) {
  for (const Tile& tile : tiles) std::copy_n(row + tile.row, tile.size, to + tile.position);
}

/// All tiles of n rows in their order. Every axis of the mesh shards the rows.
class EliminationOrder {
 public:
  constexpr EliminationOrder(Index n, const RankLine& line, Index height) {
    Index position = 0;
    for (Index local = 0; local < line.block(n, 0).size; local += height) {
      for (int rank = 0; rank < line.ranks(); ++rank) {
        const Range block = line.block(n, rank);
        const Index size = std::min(height, block.size - local);
        if (size <= 0) continue;
        tiles_.push_back({rank, block.begin + local, size, local, position});
        position += size;
      }
    }
  }
  constexpr const std::vector<Tile>& tiles() const { return tiles_; }
  /// The tiles once around the ranks: at most one of each.
  constexpr std::vector<std::span<const Tile>> rounds() const {
    std::vector<std::span<const Tile>> all;
    for (auto tile = tiles_.begin(); tile != tiles_.end();) {
      const auto end =
          std::find_if(tile, tiles_.end(), [&](const Tile& t) { return t.local != tile->local; });
      all.emplace_back(tile, end);
      tile = end;
    }
    return all;
  }

 private:
  std::vector<Tile> tiles_;
};

}  // namespace shardwise::detail
