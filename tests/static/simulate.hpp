// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// A mesh in miniature: what every rank holds, and what every step does to it. The routes of the layout
/// algebra are carried out here literally, with nothing but `local_box` and the group functions, and the
/// outcome is compared with the tensor itself. Everything is constexpr: the compiler runs the mesh.
///
/// A tensor has at most 64 elements, so the elements that a rank holds are the bits of one number.

#include <array>
#include <bit>
#include <cstdint>

#include "shardwise/layout/block.hpp"
#include "shardwise/layout/route.hpp"

namespace shardwise::testing {

using Elements = std::uint64_t;

/// Deterministic noise in [-8, 8).
constexpr int noise(int a, int b) {
  std::uint32_t mixed =
      static_cast<std::uint32_t>(a) * 2654435761u + static_cast<std::uint32_t>(b) * 40503u + 97u;
  mixed ^= mixed >> 15;
  mixed *= 2246822519u;
  mixed ^= mixed >> 13;
  return static_cast<int>(mixed % 16u) - 8;
}

/// The value of element `e` of the tensor.
constexpr int value_of(int e) { return 5 * e - 12; }

constexpr int combine(ReduceOp op, int a, int b) {
  if (op == ReduceOp::sum) return a + b;
  return (op == ReduceOp::max) == (a > b) ? a : b;
}

/// Term `member` of `members` of element `e`: only all of them together make its value.
constexpr int term(ReduceOp op, int e, int member, int members) {
  if (op == ReduceOp::sum) {
    if (member != members - 1) return noise(e, member);
    int rest = value_of(e);
    for (int i = 0; i < members - 1; ++i) rest -= noise(e, i);
    return rest;
  }
  if (member == (e + 1) % members) return value_of(e);
  int distance = 9 + noise(e, member);
  return value_of(e) + (op == ReduceOp::max ? -distance : distance);
}

constexpr AxisSet pending_axes(const Layout& layout) {
  AxisSet set = 0;
  for (int axis = 0; axis < layout.axes; ++axis) {
    if (layout[axis].is_partial()) set |= 1u << axis;
  }
  return set;
}

/// The kind of the pending reduction, if any.
constexpr ReduceOp pending_op(const Layout& layout) {
  for (int axis = 0; axis < layout.axes; ++axis) {
    if (layout[axis].is_partial()) return layout[axis].op();
  }
  return ReduceOp::sum;
}

/// What each rank holds: which elements, and their values (or terms of them).
template <std::size_t Ranks, std::size_t Size>
struct Contents {
  std::array<Elements, Ranks> held{};
  std::array<std::array<int, Size>, Ranks> values{};
};

/// A mesh of exactly `Ranks` ranks on `Axes` axes and a tensor of `Rank` dimensions with at most `Size`
/// elements.
template <int Axes, std::size_t Ranks, int Rank, std::size_t Size>
class Scene {
 public:
  using Held = Contents<Ranks, Size>;

  constexpr Scene(const MeshSizes& sizes, const Shape<Rank>& shape)
      : sizes_(sizes), shape_(shape), size_(static_cast<int>(elements(shape))) {
    for (std::size_t r = 0; r < Ranks; ++r) {
      coordinates_[r] = group_member(sizes, {}, Axes, ~0u, static_cast<int>(r));
    }
    for (AxisSet set = 0; set < 1u << Axes; ++set) {
      for (std::size_t r = 0; r < Ranks; ++r) {
        for (int i = 0; i < group_size(sizes, Axes, set); ++i) {
          MeshSizes at = group_member(sizes, coordinates_[r], Axes, set, i);
          members_[set][r][static_cast<std::size_t>(i)] =
              static_cast<std::size_t>(group_rank(sizes, at, Axes, ~0u));
        }
      }
    }
    for (int e = 0; e < size_; ++e) {
      Index rest = e;
      for (std::size_t dim = Rank; dim-- > 0; rest /= shape[dim]) {
        slabs_[dim][static_cast<std::size_t>(rest % shape[dim])] |= Elements{1} << e;
      }
    }
  }

  constexpr const MeshSizes& sizes() const { return sizes_; }

  /// The elements of rank `r`'s box.
  constexpr Elements owned(const Layout& layout, std::size_t r) const {
    Box<Rank> box = local_box(shape_, layout, sizes_, coordinates_[r]);
    Elements all = ~Elements{0};
    for (std::size_t dim = 0; dim < Rank; ++dim) {
      Elements slab = 0;
      for (Index i = box.begin[dim]; i < box.begin[dim] + box.size[dim]; ++i) {
        slab |= slabs_[dim][static_cast<std::size_t>(i)];
      }
      all &= slab;
    }
    return all;
  }

  constexpr Held distributed(const Layout& layout) const {
    Held contents;
    AxisSet pending = pending_axes(layout);
    int members = group_size(sizes_, Axes, pending);
    for (std::size_t r = 0; r < Ranks; ++r) {
      contents.held[r] = owned(layout, r);
      int member = group_rank(sizes_, coordinates_[r], Axes, pending);
      each(contents.held[r], [&](std::size_t e) {
        contents.values[r][e] = term(pending_op(layout), static_cast<int>(e), member, members);
      });
    }
    return contents;
  }

