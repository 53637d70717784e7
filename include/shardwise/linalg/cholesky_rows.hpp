// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The Cholesky factorization of a matrix whose rows are cut over all axes.
///
/// Each rank keeps rows of a matrix L with P A Pᵀ = L Lᵀ, where P is the order of elimination. A round eliminates
/// a few rows of each rank (see linalg/elimination.hpp). It gathers the finished columns of these rows, and each
/// rank updates its own rows in the columns of the round. Then it gathers the square block on the diagonal, which every
/// rank factorizes and keeps. Most columns were finished a round ago, and travel while the round before is computed.

#include <optional>

#include <shardwise/kernel/factor.hpp>
#include <shardwise/linalg/symmetry.hpp>

namespace shardwise::detail {

/// A matrix [n, n] of T, which is factorized when constructed. Errors are in the name of a function.
template <class T>
class CholeskyRows : public Counted {
 public:
  constexpr explicit CholeskyRows(AnyTensor a, const char* name = "CholeskyFactor", bool check = true)
      : name_(name),
        line_{a.mesh, a.type},
        n_(a.shape[0]),
        order_(n_, line_, rows_at_once(n_, line_.ranks())) {
    if (a.shape[1] != n_) fail({name_, ": a matrix ", a.extents(), " is not square"});
    AnyTensor rows = redistributed_to(std::move(a), line_.rows(), line_.type);
    l_ = line_.tensor({n_, n_}, line_.rows());
    own_ = l_.box().size[0];
    check ? read_and_check(rows) : read(rows);
    rows = AnyTensor();
    factorize();
  }

  /// x with A x = b: [n, r], sharded by rows; b is changed in place.
  constexpr void solve(AnyTensor& b) const {
    using enum kernel::Transpose;
    const Index columns = b.shape[1];
    const std::vector<Round> rounds = order_.rounds();
    T* const x = b.mesh.dry() ? nullptr : data(b);
    for (std::size_t i = 0; i < rounds.size(); ++i) {  // L y = b
      const Round round = rounds[i];
      const Index done = round.front().position, w = size(round);
      AnyTensor y =
          gathered(round, columns, [&](Index row, T* to) { std::copy_n(x + row * columns, columns, to); });
      line_.compute(w * w * columns + 2 * below(round) * w * columns,
                    (below(round) + w) * w * static_cast<Index>(sizeof(T)));
      if (b.mesh.dry()) continue;
      kernel::solve_triangular<kernel::Side::left>(w, columns, {.upper = turned(i)}, data(diagonal_[i]), w,
                                                   data(y), columns);
      for_own_rows(round, [&](Index row, Index in_round) {
        std::copy_n(data(y) + in_round * columns, columns, x + row * columns);
      });
      const Index first = own_ - below(round);
      kernel::subtract_product(no, no, below(round), columns, w, row(first) + done, n_, data(y), columns,
                               x + first * columns, columns);
    }
    for (std::size_t i = rounds.size(); i-- > 0;) {  // Lᵀ x = y
      const Round round = rounds[i];
      const Index done = round.front().position, w = size(round), first = own_ - below(round);
      const AnyTensor rest = line_.summed<T>(w, columns, [&](T* block) {
        kernel::subtract_product(yes, no, w, columns, below(round), row(first) + done, n_,
                                 x + first * columns, columns, block, columns);
        for_own_rows(round, [&](Index row, Index in_round) {
          for (Index k = 0; k < columns; ++k) block[in_round * columns + k] += x[row * columns + k];
        });
      });
      line_.compute(w * w * columns + 2 * below(round) * w * columns,
                    (below(round) + w) * w * static_cast<Index>(sizeof(T)));
      if (b.mesh.dry()) continue;
      kernel::solve_triangular<kernel::Side::left>(w, columns, {turned(i), true}, data(diagonal_[i]), w,
                                                   data(rest), columns);
      for_own_rows(round, [&](Index row, Index in_round) {
        std::copy_n(data(rest) + in_round * columns, columns, x + row * columns);
      });
    }
  }
  /// The logarithm of the determinant, from the diagonal, which every rank has.
  double log_determinant() const {
    double sum = 0;
    const std::vector<Round> rounds = order_.rounds();
    for (std::size_t i = 0; i < rounds.size() && !l_.mesh.dry(); ++i) {
      const Index w = size(rounds[i]);
      for (Index j = 0; j < w; ++j) sum += 2 * std::log(static_cast<double>(data(diagonal_[i])[j * (w + 1)]));
    }
    return sum;
  }
  /// w [n, n] with A = w wᵀ, sharded by rows: L with its rows in their places, and zeros where L has none.
  constexpr AnyTensor factor() const {
    AnyTensor w = line_.tensor({n_, n_}, line_.rows());
    if (w.mesh.dry()) return w;
    const std::vector<Round> rounds = order_.rounds();
    for (std::size_t i = 0; i < rounds.size(); ++i) {
      const Round round = rounds[i];
      const Index done = round.front().position, width = size(round);
      for_own_rows(round, [&](Index local, Index place) {
        T* const to = data(w) + local * n_;
        std::fill(std::copy_n(row(local), done, to), to + n_, T{0});
        const Index begin = turned(i) ? place : 0, end = turned(i) ? width : place + 1;
        std::copy_n(data(diagonal_[i]) + place * width + begin, end - begin, to + done + begin);
      });
    }
    return w;
  }
  /// x with A x = b, [n] or [n, r], in the layout `to`.
  constexpr AnyTensor solution(const AnyTensor& b, const Layout& to) const {
    AnyTensor x = redistributed_to(AnyTensor(b), line_.rows(), line_.type);
    make_own(x, MemoryUse::activation);
    solve(x);
    return redistributed_to(std::move(x), to, line_.type);
  }
  /// A⁻¹ [n, n], sharded by rows.
  constexpr AnyTensor inverse() const {
    AnyTensor x = line_.tensor({n_, n_}, line_.rows());
    if (!x.mesh.dry()) {
      std::fill_n(data(x), own_ * n_, T{0});
      for (Index i = 0; i < own_; ++i) data(x)[i * n_ + x.box().begin[0] + i] = 1;
    }
    solve(x);
    return x;
  }
  constexpr Index rows() const { return n_; }

