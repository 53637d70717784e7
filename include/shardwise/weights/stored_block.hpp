// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// One rank's block of a tensor without its C++ types, so that what reads and writes files is compiled once.

#include <algorithm>
#include <span>
#include <vector>

#include <shardwise/tensor/any_tensor.hpp>
#include <shardwise/weights/stored_type.hpp>

// Implementation details: not part of the interface.
namespace shardwise::detail {

/// `T` is `char`, or `const char` where the block is only read. The extents are preceded by ones, up to
/// `max_rank` dimensions.
template <class T>
struct UntypedBlock {
  View<T, max_rank> extents;  // `data` is the first element's address
  DataType type = DataType::f32;
  int rank = 0;

  T* at(Index element) const { return extents.data + element * size_of(type); }
  std::vector<Index> shape() const { return {extents.shape.end() - rank, extents.shape.end()}; }
};

template <class T, int Rank>
auto untyped(const View<T, Rank>& view) {
  using Byte = std::conditional_t<std::is_const_v<T>, const char, char>;
  UntypedBlock<Byte> block;
  block.type = data_type_of<T>();
  block.rank = Rank;
  block.extents.data = reinterpret_cast<Byte*>(view.data);
  block.extents.size.fill(1);
  block.extents.shape.fill(1);
  constexpr int ones = max_rank - Rank;
  for (int dim = 0; dim < view.size.size(); ++dim) {
    block.extents.size[ones + dim] = view.size[dim];
    block.extents.begin[ones + dim] = view.begin[dim];
    block.extents.shape[ones + dim] = view.shape[dim];
  }
  return block;
}

/// The block of a tensor on a real mesh.
template <class Byte>
UntypedBlock<Byte> untyped(const AnyTensor& x) {
  const auto view = view_of(x);
  UntypedBlock<Byte> block;
  block.type = x.type;
  block.rank = x.rank;
  block.extents.data = view.data;
  auto behind_ones = [&](AnyShape extents, Index one) {
    std::rotate(extents.begin(), extents.begin() + x.rank, extents.end());
    std::fill_n(extents.begin(), max_rank - x.rank, one);
    return extents;
  };
  block.extents.size = behind_ones(view.size, 1);
  block.extents.begin = behind_ones(view.begin, 0);
  block.extents.shape = behind_ones(view.shape, 1);
  return block;
}

/// Whether the extents of `coarse` are products of adjacent extents of `fine`, in order: [6, 5] of [2, 3, 5].
inline bool merges_to(std::span<const Index> fine, std::span<const Index> coarse) {
  std::size_t next = 0;
  for (Index wanted : coarse) {
    if (next == fine.size()) return false;
    Index product = fine[next++];
    while (product != wanted && next < fine.size()) product *= fine[next++];
    if (product != wanted) return false;
  }
  // What is left is merged into the last one.
  return fine.empty() == coarse.empty() && std::all_of(fine.begin() + static_cast<Index>(next), fine.end(),
                                                       [](Index extent) { return extent == 1; });
}

/// Whether two shapes differ only in that one of them has adjacent dimensions merged: then the elements lie in
/// the same row-major order.
inline bool same_but_for_merging(std::span<const Index> a, std::span<const Index> b) {
  return merges_to(a, b) || merges_to(b, a);
}

}  // namespace shardwise::detail
