// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// `CholeskyFactor`: the factorization of a symmetric positive definite matrix on all ranks of a mesh, to solve with
/// it.
///
/// ```
/// const CholeskyFactor factor(a);     // a: [n, n], any layout
/// const auto x = factor.solve(b);     // b: [n] or [n, r], any layout; x has the layout of b
/// ```
/// Each rank keeps rows of a matrix L with P A Pᵀ = L Lᵀ, where P is the order of elimination. A step gathers the
/// columns of one tile of rows (see linalg/elimination.hpp).

#include <shardwise/kernel/factor.hpp>
#include <shardwise/kernel/random.hpp>
#include <shardwise/layout/diagnosis.hpp>
#include <shardwise/linalg/elimination.hpp>
#include <shardwise/tensor/redistribute.hpp>

namespace shardwise {

namespace detail {

/// A matrix [n, n] of T, which is factorized when constructed.
template <class T>
class CholeskyRows {
 public:
  constexpr explicit CholeskyRows(AnyTensor a) : line_{a.mesh, a.type}, n_(a.shape[0]), order_(n_, line_) {
    if (a.shape[1] != n_) fail({"CholeskyFactor: a matrix ", a.extents(), " is not square"});
    AnyTensor rows = redistributed_to(std::move(a), line_.rows(), line_.type);
    l_ = line_.tensor({n_, n_}, line_.rows());
    own_ = l_.box().size[0];
    check_symmetric(rows);
    if (!l_.mesh.dry()) {
      for (Index i = 0; i < own_; ++i) order_.permute(data(rows) + i * n_, data(l_) + i * n_);
    }
    rows = AnyTensor();
    for (const Tile& tile : order_.tiles()) eliminate(tile);
  }

  /// x with A x = b: [n, r], sharded by rows; b is changed in place.
  constexpr void solve(AnyTensor& b) const {
    const Index columns = b.shape[1];
    const auto& tiles = order_.tiles();
    T* const x = b.mesh.dry() ? nullptr : data(b);
    std::vector<T> diagonal;
    const auto diagonal_of = [&](const Tile& tile) {
      diagonal.resize(static_cast<std::size_t>(tile.size * tile.size));
      for (Index i = 0; i < tile.size; ++i)
        std::copy_n(row(tile.local + i) + tile.position, tile.size, diagonal.data() + i * tile.size);
      return diagonal.data();
    };
    const auto owned = [&](const Tile& tile) { return tile.owner == line_.rank(); };
    for (const Tile& tile : tiles) {  // L y = b
      const AnyTensor y = line_.summed<T>(tile.size, columns, [&](T* block) {
        if (!owned(tile)) return;
        T* const part = x + tile.local * columns;
        kernel::solve_triangular<kernel::Side::left>(tile.size, columns, {}, diagonal_of(tile), part);
        std::copy_n(part, tile.size * columns, block);
      });
      const Index first = std::min(own_, order_.rows_done(tile, line_.rank()));
      line_.compute(2 * (own_ - first) * tile.size * columns);
      if (b.mesh.dry() || first == own_) continue;
      std::vector<T> minus(data(y), data(y) + tile.size * columns);
      for (T& value : minus) value = -value;
      kernel::gemm(kernel::Transpose::no, kernel::Transpose::no, own_ - first, columns, tile.size,
                   row(first) + tile.position, n_, minus.data(), columns, x + first * columns, columns, true);
    }
    for (auto tile = tiles.rbegin(); tile != tiles.rend(); ++tile) {  // Lᵀ x = y
      const Index first = std::min(own_, order_.rows_done(*tile, line_.rank()));
      line_.compute(2 * (own_ - first) * tile->size * columns);
      const AnyTensor later = line_.summed<T>(tile->size, columns, [&](T* block) {
        if (first == own_) return;
        kernel::gemm(kernel::Transpose::yes, kernel::Transpose::no, tile->size, columns, own_ - first,
                     row(first) + tile->position, n_, x + first * columns, columns, block, columns, false);
      });
      if (b.mesh.dry() || !owned(*tile)) continue;
      T* const part = x + tile->local * columns;
      for (Index i = 0; i < tile->size * columns; ++i) part[i] -= data(later)[i];
      kernel::solve_triangular<kernel::Side::left>(tile->size, columns, {.transposed = true},
                                                   diagonal_of(*tile), part);
    }
  }
  constexpr const RankLine& line() const { return line_; }
  constexpr Index rows() const { return n_; }

