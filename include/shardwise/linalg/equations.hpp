// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// LU with pivoting of a distributed matrix, for `solve`.
///
/// A step eliminates the columns of one tile. Each rank chooses as many of its rows as the tile has columns, by LU with
/// partial pivoting of its own. All gather these, and choose the pivots among them alike: a tournament (Grigori,
/// Demmel, Xiang, "CALU: a communication optimal LU factorization algorithm", 2011). Rows stay on their ranks: a pivot
/// row goes to all, and columns are taken in the order of elimination.

#include <algorithm>
#include <numeric>

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
  constexpr Index left(int rank) const { return left_[static_cast<std::size_t>(rank)]; }

  /// The pivots of a tile, the same on every rank.
  struct Choice {
    std::vector<int> owners;
    std::vector<Index> rows;  ///< of this rank's own: their numbers among its rows that are left
    std::vector<T> lu;        ///< of their columns [w, w], and more
    Index failed = -1;        ///< the column without a pivot
  };
  constexpr Choice choice_of(const Tile& tile) const {
    const Index w = tile.size, own = left(line_.rank());
    const Index height = std::min(w, *std::max_element(left_.begin(), left_.end()));
    std::vector<Index> order;  // this rank's candidates come first
    const AnyTensor candidates = line_.gathered<T>(height, w, [&](T* block) {
      const T* const first = row(own_ - own) + tile.position;
      std::vector<T> columns;
      for (Index i = 0; i < own; ++i)
        columns.insert(columns.end(), first + i * width_, first + i * width_ + w);
      order.resize(static_cast<std::size_t>(own));
      std::iota(order.begin(), order.end(), Index{0});
      if (own > w) kernel::spanning_rows(own, w, columns.data(), order.data());
      std::fill_n(block, height * w, T{0});
      for (Index i = 0; i < std::min(own, w); ++i)
        std::copy_n(columns.data() + order[static_cast<std::size_t>(i)] * w, w, block + i * w);
    });
    line_.compute(own * w * w + line_.ranks() * w * w * w);
    Choice choice;
    if (dry()) {
      choice.owners.assign(static_cast<std::size_t>(w), tile.owner);
      return choice;
    }
    std::vector<int> owners;
    std::vector<Index> numbers;
    for (int rank = 0; rank < line_.ranks(); ++rank) {
      const Index count = std::min(w, left(rank));
      const T* const from = data(candidates) + rank * height * w;
      choice.lu.insert(choice.lu.end(), from, from + count * w);
      for (Index i = 0; i < count; ++i) {
        owners.push_back(rank);
        numbers.push_back(rank == line_.rank() ? order[static_cast<std::size_t>(i)] : -1);
      }
    }
    std::vector<Index> best(owners.size());
    choice.failed = kernel::lu_panel(std::ssize(owners), w, choice.lu.data(), best.data());
    for (Index i = 0; i < w; ++i) {
      const auto from = static_cast<std::size_t>(best[static_cast<std::size_t>(i)]);
      choice.owners.push_back(owners[from]);
      choice.rows.push_back(numbers[from]);
    }
    return choice;
  }

  /// Returns the column without a pivot, or -1.
  constexpr Index eliminate(const Tile& tile) {
    using enum kernel::Transpose;
    const Index w = tile.size, begin = tile.position, end = begin + w, later = width_ - end;
    const Choice choice = choice_of(tile);
    if (choice.failed >= 0) return tile.row + choice.failed;
    move_pivots(choice);
    const AnyTensor pivot_rows = line_.summed<T>(w, later, [&](T* block) {
      for_own_pivots(begin, w,
                     [&](Index i, Index local) { std::copy_n(row(local) + end, later, block + i * later); });
    });
    const Index rest = left(line_.rank());
    line_.compute(rest * w * w + w * w * later + 2 * rest * w * later);
    if (dry()) return -1;
    T *const u = data(pivot_rows), *const own = row(own_ - rest);
    std::vector<T> l(choice.lu.begin(), choice.lu.begin() + w * w);
    for (Index i = 0; i < w; ++i) l[static_cast<std::size_t>(i * (w + 1))] = 1;
    kernel::solve_triangular<kernel::Side::left>(w, later, {}, l.data(), w, u, later);
    for_own_pivots(begin, w, [&](Index i, Index local) {
      std::copy_n(choice.lu.data() + i * w, w, row(local) + begin);
      std::copy_n(u + i * later, later, row(local) + end);
    });
    kernel::solve_triangular<kernel::Side::right>(w, rest, {.upper = true}, choice.lu.data(), w, own + begin,
                                                  width_);
    kernel::subtract_product(no, no, rest, later, w, own + begin, width_, u, later, own + end, width_);
    return -1;
  }
  /// Moves the pivots before the rows that are left on their ranks.
  constexpr void move_pivots(const Choice& choice) {
    const Index own = left(line_.rank());
    std::vector<Index> at(static_cast<std::size_t>(own),
                          Index{0});  // this rank's row at each place that was left
    std::iota(at.begin(), at.end(), Index{0});
    for (std::size_t i = 0; i < choice.owners.size(); ++i) {
      const int owner = choice.owners[i];
      const Index done = line_.block(n_, owner).size - left(owner);
      pivots_.push_back({owner, done});
      --left(owner);
      if (owner != line_.rank() || dry()) continue;
      const auto first = at.begin() + (own - left(owner) - 1),
                 place = std::find(first, at.end(), choice.rows[i]);
      T* const one = row(own_ - own + (place - at.begin()));
      if (one != row(done)) std::swap_ranges(one, one + width_, row(done));
      std::swap(*place, *first);
    }
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
  AnyTensor solution_;
  std::vector<T> x_;  ///< in the order of elimination
};

}  // namespace shardwise::detail
