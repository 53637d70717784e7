// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// LU with pivoting of a distributed matrix, for `solve` and `LuFactor`.
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

/// Throws `std::invalid_argument` unless a matrix is square, with as many rows as the right sides have.
constexpr void check_extents(const char* name, const AnyTensor& a, const AnyTensor& b) {
  if (a.shape[1] != a.shape[0]) fail({name, ": a matrix ", a.extents(), " is not square"});
  if (b.shape[0] != a.shape[0]) {
    fail({name, ": the right side ", b.extents(), " does not have the ", a.shape[0], " rows of the matrix"});
  }
}

/// The equations A x = b. P A Q = L U is computed when constructed, and L⁻¹ P b, unless `failed()`. Rows are [A | b].
/// Errors are in the name of a function.
template <class T>
class Equations {
 public:
  /// If A has other elements than `T`, they are multiplied by `factor` and converted.
  constexpr Equations(AnyTensor a, AnyTensor b, const char* name = "solve", double factor = 1)
      : line_{a.mesh, data_type_of<T>()},
        n_(a.shape[0]),
        columns_(b.shape[1]),
        width_(n_ + columns_),
        order_(n_, line_, std::clamp<Index>(n_ / line_.ranks() / 8, 8, 512 / Index{sizeof(T)})),
        left_(static_cast<std::size_t>(line_.ranks()), Index{0}) {
    check_extents(name, a, b);
    const DataType type = a.type;
    AnyTensor rows = redistributed_to(std::move(a), line_.rows(), type);
    AnyTensor sides = redistributed_to(std::move(b), line_.rows(), line_.type);
    equations_ = line_.tensor({n_, width_}, line_.rows());
    for (int rank = 0; rank < line_.ranks(); ++rank) {
      left_[static_cast<std::size_t>(rank)] = line_.block(n_, rank).size;
    }
    own_ = left(line_.rank());
    if (!dry()) {
      for (Index i = 0; i < own_; ++i) {
        if (type == line_.type) {
          permute<T>(order_.tiles(), data(rows) + i * n_, row(i));
        } else {
          const double* const from = static_cast<const double*>(rows.buffer->data) + i * n_;
          for (const Tile& tile : order_.tiles()) {
            std::transform(from + tile.row, from + tile.row + tile.size, row(i) + tile.position,
                           [&](double x) { return static_cast<T>(x * factor); });
          }
        }
        std::copy_n(data(sides) + i * columns_, columns_, row(i) + n_);
      }
    }
    rows = sides = AnyTensor();
    places_ = std::vector<Index>(static_cast<std::size_t>(own_), Index{0});
    std::iota(places_.begin(), places_.end(), Index{0});
    pivots_.reserve(static_cast<std::size_t>(n_));
    for (const Tile& tile : order_.tiles()) {
      failed_ = eliminate(tile);
      if (failed_ >= 0) return;
    }
  }
  /// The column without a pivot that is finite and not 0, the same on every rank, or -1.
  constexpr Index failed() const { return failed_; }
  /// Throws, on all ranks, if `failed()`. `a`: the matrix.
  constexpr void check(const char* name, const AnyTensor& a) const {
    if (failed_ < 0) return;
    line_.check_finite<T>(name, a);
    fail<std::runtime_error>(
        {name, ": the matrix is singular, or its numbers overflow: column ", failed_, " has no pivot"});
  }
  /// x: [n, r], on every rank.
  constexpr AnyTensor solution() && { return by_upper({dry() ? nullptr : row(0) + n_, width_, columns_}); }
  /// The same for other right sides: [n, r], sharded by rows.
  constexpr AnyTensor solve(const AnyTensor& b) const {
    const Index columns = b.shape[1];
    const AnyTensor sides = line_.tensor({n_, columns}, line_.rows());
    const Sides y{dry() ? nullptr : data(sides), columns, columns};
    for (Index i = 0; i < own_ && !dry(); ++i) {
      std::copy_n(data(b) + places_[static_cast<std::size_t>(i)] * columns, columns, y.row(i));
    }
    Index done = 0;
    for (std::size_t i = 0; i < order_.tiles().size(); ++i) {  // L y = P b
      const Tile& tile = order_.tiles()[i];
      for_own_pivots(tile, [&](Index, Index) { ++done; });
      const AnyTensor solved = unknowns(i, {.unit = true}, done, own_ - done, y);
      if (dry()) continue;
      for_own_pivots(tile, [&](Index k, Index local) {
        std::copy_n(data(solved) + k * columns, columns, y.row(local));
      });
    }
    return by_upper(y);
  }
  /// ln |det A|.
  double log_abs_determinant() const {
    double sum = 0;
    for_diagonal([&](T pivot) { sum += std::log(std::abs(static_cast<double>(pivot))); });
    return sum;
  }
  /// 1 or -1. Collective.
  constexpr int determinant_sign() const {
    Index swaps = swaps_;
    line_.mesh.all_reduce(&swaps, 1, DataType::i64, ReduceOp::sum);
    for_diagonal([&](T pivot) { swaps += pivot < 0 ? 1 : 0; });
    // Each rank swapped rows of its own. Now the permutation from columns to pivot rows, which has n - swaps cycles.
    std::vector<Index> row_of(static_cast<std::size_t>(n_), Index{0});
    for (const Tile& tile : order_.tiles()) {
      for (Index i = 0; i < tile.size; ++i) {
        const Pivot& pivot = pivots_[static_cast<std::size_t>(tile.position + i)];
        row_of[static_cast<std::size_t>(tile.row + i)] = line_.block(n_, pivot.owner).begin + pivot.local;
      }
    }
    for (std::size_t i = 0; i < row_of.size(); ++i) {
      for (; row_of[i] != static_cast<Index>(i); ++swaps)
        std::swap(row_of[i], row_of[static_cast<std::size_t>(row_of[i])]);
    }
    return swaps % 2 == 0 ? 1 : -1;
  }
  constexpr const RankLine& line() const { return line_; }
  constexpr Index rows() const { return n_; }

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
      for_own_pivots(tile,
                     [&](Index i, Index local) { std::copy_n(row(local) + end, later, block + i * later); });
    });
    diagonal_.push_back(line_.tensor({w, w}, everywhere(line_.mesh.axes(), replicate)));
    const Index rest = left(line_.rank());
    line_.compute(rest * w * w + w * w * later + 2 * rest * w * later);
    if (dry()) return -1;
    T *const u = data(pivot_rows), *const own = row(own_ - rest);
    std::copy_n(choice.lu.data(), w * w, data(diagonal_.back()));
    kernel::solve_triangular<kernel::Side::left>(w, later, {.unit = true}, choice.lu.data(), w, u, later);
    for_own_pivots(tile, [&](Index i, Index local) {
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
      if (one != row(done)) {
        std::swap_ranges(one, one + width_, row(done));
        std::swap(places_[static_cast<std::size_t>(own_ - own + (place - at.begin()))],
                  places_[static_cast<std::size_t>(done)]);
        ++swaps_;
      }
      std::swap(*place, *first);
    }
  }
  /// Calls f(i, local) for the pivots of a tile that this rank owns.
  template <class F>
  constexpr void for_own_pivots(const Tile& tile, F f) const {
    for (Index i = 0; i < tile.size; ++i) {
      const Pivot& pivot = pivots_[static_cast<std::size_t>(tile.position + i)];
      if (pivot.owner == line_.rank()) f(i, pivot.local);
    }
  }
  /// Calls f with the pivots. Of a dry run there are none.
  template <class F>
  constexpr void for_diagonal(F f) const {
    for (const AnyTensor& each : diagonal_) {
      const Index w = each.shape[0];
      for (Index i = 0; i < w && !dry(); ++i) f(data(each)[i * (w + 1)]);
    }
  }

  /// Right sides of this rank's rows, in the order of the rows.
  struct Sides {
    T* first;
    Index stride, columns;
    constexpr T* row(Index i) const { return first + i * stride; }
  };
  /// The unknowns [w, r] of a tile, on every rank, whose products are subtracted from `rows` right sides of this rank,
  /// from number `first` on.
  constexpr AnyTensor unknowns(std::size_t number, kernel::Triangular how, Index first, Index rows,
                               const Sides& b) const {
    using enum kernel::Transpose;
    const Tile& tile = order_.tiles()[number];
    const Index w = tile.size, columns = b.columns;
    AnyTensor x = line_.summed<T>(w, columns, [&](T* block) {
      for_own_pivots(tile,
                     [&](Index i, Index local) { std::copy_n(b.row(local), columns, block + i * columns); });
    });
    line_.compute(w * w * columns + 2 * rows * w * columns, (rows + w) * w * static_cast<Index>(sizeof(T)));
    if (dry()) return x;
    kernel::solve_triangular<kernel::Side::left>(w, columns, how, data(diagonal_[number]), w, data(x),
                                                 columns);
    kernel::subtract_product(no, no, rows, columns, w, row(first) + tile.position, width_, data(x), columns,
                             b.row(first), b.stride);
    return x;
  }
  /// x with U Qᵀ x = y: [n, r], on every rank. y is overwritten.
  constexpr AnyTensor by_upper(const Sides& y) const {
    AnyTensor x = line_.tensor({n_, y.columns}, everywhere(line_.mesh.axes(), replicate));
    Index done = own_;
    for (std::size_t i = order_.tiles().size(); i-- > 0;) {
      const Tile& tile = order_.tiles()[i];
      for_own_pivots(tile, [&](Index, Index) { --done; });
      const AnyTensor solved = unknowns(i, {.upper = true}, 0, done, y);
      if (!dry()) std::copy_n(data(solved), tile.size * y.columns, data(x) + tile.row * y.columns);
    }
    return x;
  }

  RankLine line_;
  Index n_, columns_, width_;
  EliminationOrder order_;
  std::vector<Index> left_;
  AnyTensor equations_;  ///< the rows of L and U, in the order of this rank's pivots
  Index own_ = 0, failed_ = -1;
  std::vector<Pivot> pivots_;
  std::vector<Index> places_;        ///< of the rows: their numbers in this rank's block of A
  Index swaps_ = 0;                  ///< of this rank's rows
  std::vector<AnyTensor> diagonal_;  ///< of each tile: its square block of L and U
};

}  // namespace shardwise::detail