 private:
  using Round = std::span<const Tile>;
  static T* data(const AnyTensor& x) { return static_cast<T*>(x.buffer->data); }
  T* row(Index i) const { return data(l_) + i * n_; }
  /// The rows of each rank in a round: enough for fast products, and several rounds. The blocks on the diagonal, which
  /// every rank keeps, then have at most as many elements as a rank's share of L.
  static constexpr Index rows_at_once(Index n, int ranks) {
    return std::clamp<Index>(n / ranks / std::max(8, ranks), 1, std::max(1, 512 / ranks));
  }

  /// Whether the rows of a round are eliminated from the last to the first. Every other round is turned: the first rank
  /// has least to do in one, and most in the next.
  static constexpr bool turned(std::size_t round) { return round % 2 == 1; }

  /// Copies what L starts from: each row, up to the columns that are eliminated with it. `visit(i, row)` gets the rows
  /// of A.
  template <class Visit>
  void copy_rows(const AnyTensor& a, Visit visit) const {
    for (const Round round : order_.rounds()) {
      const Round until(order_.tiles().data(), &round.back() + 1);
      for_own_rows(round, [&](Index i, Index) {
        const T* const from = data(a) + i * n_;
        visit(i, from);
        permute(until, from, row(i));
      });
    }
  }
  constexpr void read(const AnyTensor& a) {
    if (!a.mesh.dry()) copy_rows(a, [](Index, const T*) {});
  }
  /// The same, which throws if A is not symmetric. Which elements of A are read depends on the ranks, so others must
  /// not differ.
  constexpr void read_and_check(const AnyTensor& a) {
    check_symmetric<T>(name_, line_, a, [&](auto visit) { copy_rows(a, visit); });
  }

  static constexpr Index size(Round round) {
    return round.back().position + round.back().size - round.front().position;
  }
  /// The number of this rank's rows that are eliminated after a round. They are its last ones.
  constexpr Index below(Round round) const {
    Index rows = std::max<Index>(0, own_ - round.front().local);
    for (const Tile& tile : round) rows -= tile.owner == line_.rank() ? tile.size : 0;
    return rows;
  }
  /// Calls f(row, place) for this rank's rows in a round, with the number in its block and in the round.
  template <class F>
  void for_own_rows(Round round, F f) const {
    for (const Tile& tile : round) {
      for (Index i = 0; tile.owner == line_.rank() && i < tile.size; ++i)
        f(tile.local + i, tile.position - round.front().position + i);
    }
  }
  /// This rank's rows in a round.
  constexpr std::optional<Tile> own_tile(Round round) const {
    for (const Tile& tile : round) {
      if (tile.owner == line_.rank()) return tile;
    }
    return std::nullopt;
  }
  /// The rows of a round, [size, width] on every rank. `write(row, to)` writes one of this rank's.
  template <class Write>
  constexpr AnyTensor gathered(Round round, Index width, Write write) const {
    return in_order(round, width, begin_to_gather(round, width, write)->finish());
  }
  template <class Write>
  constexpr Shared<AnyInFlight> begin_to_gather(Round round, Index width, Write write) const {
    const Index height = round.front().size;  // the first rank has most
    return line_.begin_to_gather<T>(height, width, [&](T* block) {
      const Index own = std::clamp<Index>(own_ - round.front().local, 0, height);
      std::fill_n(block + own * width, (height - own) * width, T{0});
      for_own_rows(round, [&](Index row, Index) { write(row, block + (row - round.front().local) * width); });
    });
  }
  constexpr AnyTensor in_order(Round round, Index width, AnyTensor all) const {
    if (all.mesh.dry()) return all;
    for (const Tile& tile : round) {
      T* const to = data(all) + (tile.position - round.front().position) * width;
      const T* const from = data(all) + tile.owner * round.front().size * width;
      if (to != from) std::copy_n(from, tile.size * width, to);
    }
    return all;
  }