  /// Is this the tensor, distributed as `layout`, of which every rank has the right elements? Along full axes
  /// all ranks hold the same; the terms along pending axes make the values.
  constexpr bool holds(const Layout& layout, const Held& contents) const {
    AxisSet pending = pending_axes(layout);
    int members = group_size(sizes_, Axes, pending);
    bool right = true;
    for (std::size_t r = 0; r < Ranks; ++r) {
      for (int axis = 0; axis < Axes; ++axis) {
        if (!layout[axis].is_full() || coordinates_[r][static_cast<std::size_t>(axis)] == 0) continue;
        std::size_t first = member(r, 1u << axis, 0);
        each(contents.held[r],
             [&](std::size_t e) { right &= contents.values[r][e] == contents.values[first][e]; });
      }
      if (group_rank(sizes_, coordinates_[r], Axes, pending) != 0) continue;
      each(contents.held[r], [&](std::size_t e) {
        int value = contents.values[r][e];
        for (int i = 1; i < members; ++i) {
          value = combine(pending_op(layout), value, contents.values[member(r, pending, i)][e]);
        }
        right &= value == value_of(static_cast<int>(e));
      });
    }
    return right;
  }

  /// Carries out one step. False if some rank would need what it cannot have: its own elements in a local
  /// step, those of its group in a collective.
  constexpr bool perform(const Layout& from, const Step& step, Held& contents) const {
    Held next;
    for (std::size_t r = 0; r < Ranks; ++r) next.held[r] = owned(step.to, r);
    bool done = false;
    switch (step.kind) {
      case Collective::none:
        done = step.axes == 0 && keep(from, step.to, contents, next);
        break;
      case Collective::all_gather:
      case Collective::all_to_all:
        done = exchange(step, contents, next);
        break;
      case Collective::all_reduce:
      case Collective::reduce_scatter:
        done = reduce(from, step, contents, next);
        break;
      case Collective::send:  // no step of a route
        break;
    }
    if (done) contents = next;
    return done;
  }

  /// Does this one step lead from any distribution as `from` to one as `step.to`?
  constexpr bool right(const Layout& from, const Step& step) const {
    Held contents = distributed(from);
    return perform(from, step, contents) && holds(step.to, contents);
  }

  /// Does this route lead from `start`, distributed as `from`, to its end?
  constexpr bool right(const Layout& from, const Held& start, const Route& route) const {
    Held contents = start;
    Layout at = from;
    for (const Step& step : route) {
      if (!perform(at, step, contents)) return false;
      at = step.to;
    }
    return holds(at, contents);
  }

 private:
  static constexpr void each(Elements set, auto&& visit) {
    for (; set != 0; set &= set - 1) visit(static_cast<std::size_t>(std::countr_zero(set)));
  }

  /// Member `index` of the group of rank `r` over the axes of `set`.
  constexpr std::size_t member(std::size_t r, AxisSet set, int index) const {
    return members_[set][r][static_cast<std::size_t>(index)];
  }

  /// A local step: own elements, or zero where a sum becomes pending.
  constexpr bool keep(const Layout& from, const Layout& to, const Held& contents, Held& next) const {
    for (std::size_t r = 0; r < Ranks; ++r) {
      bool keeps = true, zero_elsewhere = false;
      for (int axis = 0; axis < Axes; ++axis) {
        if (to[axis] != partial_sum || from[axis].is_partial()) continue;
        zero_elsewhere = true;
        keeps &= from[axis].is_shard() || coordinates_[r][static_cast<std::size_t>(axis)] == 0;
      }
      if ((next.held[r] & ~contents.held[r]) != 0 && !zero_elsewhere) return false;
      if (keeps)
        each(next.held[r] & contents.held[r],
             [&](std::size_t e) { next.values[r][e] = contents.values[r][e]; });
    }
    return true;
  }

  /// Every rank puts its new block together from the blocks of its group, which are disjoint.
  constexpr bool exchange(const Step& step, const Held& contents, Held& next) const {
    int members = group_size(sizes_, Axes, step.axes);
    for (std::size_t r = 0; r < Ranks; ++r) {
      Elements offered = 0;
      for (int i = 0; i < members; ++i) {
        std::size_t other = member(r, step.axes, i);
        if ((offered & contents.held[other]) != 0) return false;
        offered |= contents.held[other];
        each(next.held[r] & contents.held[other],
             [&](std::size_t e) { next.values[r][e] = contents.values[other][e]; });
      }
      if ((next.held[r] & ~offered) != 0) return false;
      if (step.kind == Collective::all_gather && next.held[r] != offered) return false;
    }
    return true;
  }

  /// The group's terms of one block are combined; every member keeps all of it, or they share it out.
  constexpr bool reduce(const Layout& from, const Step& step, const Held& contents, Held& next) const {
    if ((step.axes & ~pending_axes(from)) != 0) return false;
    int members = group_size(sizes_, Axes, step.axes);
    bool scatter = step.kind == Collective::reduce_scatter;
    for (std::size_t r = 0; r < Ranks; ++r) {
      Elements taken = 0;
      for (int i = 0; i < members; ++i) {
        std::size_t other = member(r, step.axes, i);
        if (contents.held[other] != contents.held[r]) return false;
        if (!scatter && next.held[other] != contents.held[r]) return false;
        if (scatter && (taken & next.held[other]) != 0) return false;
        taken |= next.held[other];
        each(next.held[r] & contents.held[r], [&](std::size_t e) {
          int mine = contents.values[other][e];
          next.values[r][e] = i == 0 ? mine : combine(pending_op(from), next.values[r][e], mine);
        });
      }
      if (taken != contents.held[r]) return false;
    }
    return true;
  }

  MeshSizes sizes_;
  Shape<Rank> shape_;
  int size_;
  std::array<MeshSizes, Ranks> coordinates_{};
  std::array<std::array<std::array<std::size_t, Ranks>, Ranks>, std::size_t{1} << Axes> members_{};
  std::array<std::array<Elements, Size>, Rank> slabs_{};
};

}  // namespace shardwise::testing