 private:
  static T* data(const AnyTensor& x) { return static_cast<T*>(x.buffer->data); }

  /// Throws, on all ranks, unless (A - Aᵀ) v is as good as 0 for a random v. Which elements of A are read depends on
  /// the ranks, so others must not differ.
  constexpr void check_symmetric(const AnyTensor& a) const {
    const AnyTensor sums = line_.summed<T>(2, n_, [&](T* off) {
      std::vector<T> v(static_cast<std::size_t>(n_));
      kernel::fill_normal(n_, 1, 0, 0., 1., v.data());
      T* const size = off + n_;
      const Index begin = a.box().begin[0];
      for (Index i = 0; i < own_; ++i) {
        const T* const of_row = data(a) + i * n_;
        const T own = v[static_cast<std::size_t>(begin + i)];
        for (Index j = 0; j < n_; ++j) {
          const T term = of_row[j] * v[static_cast<std::size_t>(j)];
          off[begin + i] += term;
          off[j] -= of_row[j] * own;
          size[begin + i] += std::abs(term);
        }
      }
    });
    line_.compute(4 * own_ * n_);
    if (a.mesh.dry()) return;
    const T least = std::sqrt(std::numeric_limits<T>::epsilon());
    for (Index i = 0; i < n_; ++i) {
      const T off = std::abs(data(sums)[i]), size = data(sums)[n_ + i];
      if (!shardwise::detail::is_finite(size)) {
        fail<std::runtime_error>({"CholeskyFactor: row ", i, " of the matrix is not finite"});
      }
      if (off > least * size)
        fail({"CholeskyFactor: the matrix is not symmetric: row ", i, " is not equal to column ", i});
    }
  }
  T* row(Index i) const { return data(l_) + i * n_; }

