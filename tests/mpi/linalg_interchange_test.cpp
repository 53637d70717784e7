// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// Matrices from and to uneven rows and ScaLAPACK's blocks: bit for bit, on every grid of processes; and descriptors
/// that do not fit.

#include <shardwise/linalg/interchange.hpp>
#include <support/matrices.hpp>

#include "ops_check.hpp"

namespace shardwise::testing::linalg_interchange {
namespace {

/// This process's part of a matrix in blocks, element by element from the definition.
struct Dealt {
  int p, q, row, column;
  std::array<int, 9> descriptor;
  std::vector<double> values;

  Dealt(const Matrix<double>& a, int mb, int nb, int rows, int columns, int first_row, int first_column)
      : p(rows), q(columns) {
    const int rank = grid().communicator().rank(), m = static_cast<int>(a.rows()),
              n = static_cast<int>(a.cols());
    row = rank < p * q ? rank / q : -1;
    column = rank < p * q ? rank % q : -1;
    std::vector<std::array<Index, 3>> places;
    Index height = 0;
    for (int i = 0; i < m; ++i) {
      if (row != (i / mb + first_row) % p) continue;
      const Index local = i / mb / p * mb + i % mb;
      height = local + 1;
      for (int j = 0; j < n; ++j) {
        if (column == (j / nb + first_column) % q)
          places.push_back({local, j / nb / q * nb + j % nb, i * n + j});
      }
    }
    const Index leading = std::max<Index>(1, height) + 2;
    descriptor = {1, 0, m, n, mb, nb, first_row, first_column, static_cast<int>(leading)};
    for (const auto& [i, j, from] : places) {
      values.resize(std::max(values.size(), static_cast<std::size_t>((j + 1) * leading)), -7.);
      values[static_cast<std::size_t>(i + j * leading)] = a.data()[from];
    }
  }
  BlockCyclic blocks() const { return {descriptor.data(), p, q, row, column}; }
};

template <class... Placements>
void check(const auto& mesh, const Matrix<double>& a, const Dealt& dealt) {
  const auto x = from_block_cyclic<Placements...>(mesh, dealt.blocks(), dealt.values.data());
  CHECK(full_tensor(x) == a);
  std::vector<double> back(dealt.values.size(), -7.);
  to_block_cyclic(x, dealt.blocks(), back.data());
  CHECK(back == dealt.values);
}

TEST_CASE("blocks of any size, on every grid of processes, there and back") {
  const int ranks = grid().communicator().size();
  for (int p = 1; p <= ranks; ++p) {
    for (int q = 1; p * q <= ranks; ++q) {
      for (const auto& [m, n, mb, nb] : {std::array<int, 4>{0, 0, 2, 2},
                                         {1, 1, 1, 1},
                                         {37, 41, 5, 7},
                                         {37, 41, 1, 13},
                                         {3, 101, 64, 2},
                                         {64, 64, 16, 16}}) {
        CAPTURE(p);
        CAPTURE(q);
        const Matrix<double> a = random_matrix<double>(m, n, 1);
        check<Shard<0>>(line(), a, Dealt(a, mb, nb, p, q, 0, 0));
        check<Shard<0>, Shard<1>>(grid(), a, Dealt(a, mb, nb, p, q, p - 1, q / 2));
        check<Replicate, Shard<1>>(grid(), a, Dealt(a, mb, nb, p, q, p / 2, 0));
        check<Partial<Sum>, Shard<0>>(grid(), a, Dealt(a, mb, nb, p, q, 0, 0));
        check<Reduced, Replicate>(grid(), a, Dealt(a, mb, nb, p, q, 0, q - 1));
      }
    }
  }
}

TEST_CASE("a pending sum is finished before it is written to blocks") {
  const Matrix<double> a = random_matrix<double>(9, 8, 1);
  const Dealt dealt(a, 2, 3, 1, 1, 0, 0);
  std::vector<double> values(dealt.values.size(), -7.);
  to_block_cyclic(distribute<Partial<Sum>, Shard<0>>(grid(), a), dealt.blocks(), values.data());
  CHECK(values == dealt.values);
}

TEST_CASE("rows of any number on each rank, there and back") {
  const Index rank = line().communicator().rank(), ranks = line().communicator().size();
  for (const int kind : {0, 1, 2}) {  // 2, 3, 4, …; none on the first; none at all
    const auto count = [&](Index r) { return kind == 0 ? r + 2 : kind == 1 && r > 0 ? 3 : 0; };
    Index before = 0, all = 0;
    for (Index r = 0; r < ranks; ++r) before += r < rank ? count(r) : 0, all += count(r);
    const Matrix<double> whole = random_matrix<double>(all, 4, 1),
                         own = whole.middleRows(before, count(rank));
    const auto x = from_rows<Shard<0>>(line(), own);
    CHECK(full_tensor(x) == whole);
    CHECK(to_rows(x, count(rank)) == own);
    const auto y = from_rows<Shard<1>, Shard<0>>(grid(), own);
    CHECK(full_tensor(y) == whole);
    CHECK(to_rows(y, count(rank)) == own);
    CHECK(to_rows(distribute<Partial<Sum>, Shard<0>>(grid(), whole), count(rank)) == own);
  }
}

TEST_CASE("rows and descriptors that do not fit: one error on all ranks") {
  const Index rank = line().communicator().rank(), ranks = line().communicator().size(), last = ranks - 1;
  const Matrix<double> a = random_matrix<double>(6, 5, 1);
  const auto x = distribute<Shard<0>>(line(), a);
  const auto written = [&](auto change) {
    Dealt dealt(a, 2, 2, 1, static_cast<int>(ranks), 0, 0);
    change(dealt);
    return message_of<std::invalid_argument>(
        [&] { to_block_cyclic(x, dealt.blocks(), dealt.values.data()); });
  };
  const auto number = [](int which, int value) {
    return [=](Dealt& d) { d.descriptor[static_cast<std::size_t>(which)] = value; };
  };
  CHECK(written(number(0, 502)) ==
        "to_block_cyclic: rank 0: its first number is 502, expected 1, of a dense matrix");
  CHECK(written(number(2, 7)) == "to_block_cyclic: rank 0: m is 7, expected that of the tensor, [6 x 5]");
  CHECK(written(number(4, 0)) == "to_block_cyclic: rank 0: mb is 0, expected 1 or more");
  CHECK(written(number(7, static_cast<int>(ranks))) ==
        "to_block_cyclic: rank 0: the first column of the grid is " + std::to_string(ranks) +
            ", expected a column of the grid");
  CHECK(written([&](Dealt& d) {
          if (rank == last) d.descriptor[8] = 5;
        }) ==
        "to_block_cyclic: rank " + std::to_string(last) + ": the leading dimension is 5, expected 6 or more");
  CHECK(written([&](Dealt& d) { d.column = 0; }) ==
        (ranks == 1
             ? ""
             : "to_block_cyclic: the " + std::to_string(ranks) +
                   " ranks do not have each place of a grid of 1 x " + std::to_string(ranks) + " once"));
  if (ranks == 1) return;
  CHECK(written([&](Dealt& d) {
          if (rank == last) d.descriptor[5] = 3;
        }) == "to_block_cyclic: rank " + std::to_string(last) + ": nb is 3, expected 2 as on rank 0");
  CHECK(message_of<std::invalid_argument>([&] {
          from_rows<Shard<0>>(line(), random_matrix<double>(2, 3 + rank, 1));
        }) == "from_rows: rank 1 brings rows of 4 columns, rank 0 of 3");
  CHECK(message_of<std::invalid_argument>([&] { to_rows(x, 1); }) ==
        (ranks == 6 ? ""
                    : "to_rows: the ranks ask for " + std::to_string(ranks) + " rows of a matrix [6 x 5]"));
}

}  // namespace
}  // namespace shardwise::testing::linalg_interchange
