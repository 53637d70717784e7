// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// Every rule of propagation, for all combinations of operand placements, against what simulating the
/// operation forward and backward shows to be legal: no rule is wrong and none is missing. The numbers say
/// how many combinations are legal, so that a simulation that has stopped looking is noticed.

#include <doctest/doctest.h>

#include "../static/legality.hpp"
#include "../static/stand_ins.hpp"

namespace shardwise::testing {
namespace {

// Two and three ranks; uneven blocks everywhere, and an empty one where 2 meets 3.
constexpr Setting two{2, {3, 2, 4, 2}, 1};
constexpr Setting three{3, {4, 2, 3, 2}, 2};
constexpr Setting other_three{3, {2, 4, 2, 3}, 3};

template <class Operation>
bool legal_in_exactly(int combinations, const auto&... settings) {
  Verdict verdict = judge<Operation>(settings...);
  return verdict.agrees() && verdict.legal == combinations;
}

TEST_CASE("so many combinations are legal, and the rules offer just these") {
  CHECK(legal_in_exactly<Matmul>(7, two, three));
  CHECK(legal_in_exactly<BatchedMatmul>(8, Setting{2, {2, 3, 2, 2}, 1}));
  CHECK(legal_in_exactly<Add>(5, two, three, other_three));
  CHECK(legal_in_exactly<BiasAdd>(5, two, three, other_three));
  CHECK(legal_in_exactly<Multiply>(6, two, three, other_three));
  CHECK(legal_in_exactly<ScaledTranspose>(5, two, three, other_three));
  CHECK(legal_in_exactly<Square>(4, two, three, other_three));
  CHECK(legal_in_exactly<Softmax>(3, two, three, other_three));
  CHECK(legal_in_exactly<LayerNorm>(4, two, three));
  CHECK(legal_in_exactly<SumOver>(5, two, three, other_three));
  CHECK(legal_in_exactly<ExtremumOver<1>>(4, two, three, other_three));
  CHECK(legal_in_exactly<ExtremumOver<-1>>(4, two, three, other_three));
  CHECK(legal_in_exactly<NormOver>(3, two, three, other_three));
  CHECK(legal_in_exactly<Embedding>(11, two, three, other_three));
  CHECK(legal_in_exactly<CrossEntropy>(5, two, three));
}

}  // namespace
}  // namespace shardwise::testing
