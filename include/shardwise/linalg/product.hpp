// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The plan of a matrix product C = A · B on a mesh. Along each mesh axis the product cuts one index (the rows of C,
/// its columns, or the inner index that is summed over), or none: then all ranks of the axis do the same work.
/// Products with stationary A, B or C, SUMMA, 2.5-D and 3-D products are such choices. The plan is the choice of
/// which the redistributions receive the least; among these, one that divides the work most; among these, one with
/// the fewest calls.
///
/// ```
/// constexpr ProductPlan plan = product_plan({shard(0), shard(1)}, {shard(0), shard(1)}, {shard(0), shard(1)},
///                                           {.rows = m, .columns = n, .inner = k}, {4, 4});
/// static_assert(plan.a == Layout{shard(0), replicate});   // SUMMA: A is gathered along the second axis
/// ```

#include <shardwise/layout/route.hpp>

namespace shardwise {

/// The global extents of a product: C is [rows, columns], A [rows, inner], B [inner, columns].
struct ProductExtents {
  Index rows, columns, inner;
};

/// A or B is stored as its transpose.
struct ProductTransposes {
  bool a = false, b = false;
};

struct ProductPlan {
  Layout a, b, c;             ///< of the operands, and of the result, of the local product
  double received = 0;        ///< elements that a rank receives, with even blocks
  std::int64_t repeated = 0;  ///< the number of ranks that do the same work
  int calls = 0;              ///< of collectives
};

namespace detail {

/// The redistribution of one matrix to or from each of its layouts in a product. A layout's number has a digit for each
/// axis: the dimension that is cut, 2 for whole, 3 for a pending sum.
class ProductSide {
 public:
  /// `outward`: from the product's layout to `other`, not back.
  constexpr ProductSide(const Layout& other, bool outward, Index elements, const MeshSizes& sizes)
      : other_(other), outward_(outward), sizes_(sizes), known_(std::size_t{1} << 2 * other.axes) {
    const std::int64_t ranks = group_size(sizes, other.axes, ~0u);
    scale_ = static_cast<double>(elements) / static_cast<double>(ranks * ranks);
  }
  constexpr Layout layout(unsigned number) const {
    constexpr Placement placements[] = {shard(0), shard(1), replicate, partial_sum};
    return Layout::by_axis(other_.axes, [&](int axis) { return placements[number >> 2 * axis & 3]; });
  }
  struct Move {
    double received = -1;
    int calls = 0;
  };
  /// An estimate: of routes of more than two steps, the search of `route` may find a cheaper one.
  constexpr const Move& at(unsigned number) {
    Move& move = known_[number];
    if (move.received < 0) move = in_two_steps(layout(number));
    return move;
  }
  constexpr Move exactly(const Layout& in) const {
    const Route way = outward_ ? route(in, other_, 2, sizes_) : route(other_, in, 2, sizes_);
    std::int64_t units = 0;
    Layout from = outward_ ? in : other_;
    for (const Step& step : way) {
      units += shardwise::received(from, step, sizes_);
      from = step.to;
    }
    return {static_cast<double>(units) * scale_, way.calls()};
  }

 private:
  /// The cheapest way in one step, or by a first one that finishes all reductions.
  constexpr Move in_two_steps(const Layout& in) const {
    const Layout &from = outward_ ? in : other_, &to = outward_ ? other_ : in;
    Move best;
    const auto compare = [&](const Step& first, const Step& second) {
      if (!first.possible || !second.possible) return;
      const auto units = static_cast<double>(shardwise::received(from, first, sizes_) +
                                             shardwise::received(first.to, second, sizes_));
      if (best.received >= 0 && units * scale_ >= best.received) return;
      best = {units * scale_, (first.kind != Collective::none) + (second.kind != Collective::none)};
    };
    const Step direct = single_step(from, to, sizes_);
    if (direct.possible) {
      compare(direct, {true, Collective::none, 0, to});
      return best;
    }
    Layout middle = from;
    const auto try_all = [&](auto&& self, int axis) -> void {
      while (axis < from.axes && !from[axis].is_partial()) ++axis;
      if (axis == from.axes)
        return compare(single_step(from, middle, sizes_), single_step(middle, to, sizes_));
      for (const Placement p : {shard(0), shard(1), replicate}) {
        middle[axis] = p;
        self(self, axis + 1);
      }
    };
    try_all(try_all, 0);
    return best.received < 0 ? exactly(in) : best;
  }

  Layout other_;
  bool outward_;
  MeshSizes sizes_;
  double scale_ = 0;
  std::vector<Move> known_;
};

}  // namespace detail

/// The plan of a product whose operands have the layouts `a` and `b`, and whose result shall have the layout `c`. No
/// layout has a pending maximum or minimum.
constexpr ProductPlan product_plan(const Layout& a, const Layout& b, const Layout& c,
                                   const ProductExtents& extents, const MeshSizes& sizes,
                                   const ProductTransposes& stored = {}) {
  const auto [m, n, k] = extents;
  detail::ProductSide of_a(a, false, m * k, sizes), of_b(b, false, k * n, sizes), of_c(c, true, m * n, sizes);
  constexpr unsigned whole = 2, pending = 3;
  const unsigned a_rows = stored.a ? 1 : 0, a_inner = 1 - a_rows, b_columns = stored.b ? 0 : 1,
                 b_inner = 1 - b_columns;
  const struct {
    unsigned a, b, c;
  } cuts[] = {{a_rows, whole, 0},    {whole, b_columns, 1},     {a_inner, b_inner, pending},
              {whole, whole, whole}, {pending, whole, pending}, {whole, pending, pending}};

  ProductPlan best;
  const auto choose = [&](auto&& self, int axis, unsigned in_a, unsigned in_b, unsigned in_c,
                          int repeated) -> void {
    if (axis < a.axes) {
      for (int i = 0; i < 6; ++i) {
        const bool possible = i < 4 || (i == 4 ? a : b)[axis] == partial_sum;
        const bool idle = i > 2 && sizes[axis] > 1;
        if (!possible || (i > 0 && sizes[axis] == 1)) continue;
        self(self, axis + 1, in_a | cuts[i].a << 2 * axis, in_b | cuts[i].b << 2 * axis,
             in_c | cuts[i].c << 2 * axis, idle ? repeated * sizes[axis] : repeated);
      }
      return;
    }
    double received = 0;
    int calls = 0;
    const auto worse = [&](const detail::ProductSide::Move& move) {
      received += move.received;
      calls += move.calls;
      if (best.repeated == 0 || received < best.received) return false;
      return received > best.received || repeated > best.repeated ||
             (repeated == best.repeated && calls >= best.calls);
    };
    if (worse(of_a.at(in_a)) || worse(of_b.at(in_b)) || worse(of_c.at(in_c))) return;
    best = {of_a.layout(in_a), of_b.layout(in_b), of_c.layout(in_c), received, repeated, calls};
  };
  choose(choose, 0, 0, 0, 0, 1);
  best.received = best.calls = 0;
  for (const auto& move : {of_a.exactly(best.a), of_b.exactly(best.b), of_c.exactly(best.c)}) {
    best.received += move.received;
    best.calls += move.calls;
  }
  return best;
}

}  // namespace shardwise
