// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Strided copies of boxes of any rank: for packing and unpacking of blocks, and for transposition, which is a copy
/// whose source and destination order their dimensions differently.
///
///     const Index extents[] = {rows, cols}, from[] = {1, rows}, to[] = {cols, 1};
///     copy_box(2, extents, src, from, dst, to);   // dst[rows, cols] = src[cols, rows]ᵀ

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <utility>

#include <shardwise/kernel/element.hpp>

namespace shardwise::kernel {

namespace detail {

struct CopyDimension {
  Index extent, src, dst;  // strides
};

/// The dimensions of a box without those of extent 1, ordered so that the destination is written in order, and
/// merged where neighbours are contiguous in both.
struct CopyLoops {
  static constexpr int most = 16;
  Array<CopyDimension, most> dims{};
  int rank = 0;
  bool empty = false;

  CopyLoops(int given, const Index* extents, const Index* src, const Index* dst) {
    for (int i = 0; i < given; ++i) {
      empty = empty || extents[i] == 0;
      if (extents[i] == 1) continue;
      if (rank == most) throw std::length_error("shardwise: a box of more than 16 dimensions");
      CopyDimension dim{extents[i], src[i], dst[i]};
      int at = rank++;
      for (; at > 0 && dims[at - 1].dst < dim.dst; --at) dims[at] = dims[at - 1];
      dims[at] = dim;
    }
    int joined = 0;
    for (int i = 1; i < rank; ++i) {
      CopyDimension &outer = dims[joined], &inner = dims[i];
      if (outer.src == inner.src * inner.extent && outer.dst == inner.dst * inner.extent) {
        outer = {outer.extent * inner.extent, inner.src, inner.dst};
      } else {
        dims[++joined] = inner;
      }
    }
    if (rank > 0) rank = joined + 1;
    // Second to last: the dimension along which the source is contiguous.
    for (int i = 0; i + 2 < rank; ++i) {
      if (dims[i].src < dims[rank - 2].src) std::swap(dims[i], dims[rank - 2]);
    }
    while (rank < 2) dims[rank++] = {1, 0, 0};
    if (dims[rank - 1].extent == 1) std::swap(dims[rank - 1], dims[rank - 2]);
  }
};

template <bool add, class T>
void store(T& dst, const T& src) {
  if constexpr (add) {
    dst = narrow<T>(widen(dst) + widen(src));
  } else {
    dst = src;
  }
}

/// The two innermost dimensions: as rows of contiguous elements if possible, else as tiles, so that cache lines of
/// either side are fetched only once.
template <bool add, class T>
void move_plane(CopyDimension rows, CopyDimension cols, const T* src, T* dst) {
  if (cols.src == 1 && cols.dst == 1) {
    for (Index r = 0; r < rows.extent; ++r, src += rows.src, dst += rows.dst) {
      if constexpr (add) {
        SHARDWISE_INDEPENDENT
        for (Index c = 0; c < cols.extent; ++c) store<true>(dst[c], src[c]);
      } else {
        std::memcpy(static_cast<void*>(dst), src, static_cast<std::size_t>(cols.extent) * sizeof(T));
      }
    }
    return;
  }
  constexpr Index tile = 32;
  for (Index r0 = 0; r0 < rows.extent; r0 += tile) {
    const Index r1 = std::min(rows.extent, r0 + tile);
    for (Index c0 = 0; c0 < cols.extent; c0 += tile) {
      const Index c1 = std::min(cols.extent, c0 + tile);
      for (Index r = r0; r < r1; ++r) {
        const T* from = src + r * rows.src;
        T* to = dst + r * rows.dst;
        if (cols.dst == 1) {
          SHARDWISE_INDEPENDENT
          for (Index c = c0; c < c1; ++c) store<add>(to[c], from[c * cols.src]);
        } else {
          for (Index c = c0; c < c1; ++c) store<add>(to[c * cols.dst], from[c * cols.src]);
        }
      }
    }
  }
}

template <bool add, class T>
void move_box(const CopyLoops& box, int dim, const T* src, T* dst) {
  const CopyDimension& outer = box.dims[dim];
  if (dim == box.rank - 2) {
    move_plane<add>(outer, box.dims[dim + 1], src, dst);
    return;
  }
  for (Index i = 0; i < outer.extent; ++i)
    move_box<add>(box, dim + 1, src + i * outer.src, dst + i * outer.dst);
}

}  // namespace detail

/// dst[Σ i_d · dst_strides[d]] = src[Σ i_d · src_strides[d]] for all 0 ≤ i_d < extents[d]; strides count
/// elements and are not negative. The two do not overlap. Rank 0 is one element.
template <class T>
void copy_box(int rank, const Index* extents, const T* src, const Index* src_strides, T* dst,
              const Index* dst_strides) {
  const detail::CopyLoops box(rank, extents, src_strides, dst_strides);
  if (!box.empty) detail::move_box<false>(box, 0, src, dst);
}

/// The same with dst += src; different indices must refer to different elements of dst.
template <class T>
void add_box(int rank, const Index* extents, const T* src, const Index* src_strides, T* dst,
             const Index* dst_strides) {
  const detail::CopyLoops box(rank, extents, src_strides, dst_strides);
  if (!box.empty) detail::move_box<true>(box, 0, src, dst);
}

}  // namespace shardwise::kernel
