// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Parts of row-major blocks: their position in a block, and copies of them, for any element type.

#include <shardwise/base/bodies.hpp>
#include <shardwise/kernel/arithmetic.hpp>
#include <shardwise/kernel/permute.hpp>
#include <shardwise/layout/block.hpp>
#include <shardwise/tensor/tensor.hpp>

namespace shardwise::detail {

/// A box of a tensor of any rank, padded with extents of 1.
using AnyBox = Box<max_rank>;
using AnyShape = Shape<max_rank>;

constexpr AnyShape padded(std::span<const Index> extents) {
  AnyShape shape{};
  const Index* extent = extents.data();
  for (int dim = 0, rank = static_cast<int>(extents.size()); dim < max_rank; ++dim) {
    shape.values[dim] = dim < rank ? extent[dim] : 1;
  }
  return shape;
}

/// Rows of a tensor, divided among the ranks of a group in units of `group` rows: the parts that they read from a
/// file. `shift`: rotates the assignment, so that small tensors go to different ranks.
struct DividedRows {
  Range rows;
  Index group = 0;  ///< rows; 0: not divided, the layout applies
  int shift = 0;

  constexpr AnyBox box(const AnyShape& shape, int members, int member) const {
    const Range groups = balanced_block((rows.size + group - 1) / group, members, (member + shift) % members);
    const Range own = intersection(rows, {rows.begin + groups.begin * group, groups.size * group});
    AnyBox box{{}, shape};
    box.begin[0] = own.begin;
    box.size[0] = own.size;
    return box;
  }
};

template <int Rank>
constexpr Shape<Rank> row_major_strides(const Shape<Rank>& size) {
  Shape<Rank> strides{};
  Index stride = 1;
  for (int dim = Rank; dim-- > 0;) {
    strides[dim] = stride;
    stride *= size[dim];
  }
  return strides;
}

/// Copies the indices of `part` from a block that holds `from` to one that holds `to`; elements have `element` bytes.
void copy_part(Index element, const AnyBox& part, const void* source, const AnyBox& from, void* target,
               const AnyBox& to);

/// Calls f(place in one, place in other, length), in order, for each run of elements of `part` that is contiguous
/// in two row-major blocks, which hold `one` and `other`.
template <int Rank, class F>
void for_each_run(const Box<Rank>& part, const Box<Rank>& one, const Box<Rank>& other, F f) {
  if (part.elements() == 0) return;
  Index run = 1;
  int outer = Rank;  // dimensions (outer, Rank) are whole, so a run covers [outer, Rank)
  while (outer > 0) {
    run *= part.size[--outer];
    if (part.size[outer] != one.size[outer] || part.size[outer] != other.size[outer]) break;
  }
  const auto one_strides = row_major_strides(one.size), other_strides = row_major_strides(other.size);
  Shape<Rank> at = part.begin;
  for (Index done = 0; done < part.elements(); done += run) {
    Index one_place = 0, other_place = 0;
    for (int dim = 0; dim < at.size(); ++dim) {
      one_place += (at[dim] - one.begin[dim]) * one_strides[dim];
      other_place += (at[dim] - other.begin[dim]) * other_strides[dim];
    }
    f(one_place, other_place, run);
    for (int dim = outer - 1; dim >= 0; --dim) {
      if (++at[dim] < part.begin[dim] + part.size[dim]) break;
      at[dim] = part.begin[dim];
    }
  }
}
/// The same for a block and the whole tensor.
template <class T, int Rank, class F>
void for_each_run(const View<T, Rank>& block, F f) {
  const Box<Rank> own{block.begin, block.size};
  for_each_run(own, own, {{}, block.shape}, f);
}

/// Calls f with a number of a floating-point type.
template <class F>
void with_floating(DataType type, F f) {
  if (type == DataType::f32) return f(float{});
  if (type == DataType::f64) return f(double{});
  if (type == DataType::bf16) return f(Eigen::bfloat16{});
  fail<std::logic_error>({"elements of type ", name_of(type), " are not converted"});
}

/// `copy_part` between blocks of two floating-point types; each element is rounded to the nearest of the target type.
void convert_part(const AnyBox& part, DataType source_type, const void* source, const AnyBox& from,
                  DataType target_type, void* target, const AnyBox& to);

/// The position of the first element of `part` in a block that holds `whole`, if its elements are contiguous there;
/// else -1.
[[gnu::noinline]] constexpr Index place_of(const AnyBox& part, const AnyBox& whole) {
  Index place = 0, stride = 1;
  bool rows_are_whole = true;
  for (int dim = max_rank; dim-- > 0;) {
    if (!rows_are_whole && part.size[dim] != 1) return -1;
    rows_are_whole = rows_are_whole && part.size[dim] == whole.size[dim];
    place += (part.begin[dim] - whole.begin[dim]) * stride;
    stride *= whole.size[dim];
  }
  return place;
}

#ifdef SHARDWISE_BODIES

SHARDWISE_INLINE void copy_part(Index element, const AnyBox& part, const void* source, const AnyBox& from,
                                void* target, const AnyBox& to) {
  if (part.elements() == 0) return;
  if (element > 8) {  // blocks of numbers
    return for_each_run(part, from, to, [&](Index source_place, Index target_place, Index count) {
      std::copy_n(static_cast<const char*>(source) + source_place * element, count * element,
                  static_cast<char*>(target) + target_place * element);
    });
  }
  const auto source_strides = row_major_strides(from.size), target_strides = row_major_strides(to.size);
  Index begin = 0, place = 0;
  for (int dim = 0; dim < max_rank; ++dim) {
    begin += (part.begin[dim] - from.begin[dim]) * source_strides[dim];
    place += (part.begin[dim] - to.begin[dim]) * target_strides[dim];
  }
  auto copy = [&](auto same_size) {
    using U = decltype(same_size);
    kernel::copy_box(max_rank, part.size.data(), static_cast<const U*>(source) + begin, source_strides.data(),
                     static_cast<U*>(target) + place, target_strides.data());
  };
  if (element == 1) return copy(std::uint8_t{});
  if (element == 2) return copy(std::uint16_t{});
  return element == 4 ? copy(std::uint32_t{}) : copy(std::uint64_t{});
}

SHARDWISE_INLINE void convert_part(const AnyBox& part, DataType source_type, const void* source,
                                   const AnyBox& from, DataType target_type, void* target, const AnyBox& to) {
  if (source_type == target_type) return copy_part(size_of(source_type), part, source, from, target, to);
  with_floating(source_type, [&](auto s) {
    with_floating(target_type, [&](auto t) {
      for_each_run(part, from, to, [&](Index source_place, Index target_place, Index count) {
        kernel::convert(count, static_cast<const decltype(s)*>(source) + source_place,
                        static_cast<decltype(t)*>(target) + target_place);
      });
    });
  });
}

#endif

}  // namespace shardwise::detail