  constexpr void eliminate(const Tile& tile) {
    const Index w = tile.size, height = order_.most_rows() - tile.local, rest = n_ - tile.position;
    AnyTensor panel = line_.gathered<T>(height, w, [&](T* block) {
      for (Index i = 0; i < height; ++i, block += w) {
        const Index at = tile.local + i;
        at < own_ ? std::copy_n(row(at) + tile.position, w, block) : std::fill_n(block, w, T{0});
      }
    });
    const Index first = std::min(own_, order_.rows_done(tile, line_.rank()));
    line_.compute(w * w * w / 3 + w * w * (rest - w) + (own_ - first) * w * (rest - w));
    if (panel.mesh.dry()) return;
    std::vector<T> columns(static_cast<std::size_t>(rest * w));  // in the order of elimination
    each_tile_from(tile, [&](const Tile& other) {
      std::copy_n(data(panel) + (other.owner * height + other.local - tile.local) * w, other.size * w,
                  columns.data() + (other.position - tile.position) * w);
    });
    std::vector<T> diagonal(static_cast<std::size_t>(w * w));
    const Index pivot = kernel::cholesky(w, columns.data(), diagonal.data());
    if (pivot >= 0) {
      fail<std::runtime_error>(
          {"CholeskyFactor: the matrix is not positive definite, or not finite: the pivot of row ",
           tile.row + pivot, " is not a positive number"});
    }
    std::copy_n(diagonal.data(), w * w, columns.data());
    T* const below = columns.data() + w * w;
    kernel::solve_triangular<kernel::Side::right>(w, rest - w, {.transposed = true}, diagonal.data(), below);
    each_tile_from(tile, [&](const Tile& other) {
      if (other.owner != line_.rank()) return;
      for (Index i = 0; i < other.size; ++i) {
        std::copy_n(columns.data() + (other.position - tile.position + i) * w, w,
                    row(other.local + i) + tile.position);
      }
    });
    for (Index i = 0; i < (rest - w) * w; ++i) below[i] = -below[i];
    update(tile, below);
  }
  /// Subtracts the product of the columns of a tile with `minus`, their negative, from this rank's rows, in strips up
  /// to the diagonal.
  void update(const Tile& tile, const T* minus) const {
    const auto& tiles = order_.tiles();
    const Index begin = tile.position + tile.size;
    const std::size_t step = static_cast<std::size_t>(std::max<Index>(1, 256 / order_.height()));
    for (std::size_t i = number(tile) + 1; i < tiles.size(); i += step) {
      const std::size_t last = std::min(i + step, tiles.size()) - 1;
      const Index column = tiles[i].position, count = tiles[last].position + tiles[last].size - column;
      const Index first = tiles[i].local + (line_.rank() < tiles[i].owner ? order_.height() : 0);
      if (first >= own_) return;
      kernel::gemm(kernel::Transpose::no, kernel::Transpose::yes, own_ - first, count, tile.size,
                   row(first) + tile.position, n_, minus + (column - begin) * tile.size, tile.size,
                   row(first) + column, n_, true);
    }
  }
  std::size_t number(const Tile& tile) const {
    return static_cast<std::size_t>(&tile - order_.tiles().data());
  }
  template <class F>
  void each_tile_from(const Tile& tile, F f) const {
    for (std::size_t i = number(tile); i < order_.tiles().size(); ++i) f(order_.tiles()[i]);
  }

  RankLine line_;
  Index n_;
  EliminationOrder order_;
  AnyTensor l_;  ///< sharded by rows; columns in the order of elimination
  Index own_ = 0;
};

}  // namespace detail

/// `A`: the type of the matrix.
template <TensorType A>
class CholeskyFactor {
  static_assert(A::rank == 2 && A::is_float && !std::is_same_v<typename A::Element, Eigen::bfloat16>,
                "CholeskyFactor: the matrix has two dimensions, of float or double");
  static_assert(!has_partial_extremum(A::layout), "CholeskyFactor: redistribute the pending maximum first");

 public:
  /// Throws, on all ranks, `std::invalid_argument` if the matrix is not square, or not symmetric up to rounding errors;
  /// `std::runtime_error` if it is not positive definite or not finite. Collective over the mesh.
  constexpr explicit CholeskyFactor(const A& a) : mesh_(a.mesh()), rows_(detail::AnyTensor(a)) {}

  /// x with A x = b, in the layout of b: [n] or [n, r]. Throws `std::invalid_argument` for other extents. Collective.
  template <TensorType B>
    requires(std::is_same_v<typename B::Element, typename A::Element>&&
                 std::is_same_v<typename B::MeshOf, typename A::MeshOf> &&
             (B::rank == 1 || B::rank == 2) && !has_partial_extremum(B::layout))
  constexpr B solve(const B& b) const {
    if (!(b.mesh() == mesh_)) {
      throw std::invalid_argument("CholeskyFactor: the right side lives on another mesh than the matrix");
    }
    if (b.shape()[0] != rows_.rows()) {
      detail::fail({"CholeskyFactor: the right side ", b.shape(), " does not have the ", rows_.rows(),
                    " rows of the matrix"});
    }
    const detail::RankLine& line = rows_.line();
    detail::AnyTensor x = detail::redistributed_to(detail::AnyTensor(b), line.rows(), line.type);
    detail::make_own(x, MemoryUse::activation);
    rows_.solve(x);
    return detail::redistributed_to(std::move(x), B::layout, line.type).template as<B>(mesh_);
  }

 private:
  typename A::MeshOf mesh_;
  detail::CholeskyRows<typename A::Element> rows_;
};

}  // namespace shardwise
