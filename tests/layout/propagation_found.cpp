// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// What the simulation finds without asking the rules: the tables of the documentation, row by row, and the
/// results that would be wrong.

#include <doctest/doctest.h>

#include "../static/legality.hpp"
#include "../static/stand_ins.hpp"

namespace shardwise::testing {
namespace {

// Not constants: else the compiler would simulate.
Setting two{2, {3, 2, 4, 2}, 1};
Setting three{3, {4, 2, 3, 2}, 2};

/// What the simulation alone finds.
template <class Operation>
PlacementSet found(const OperandPlacements& at) {
  static const Truth<Operation> on_two(two), on_three(three);
  return legal_results(on_two, at) & legal_results(on_three, at);
}
constexpr Placement s0 = shard(0), s1 = shard(1);

TEST_CASE("found by the simulation: the result is Replicate or Reduced as the operands are") {
  // The result is `Replicate` or `Reduced` as the operands are; the other would be wrong, though it is the same
  // data.
  CHECK(found<Square>({replicate}) == only(replicate));
  CHECK(found<Square>({reduced}) == only(reduced));
  CHECK(found<Matmul>({replicate, replicate}) == only(replicate));
  CHECK(found<Matmul>({reduced, reduced}) == only(reduced));
  CHECK(found<Matmul>({reduced, replicate}) == 0);
  CHECK(found<Matmul>({replicate, reduced}) == 0);
}

TEST_CASE("found by the simulation: the table of y = x wᵀ") {
  // The table of y = x wᵀ.
  CHECK(found<Matmul>({reduced, s0}) == only(s1));
  CHECK(found<Matmul>({s1, s1}) == only(partial_sum));
  CHECK(found<Matmul>({s0, reduced}) == only(s0));
  CHECK(found<Matmul>({partial_sum, reduced}) == only(partial_sum));
  CHECK(found<Matmul>({reduced, partial_sum}) == only(partial_sum));
  CHECK(found<Matmul>({s0, replicate}) == 0);
  CHECK(found<Matmul>({replicate, s0}) == 0);
  CHECK(found<Matmul>({s0, s0}) == 0);
  CHECK(found<Matmul>({partial_sum, partial_sum}) == 0);
}

TEST_CASE("found by the simulation: a bias is added once to a pending sum") {
  // A bias is added once to a pending sum, not once by every rank.
  CHECK(found<BiasAdd>({partial_sum, reduced}) == 0);
  CHECK(found<BiasAdd>({partial_sum, replicate}) == 0);
  CHECK(found<BiasAdd>({partial_sum, partial_sum}) == only(partial_sum));
  CHECK(found<BiasAdd>({s0, reduced}) == only(s0));
  CHECK(found<BiasAdd>({s1, s0}) == only(s1));
}

TEST_CASE("found by the simulation: indices have no gradient") {
  // Indices have no gradient, so a copy is a copy; but a pending sum of indices points nowhere.
  CHECK(found<Embedding>({replicate, s0}) == only(partial_sum));
  CHECK(found<Embedding>({reduced, s0}) == only(partial_sum));
  CHECK(found<Embedding>({replicate, partial_sum}) == only(partial_sum));
  CHECK(found<Embedding>({partial_sum, reduced}) == 0);
  CHECK(found<Embedding>({partial_sum, replicate}) == 0);
}

}  // namespace
}  // namespace shardwise::testing
