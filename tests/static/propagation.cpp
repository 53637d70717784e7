// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// Every rule of propagation, for all combinations of operand placements, against what simulating the
/// operation forward and backward shows to be legal: no rule is wrong and none is missing. The numbers say
/// how many combinations are legal, so that a simulation that has stopped looking is noticed.

#include "legality.hpp"
#include "stand_ins.hpp"

namespace shardwise::testing {
namespace {

// Two and three ranks; uneven blocks everywhere, and an empty one where 2 meets 3.
constexpr Setting two{2, {3, 2, 4, 2}, 1};
constexpr Setting three{3, {4, 2, 3, 2}, 2};
constexpr Setting other_three{3, {2, 4, 2, 3}, 3};

template <class Operation>
constexpr bool legal_in_exactly(int combinations, const auto&... settings) {
  Verdict verdict = judge<Operation>(settings...);
  return verdict.agrees() && verdict.legal == combinations;
}

static_assert(legal_in_exactly<Matmul>(7, two, three));
static_assert(legal_in_exactly<Matmul>(7, two, other_three));
static_assert(legal_in_exactly<BatchedMatmul>(8, Setting{2, {2, 3, 2, 2}, 1}));
static_assert(legal_in_exactly<Add>(5, two, three, other_three));
static_assert(legal_in_exactly<BiasAdd>(5, two, three, other_three));
static_assert(legal_in_exactly<Multiply>(6, two, three, other_three));
static_assert(legal_in_exactly<ScaledTranspose>(5, two, three, other_three));
static_assert(legal_in_exactly<Square>(4, two, three, other_three));
static_assert(legal_in_exactly<Softmax>(3, two, three, other_three));
static_assert(legal_in_exactly<LayerNorm>(4, two, three));
static_assert(legal_in_exactly<SumOver>(5, two, three, other_three));
static_assert(legal_in_exactly<ExtremumOver<1>>(4, two, three, other_three));
static_assert(legal_in_exactly<ExtremumOver<-1>>(4, two, three, other_three));
static_assert(legal_in_exactly<NormOver>(3, two, three, other_three));
static_assert(legal_in_exactly<Embedding>(11, two, three, other_three));
static_assert(legal_in_exactly<CrossEntropy>(5, two, three));

/// What the simulation alone finds.
template <class Operation>
constexpr PlacementSet found(const OperandPlacements& at) {
  return legal_results(Truth<Operation>(two), at) & legal_results(Truth<Operation>(three), at);
}
constexpr Placement s0 = shard(0), s1 = shard(1);

// The result is `Replicate` or `Reduced` as the operands are; the other would be wrong, though it is the same data.
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
static_assert(found<Embedding>({partial_sum, reduced}) == 0 && found<Embedding>({partial_sum, replicate}) == 0);

}  // namespace
}  // namespace shardwise::testing
