// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// A gradient that is zero except in a few rows: that of an embedding's table, if a batch looks up few of its rows. It
/// is kept as the ids of these rows and their gradients, which are smaller than the table.

#include <shardwise/kernel/embedding.hpp>
#include <shardwise/tensor/any_tensor.hpp>

namespace shardwise::detail {

/// Adds elements of one type; if the compute type is wider, also sums many of them in that type.
struct ElementSum {
  Index bytes;  ///< of an element
  void (*add)(Index count, const void* a, const void* b, void* sum);
  Index wide_bytes;                                                  ///< of an element of the compute type
  void (*add_wide)(Index count, const void* more, void* wide_sum);   ///< null if that is the same type
  void (*narrow)(Index count, const void* wide_sum, void* rounded);  ///< null if that is the same type
};
template <class T>
constexpr ElementSum sum_of_elements() {
  using C = kernel::compute_t<T>;
  ElementSum functions{sizeof(T),
                       [](Index count, const void* a, const void* b, void* sum) {
                         kernel::add(count, static_cast<const T*>(a), static_cast<const T*>(b),
                                     static_cast<T*>(sum));
                       },
                       sizeof(C), nullptr, nullptr};
  if constexpr (!std::is_same_v<T, C>) {
    functions.add_wide = [](Index count, const void* more, void* wide_sum) {
      kernel::accumulate_wide(count, static_cast<const T*>(more), static_cast<C*>(wide_sum));
    };
    functions.narrow = [](Index count, const void* wide_sum, void* rounded) {
      kernel::convert(count, static_cast<const C*>(wide_sum), static_cast<T*>(rounded));
    };
  }
  return functions;
}
template <class T>
inline constexpr ElementSum element_sum = sum_of_elements<T>();

/// A part of a table: these rows, with all columns of the block.
struct TableBlock {
  Index first, rows, columns;
};

/// Adds rows[i, :] to row ids[i] - first of a block, in the order of i, for the ids of its rows.
using AddSparseRows = void (*)(Index count, const void* ids, const TableBlock& block, const void* rows,
                               void* sums);
template <class T, class Id>
void add_sparse_rows(Index count, const void* ids, const TableBlock& block, const void* rows, void* sums) {
  kernel::embedding_backward(count, static_cast<const Id*>(ids), block.first, block.rows, block.columns,
                             static_cast<const T*>(rows), static_cast<T*>(sums));
}

/// The contribution of one lookup.
struct SparseRows {
  AnyTensor ids;   ///< integers [t…]
  AnyTensor rows;  ///< the gradients of the rows that were looked up, [t…, columns]
  TableBlock block;
  const ElementSum* elements;
  AddSparseRows add;

  constexpr Index bytes() const { return block.rows * block.columns * elements->bytes; }
  /// The most ids on any rank: the same number on every rank.
  constexpr Index most_ids() const { return ids.box_at(MeshSizes{}).elements(); }
  /// Adds them to sums of all rows.
  constexpr void add_to(const Buffer& sums) const {
    if (sums->data) add(ids.local_elements(), ids.buffer->data, block, rows.buffer->data, sums->data);
  }
  /// The sums of the rows, one for each row of the block.
  constexpr Buffer summed(MemoryUse use) const {
    Buffer sums = allocate_buffer(rows.mesh, bytes(), use);
    if (sums->data) std::memset(sums->data, 0, static_cast<std::size_t>(bytes()));
    add_to(sums);
    return sums;
  }
};

}  // namespace shardwise::detail