  /// The rows of a round of L in some of its columns.
  struct Columns {
    Index begin, width;
    AnyTensor rows;
  };
  /// Subtracts from columns [from, to) of a round, in `count` of this rank's rows, what columns contribute that are
  /// done.
  constexpr void subtract(Index first, Index count, Round round, Index from, Index to,
                          const Columns& done) const {
    using enum kernel::Transpose;
    if (done.width == 0 || done.rows.mesh.dry()) return;
    kernel::subtract_product(no, yes, count, to - from, done.width, row(first) + done.begin, n_,
                             data(done.rows) + from * done.width, done.width,
                             row(first) + round.front().position + from, n_);
  }
  /// The same for this rank's rows of the round, in the columns of rows that are eliminated before them.
  constexpr void subtract_above(std::size_t index, const Columns& done) const {
    const Round round = order_.rounds()[index];
    const std::optional<Tile> own = own_tile(round);
    if (!own) return;
    const Index begin = own->position - round.front().position, end = begin + own->size;
    subtract(own->local, own->size, round, turned(index) ? end : 0, turned(index) ? size(round) : begin,
             done);
  }

  constexpr void factorize() {
    const std::vector<Round> rounds = order_.rounds();
    Columns sent{};  // the round's rows in the columns that were done a round ago
    for (std::size_t i = 0; i < rounds.size(); ++i) {
      const Round round = rounds[i];
      const Index done = round.front().position, w = size(round), under = below(round), first = own_ - under;
      Columns last{sent.width, done - sent.width, {}}, next{};
      if (done > 0) last.rows = gathered(round, last.width, columns(last.begin, last.width));
      const bool sends = i + 1 < rounds.size() && done > 0;
      Shared<AnyInFlight> coming;
      if (sends) coming = begin_to_gather(rounds[i + 1], done, columns(0, done));

      if (!turned(i)) subtract_above(i, sent);
      subtract_above(i, last);
      const std::optional<Tile> own = own_tile(round);
      if (own && !l_.mesh.dry()) {
        kernel::subtract_gram(turned(i), own->size, done, row(own->local), n_,
                              row(own->local) + own->position, n_);
      }
      subtract(first, under, round, 0, w, sent);
      subtract(first, under, round, 0, w, last);
      if (sends) next = {0, done, in_order(rounds[i + 1], done, coming->finish())};
      if (sends && turned(i + 1))
        subtract_above(i + 1, next);  // the ranks with least to do in this round have most
      line_.compute(2 * under * w * done + (own ? own->size * w * done : 0) + w * w * w / 3 + under * w * w);

      diagonal_.push_back(gathered(round, w, columns(done, w)));
      if (!l_.mesh.dry()) {
        factorize_diagonal(i, round);
        kernel::solve_triangular<kernel::Side::right>(w, under, {turned(i), true}, data(diagonal_[i]), w,
                                                      row(first) + done, n_);
      }
      sent = std::move(next);
    }
  }
  /// Copies some columns of a row of L.
  constexpr auto columns(Index begin, Index width) const {
    return [this, begin, width](Index i, T* to) { std::copy_n(row(i) + begin, width, to); };
  }
  void factorize_diagonal(std::size_t index, Round round) const {
    const Index w = size(round);
    T* const square = data(diagonal_[index]);
    if (turned(index)) std::reverse(square, square + w * w);
    Index pivot = kernel::cholesky_in_place(w, square, w);
    if (turned(index)) std::reverse(square, square + w * w);
    if (pivot < 0) return;
    if (turned(index)) pivot = w - 1 - pivot;
    const Index place = round.front().position + pivot;
    const auto tile = std::find_if(round.begin(), round.end(),
                                   [&](const Tile& each) { return place < each.position + each.size; });
    fail<std::runtime_error>({name_,
                              ": the matrix is not positive definite, or not finite: the pivot of row ",
                              tile->row + place - tile->position, " is not a positive number"});
  }

  const char* name_;
  RankLine line_;
  Index n_;
  EliminationOrder order_;
  AnyTensor l_;  ///< sharded by rows; columns in the order of elimination
  Index own_ = 0;
  std::vector<AnyTensor> diagonal_;  ///< of each round, the square block of L on the diagonal
};

}  // namespace shardwise::detail
