// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// LU with partial pivoting of a distributed matrix, for `solve`.
///
/// A step gathers the columns of one tile and chooses pivots among all rows that are left, on every rank alike. Rows
/// stay on their ranks: a pivot row goes to all, and columns are taken in the order of elimination.

#include <algorithm>

#include <shardwise/kernel/lu_panel.hpp>
#include <shardwise/linalg/elimination.hpp>

namespace shardwise::detail {

/// The equations A x = b, whose solution is computed when constructed, unless `failed()`. Rows are [A | b].
template <class T>
class Equations {
 public:
  constexpr Equations(AnyTensor a, AnyTensor b)
      : line_{a.mesh, a.type},
        n_(a.shape[0]),
        columns_(b.shape[1]),
        width_(n_ + columns_),
        order_(n_, line_, std::clamp<Index>(n_ / line_.ranks() / 8, 8, 64)),
        left_(static_cast<std::size_t>(line_.ranks()), Index{0}) {
    if (a.shape[1] != n_) fail({"solve: a matrix ", a.extents(), " is not square"});
    if (b.shape[0] != n_)
      fail({"solve: the right side ", b.extents(), " does not have the ", n_, " rows of the matrix"});
    AnyTensor rows = redistributed_to(std::move(a), line_.rows(), line_.type);
    AnyTensor sides = redistributed_to(std::move(b), line_.rows(), line_.type);
    equations_ = line_.tensor({n_, width_}, line_.rows());
    for (int rank = 0; rank < line_.ranks(); ++rank) {
      left_[static_cast<std::size_t>(rank)] = line_.block(n_, rank).size;
    }
    own_ = left(line_.rank());
    if (!dry()) {
      for (Index i = 0; i < own_; ++i) {
        permute<T>(order_.tiles(), data(rows) + i * n_, row(i));
        std::copy_n(data(sides) + i * columns_, columns_, row(i) + n_);
      }
    }
    rows = sides = AnyTensor();
    pivots_.reserve(static_cast<std::size_t>(n_));
    for (const Tile& tile : order_.tiles()) {
      failed_ = eliminate(tile);
      if (failed_ >= 0) return;
    }
    solution_ = line_.tensor({n_, columns_}, everywhere(line_.mesh.axes(), replicate));
    x_ = dry() ? std::vector<T>() : std::vector<T>(static_cast<std::size_t>(n_ * columns_));
    std::for_each(order_.tiles().rbegin(), order_.tiles().rend(),
                  [&](const Tile& tile) { substitute(tile); });
  }
  /// The column without a pivot that is finite and not 0, the same on every rank, or -1.
  constexpr Index failed() const { return failed_; }
  /// x: [n, r], on every rank.
  constexpr AnyTensor solution() && { return std::move(solution_); }

 private:
  struct Pivot {
    int owner;
    Index local;  ///< in the owner's block, whose rows are swapped
  };
  constexpr bool dry() const { return line_.mesh.dry(); }
  static T* data(const AnyTensor& x) { return static_cast<T*>(x.buffer->data); }
  T* row(Index i) const { return data(equations_) + i * width_; }
  /// The number of rows of a rank that are not eliminated. They are the last ones of its block.
  constexpr Index& left(int rank) { return left_[static_cast<std::size_t>(rank)]; }

