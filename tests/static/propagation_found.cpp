// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// What the simulation finds without asking the rules: the tables of the documentation, row by row, and the
/// results that would be wrong.

#include "legality.hpp"
#include "stand_ins.hpp"

namespace shardwise::testing {
namespace {

template <class Operation>
constexpr Truth<Operation> on_two(Setting{2, {3, 2, 4, 2}, 1});
template <class Operation>
constexpr Truth<Operation> on_three(Setting{3, {4, 2, 3, 2}, 2});

/// What the simulation alone finds.
template <class Operation>
constexpr PlacementSet found(const OperandPlacements& at) {
  return legal_results(on_two<Operation>, at) & legal_results(on_three<Operation>, at);
}
constexpr Placement s0 = shard(0), s1 = shard(1);

// The result is `Replicate` or `Reduced` as the operands are; the other would be wrong, though it is the same
// data.
static_assert(found<Square>({replicate}) == only(replicate) && found<Square>({reduced}) == only(reduced));
static_assert(found<Matmul>({replicate, replicate}) == only(replicate));
static_assert(found<Matmul>({reduced, reduced}) == only(reduced));
static_assert(found<Matmul>({reduced, replicate}) == 0 && found<Matmul>({replicate, reduced}) == 0);

// The table of y = x wᵀ.
static_assert(found<Matmul>({reduced, s0}) == only(s1));
static_assert(found<Matmul>({s1, s1}) == only(partial_sum));
static_assert(found<Matmul>({s0, reduced}) == only(s0));
static_assert(found<Matmul>({partial_sum, reduced}) == only(partial_sum));
static_assert(found<Matmul>({reduced, partial_sum}) == only(partial_sum));
static_assert(found<Matmul>({s0, replicate}) == 0 && found<Matmul>({replicate, s0}) == 0);
static_assert(found<Matmul>({s0, s0}) == 0 && found<Matmul>({partial_sum, partial_sum}) == 0);

// A bias is added once to a pending sum, not once by every rank.
static_assert(found<BiasAdd>({partial_sum, reduced}) == 0 && found<BiasAdd>({partial_sum, replicate}) == 0);
static_assert(found<BiasAdd>({partial_sum, partial_sum}) == only(partial_sum));
static_assert(found<BiasAdd>({s0, reduced}) == only(s0) && found<BiasAdd>({s1, s0}) == only(s1));

// Indices have no gradient, so a copy is a copy; but a pending sum of indices points nowhere.
static_assert(found<Embedding>({replicate, s0}) == only(partial_sum));
static_assert(found<Embedding>({reduced, s0}) == only(partial_sum));
static_assert(found<Embedding>({replicate, partial_sum}) == only(partial_sum));
static_assert(found<Embedding>({partial_sum, reduced}) == 0 &&
              found<Embedding>({partial_sum, replicate}) == 0);

}  // namespace
}  // namespace shardwise::testing
