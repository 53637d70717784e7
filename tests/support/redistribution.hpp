// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Tensors whose every element is known on every rank, in any layout, to check redistributions exactly: small
/// whole numbers, so that sums of terms have no rounding error in any element type, bfloat16 included.

#include <doctest/doctest.h>
#include <shardwise/comm/reduced_numbers.hpp>
#include <shardwise/layout/layout.hpp>
#include <shardwise/mesh/mesh.hpp>
#include <shardwise/tensor/transfer.hpp>

#include <support/mpi_counter.hpp>

#include <algorithm>
#include <span>
#include <string>
#include <vector>

namespace shardwise::testing {

inline std::string text(const MeshSizes& sizes, int axes) {
  std::string result;
  for (int axis = 0; axis < axes; ++axis) {
    result += (axis > 0 ? "x" : "") + std::to_string(sizes[static_cast<std::size_t>(axis)]);
  }
  return result;
}

inline std::string text(std::span<const Index> shape) {
  std::string result;
  for (Index extent : shape) result += (result.empty() ? "" : "x") + std::to_string(extent);
  return result;
}

/// All layouts of tensors with `rank` dimensions over these placements (besides the shards).
inline std::vector<Layout> all_layouts(int axes, int rank, std::vector<Placement> placements) {
  for (int dim = 0; dim < rank; ++dim) placements.push_back(shard(dim));
  std::vector<Layout> layouts{Layout{}};
  for (int axis = 0; axis < axes; ++axis) {
    std::vector<Layout> longer;
    for (Layout layout : layouts) {
      ++layout.axes;
      for (Placement p : placements) {
        layout[axis] = p;
        longer.push_back(layout);
      }
    }
    layouts = longer;
  }
  std::vector<Layout> good;
  for (const Layout& layout : layouts) {
    if (well_formed(layout, rank)) good.push_back(layout);
  }
  return good;
}

constexpr bool convertible(const Layout& from, const Layout& to) {
  for (int axis = 0; axis < from.axes; ++axis) {
    if (!shardwise::convertible(from[axis], to[axis])) return false;
  }
  return true;
}

/// 0 … 7, without a pattern.
inline int noise(std::uint64_t a, std::uint64_t b) {
  std::uint64_t h = (a * 0x9e3779b97f4a7c15u + b + 1) * 0xbf58476d1ce4e5b9u;
  h = (h ^ (h >> 29)) * 0x94d049bb133111ebu;
  return static_cast<int>((h >> 40) % 8);
}

/// What the rank at `at` brings for element `global` of a tensor of layout `layout`: the term of a pending
/// reduction, which depends on its place along the pending axes; else the value.
inline int term(const Layout& layout, const MeshSizes& sizes, const MeshSizes& at, Index global,
                std::uint64_t seed) {
  std::uint64_t which = 0;
  for (int axis = 0; axis < layout.axes; ++axis) {
    auto a = static_cast<std::size_t>(axis);
    if (layout[axis].is_partial())
      which = which * static_cast<std::uint64_t>(sizes[a]) + static_cast<std::uint64_t>(at[a]);
  }
  return noise(seed + which, static_cast<std::uint64_t>(global));
}

/// How the terms of a layout are combined.
inline Placement pending_kind(const Layout& layout) {
  for (int axis = 0; axis < layout.axes; ++axis) {
    if (layout[axis].is_partial()) return layout[axis];
  }
  return partial_sum;
}

/// The value of element `global`: the reduction of all terms.
inline int value(const Layout& layout, const MeshSizes& sizes, Index global, std::uint64_t seed) {
  const Placement kind = pending_kind(layout);
  AxisSet pending = 0;
  for (int axis = 0; axis < layout.axes; ++axis) {
    if (layout[axis].is_partial()) pending |= 1u << axis;
  }
  int result = 0;
  for (int m = 0; m < group_size(sizes, layout.axes, pending); ++m) {
    int next = term(layout, sizes, group_member(sizes, {}, layout.axes, pending, m), global, seed);
    if (m == 0) {
      result = next;
    } else if (kind == partial_sum) {
      result += next;
    } else {
      result = kind == partial_max ? std::max(result, next) : std::min(result, next);
    }
  }
  return result;
}

/// f(local offset, global offset) for every element of a block.
template <int Rank, class F>
void for_each_element(const Shape<Rank>& shape, const Box<Rank>& box, F f) {
  for (Index local = 0; local < box.elements(); ++local) {
    Index rest = local, global = 0, stride = 1;
    for (std::size_t dim = Rank; dim-- > 0;) {
      global += (box.begin[dim] + rest % box.size[dim]) * stride;
      rest /= box.size[dim];
      stride *= shape[dim];
    }
    f(static_cast<std::size_t>(local), global);
  }
}

/// This rank's block of the tensor that `seed` makes in this layout.
template <class T, int Rank, class MeshType>
std::vector<T> source_block(const MeshType& mesh, const Shape<Rank>& shape, const Layout& layout,
                            std::uint64_t seed) {
  Box<Rank> box = local_box(shape, layout, mesh.sizes(), mesh.coordinates());
  std::vector<T> block(static_cast<std::size_t>(box.elements()));
  for_each_element(shape, box, [&](std::size_t local, Index global) {
    block[local] =
        static_cast<T>(static_cast<float>(term(layout, mesh.sizes(), mesh.coordinates(), global, seed)));
  });
  return block;
}

/// Is `block`, in layout `to`, this rank's part of the tensor that `seed` made in layout `from`? Where it is
/// pending, the terms of all ranks are added up to see; this is collective (and not counted).
template <class T, int Rank, class MeshType>
bool is_block_of(const MeshType& mesh, const Shape<Rank>& shape, const T* block, const Layout& to,
                 const Layout& from, std::uint64_t seed) {
  Box<Rank> box = local_box(shape, to, mesh.sizes(), mesh.coordinates());
  bool right = true;
  auto expected = [&](Index global) { return static_cast<float>(value(from, mesh.sizes(), global, seed)); };
  if (!has_partial(to)) {
    for_each_element(shape, box, [&](std::size_t local, Index global) {
      right = right && static_cast<float>(block[local]) == expected(global);
    });
    return right;
  }
  const Placement kind = pending_kind(to);
  AxisSet spread = 0;
  for (int axis = 0; axis < to.axes; ++axis) {
    if (!to[axis].is_full()) spread |= 1u << axis;
  }
  const auto count = static_cast<std::size_t>(elements(shape));
  const float absent = kind == partial_sum ? 0.0F : kind == partial_max ? -1.0F : 1000.0F;
  std::vector<float> terms(count, absent), whole(count);
  for_each_element(shape, box, [&](std::size_t local, Index global) {
    terms[static_cast<std::size_t>(global)] = static_cast<float>(block[local]);
  });
  mesh.communicator(spread).all_reduce(terms.data(), whole.data(), static_cast<Index>(count), DataType::f32,
                                       kind == partial_sum   ? ReduceOp::sum
                                       : kind == partial_max ? ReduceOp::max
                                                             : ReduceOp::min);
  for (std::size_t i = 0; i < count; ++i) right = right && whole[i] == expected(static_cast<Index>(i));
  return right;
}

/// The messages of a route: of a tensor of this layout, on a mesh of these sizes.
struct Messages {
  DataType type;
  Layout from;
  MeshSizes sizes;