  /// Returns the column without a pivot, or -1.
  constexpr Index eliminate(const Tile& tile) {
    const Index w = tile.size, begin = tile.position, end = begin + w, later = width_ - end,
                own = left(line_.rank());
    const Index height = *std::max_element(left_.begin(), left_.end());
    const AnyTensor panel = line_.gathered<T>(height, w, [&](T* block) {
      std::fill_n(block + own * w, (height - own) * w, T{0});
      for (Index i = 0; i < own; ++i) std::copy_n(row(own_ - own + i) + begin, w, block + i * w);
    });
    std::vector<Index> before;  // the number of the first row of each rank among those that are left
    Index rows = 0;
    for (const Index each : left_) before.push_back(std::exchange(rows, rows + each));

    std::vector<T> l;
    std::vector<Index> order;
    if (!dry()) {
      l.resize(static_cast<std::size_t>(rows * w));
      order.resize(static_cast<std::size_t>(rows));
      for (int rank = 0; rank < line_.ranks(); ++rank) {
        std::copy_n(data(panel) + rank * height * w, left(rank) * w,
                    l.data() + before[static_cast<std::size_t>(rank)] * w);
      }
      const Index failed = kernel::lu_panel(rows, w, l.data(), order.data());
      if (failed >= 0) return tile.row + failed;
    }
    choose(tile, order, before);
    const AnyTensor pivot_rows = line_.summed<T>(w, later, [&](T* block) {
      for_own_pivots(begin, w,
                     [&](Index i, Index local) { std::copy_n(row(local) + end, later, block + i * later); });
    });
    line_.compute(rows * w * w + w * w * later + 2 * left(line_.rank()) * w * later);
    if (dry()) return -1;
    T* const u = data(pivot_rows);
    for (Index i = 0; i < w; ++i) {  // u = l⁻¹ (pivot rows)
      for (Index j = 0; j < i; ++j) {
        const T factor = l[static_cast<std::size_t>(i * w + j)];
        for (Index c = 0; c < later; ++c) u[i * later + c] -= factor * u[j * later + c];
      }
    }
    for_own_pivots(begin, w, [&](Index i, Index local) {
      std::copy_n(l.data() + i * w, w, row(local) + begin);
      std::copy_n(u + i * later, later, row(local) + end);
    });
    update(own, before[static_cast<std::size_t>(line_.rank())], l, order, w, end, u);
    return -1;
  }
  /// Makes the first rows of `order` the pivots of a tile, and moves them before the rows that are left on their ranks.
  constexpr void choose(const Tile& tile, const std::vector<Index>& order, const std::vector<Index>& before) {
    const std::vector<Index> was = left_;
    std::vector<std::vector<Index>> moved(left_.size());  // on each rank, the row at each place that is left
    for (Index i = 0; i < tile.size; ++i) {
      int owner = tile.owner;
      Index local = was[static_cast<std::size_t>(owner)] - left(owner);  // of a dry run: in order
      if (!dry()) {
        const Index number = order[static_cast<std::size_t>(i)];
        owner = static_cast<int>(std::upper_bound(before.begin(), before.end(), number) - before.begin()) - 1;
        local = number - before[static_cast<std::size_t>(owner)];
      }
      const Index size = line_.block(n_, owner).size;
      const Index first = size - was[static_cast<std::size_t>(owner)], done = size - left(owner);
      std::vector<Index>& at = moved[static_cast<std::size_t>(owner)];
      if (at.empty()) {
        at.resize(static_cast<std::size_t>(was[static_cast<std::size_t>(owner)]), Index{0});
        std::iota(at.begin(), at.end(), Index{0});
      }
      const auto place = std::find(at.begin() + (done - first), at.end(), local);
      if (owner == line_.rank() && !dry()) {
        T* const one = row(first + (place - at.begin()));
        if (one != row(done)) std::swap_ranges(one, one + width_, row(done));
      }
      std::swap(*place, at[static_cast<std::size_t>(done - first)]);
      pivots_.push_back({owner, done});
      --left(owner);
    }
    rows_moved_ = std::move(moved[static_cast<std::size_t>(line_.rank())]);
  }
  /// Subtracts l u from this rank's rows that are left. Before the step there were `own`, the first with number
  /// `before`.
  void update(Index own, Index before, const std::vector<T>& l, const std::vector<Index>& order, Index w,
              Index end, const T* u) {
    const Index rest = left(line_.rank()), later = width_ - end;
    if (rest == 0) return;
    std::vector<Index> place_of(static_cast<std::size_t>(own));
    for (std::size_t i = 0; i < order.size(); ++i) {
      const Index number = order[i] - before;
      if (number >= 0 && number < own) place_of[static_cast<std::size_t>(number)] = static_cast<Index>(i);
    }
    std::vector<T> minus(static_cast<std::size_t>(rest * w));
    for (Index i = 0; i < rest; ++i) {
      const Index at = own - rest + i;
      const Index was = rows_moved_.empty() ? at : rows_moved_[static_cast<std::size_t>(at)];
      const T* from = l.data() + place_of[static_cast<std::size_t>(was)] * w;
      for (Index j = 0; j < w; ++j) minus[static_cast<std::size_t>(i * w + j)] = -from[j];
    }
    kernel::gemm(kernel::Transpose::no, kernel::Transpose::no, rest, later, w, minus.data(), w, u, later,
                 row(own_ - rest) + end, width_, true);
  }
  /// Calls f(i, local) for the pivots from number `first` on, `count` of them, that this rank owns.
  template <class F>
  void for_own_pivots(Index first, Index count, F f) const {
    for (Index i = 0; i < count; ++i) {
      const Pivot& pivot = pivots_[static_cast<std::size_t>(first + i)];
      if (pivot.owner == line_.rank()) f(i, pivot.local);
    }
  }

  /// The rows of x that belong to the columns of a tile, from the later ones.
  constexpr void substitute(const Tile& tile) {
    const Index w = tile.size, end = tile.position + w, later = n_ - end;
    const AnyTensor corner = line_.summed<T>(w, w + columns_, [&](T* block) {
      for_own_pivots(tile.position, w, [&](Index i, Index local) {
        T* const to = block + i * (w + columns_);
        std::copy_n(row(local) + tile.position, w, to);
        kernel::gemm(kernel::Transpose::no, kernel::Transpose::no, 1, columns_, later, row(local) + end,
                     width_, x_.data() + end * columns_, columns_, to + w, columns_, false);
        for (Index c = 0; c < columns_; ++c) to[w + c] = row(local)[n_ + c] - to[w + c];
      });
    });
    line_.compute(2 * w * later * columns_ / line_.ranks() + w * w * columns_);
    if (dry()) return;
    const T* u = data(corner);
    T* const x = x_.data() + tile.position * columns_;
    for (Index i = w; i-- > 0;) {
      const T* of_row = u + i * (w + columns_);
      for (Index c = 0; c < columns_; ++c) {
        T sum = of_row[w + c];
        for (Index j = i + 1; j < w; ++j) sum -= of_row[j] * x[j * columns_ + c];
        x[i * columns_ + c] = sum / of_row[i];
      }
    }
    std::copy_n(x, w * columns_, data(solution_) + tile.row * columns_);
  }

  RankLine line_;
  Index n_, columns_, width_;
  EliminationOrder order_;
  std::vector<Index> left_;
  AnyTensor equations_;
  Index own_ = 0, failed_ = -1;
  std::vector<Pivot> pivots_;
  std::vector<Index> rows_moved_;  ///< in the latest step; empty: none
  AnyTensor solution_;
  std::vector<T> x_;  ///< in the order of elimination
};

}  // namespace shardwise::detail