  /// Sums of bfloat16 among more than two ranks are made in float: by an all-to-all, and a gather if all want them.
  bool summed_wide(AxisSet axes) const {
    return detail::sums_wide(type, detail::pending_op(from, axes)) && group_size(sizes, from.axes, axes) > 2;
  }
};

/// Compares the calls of a route, those recorded by the mesh, and those that MPI saw: kinds and bytes.
/// Returns what is wrong, or nothing.
template <class PlanType>
std::string disagreement(const Route& route, const Messages& messages, const PlanType& recorded,
                         const mpi_counter::Counts& seen) {
  using Row = std::pair<Collective, mpi_counter::Tally>;
  std::string wrong;
  std::ptrdiff_t data_calls = 0;
  for (const auto& [kind, tally] :
       {Row{Collective::all_reduce, seen.all_reduce}, Row{Collective::all_gather, seen.all_gather},
        Row{Collective::reduce_scatter, seen.reduce_scatter}, Row{Collective::all_to_all, seen.all_to_all}}) {
    std::int64_t planned = 0, asked = 0, bytes = 0;
    for (const Step& step : route) planned += step.kind == kind ? 1 : 0;
    for (const auto& phase : recorded.record().traffic) {
      auto count = [&](Collective counted, bool wide) {
        for (AxisSet axes = 1; axes < 1u << max_axes; ++axes) {
          const Traffic& cell = phase[static_cast<std::size_t>(counted)][axes];
          if (cell.calls == 0 || messages.summed_wide(axes) != wide) continue;
          asked += cell.calls;
          bytes += cell.bytes;
        }
      };
      const bool reduces = kind == Collective::all_reduce || kind == Collective::reduce_scatter;
      count(kind, false);
      if (!reduces) count(kind, true);
      if (!reduces) count(Collective::all_reduce, true);
      if (kind == Collective::all_to_all) count(Collective::reduce_scatter, true);
    }
    const bool differs = mpi_counter::counting() && (tally.calls != asked || tally.bytes != bytes);
    if (recorded.count(kind) != planned || differs) {
      wrong += std::string(" ") + name_of(kind) + ": route " + std::to_string(planned) + ", recorded " +
               std::to_string(recorded.count(kind)) + " with " + std::to_string(bytes) + " bytes, MPI " +
               std::to_string(tally.calls) + " with " + std::to_string(tally.bytes) + " bytes;";
    }
    data_calls += tally.calls;
  }
  if (seen.data_calls() != data_calls) wrong += " other calls: " + seen.text();
  return wrong;
}

}  // namespace shardwise::testing
