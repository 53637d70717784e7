// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// The rules of propagation against simulation, in more settings than the compiler has patience for, and the
/// cures that errors propose.

#include <doctest/doctest.h>

#include "../static/legality.hpp"
#include "../static/stand_ins.hpp"

namespace shardwise::testing {
namespace {

template <class Operation>
void check_rule(const auto&... settings) {
  Verdict verdict = judge<Operation>(settings...);
  CAPTURE(verdict.first_wrong[0].code);
  CAPTURE(verdict.first_wrong[1].code);
  CAPTURE(verdict.first_wrong[2].code);
  CAPTURE(verdict.first_wrong[3].code);
  CAPTURE(verdict.first_wrong[4].code);
  CAPTURE(verdict.found_there);
  CHECK(verdict.wrong == 0);
  CHECK(verdict.agrees());
}

/// Does an error name operand placements that are legal, changing none that were, and fewer than all if it
/// can?
template <class Operation>
void check_cures() {
  constexpr Signature op = Operation::signature;
  Array<int, max_operands> ranks{};
  for (int i = 0; i < ranks.size(); ++i) ranks[i] = op.operands[i].rank;
  auto rule = [&](const OperandPlacements& at) { return propagate(op, at); };
  OperandPlacements at{};
  int wrong = 0;
  auto visit = [&](auto&& self, std::size_t i) -> void {
    if (i < static_cast<std::size_t>(op.count)) {
      for (at[i].code = partial_min.code; at[i].code < ranks[i]; ++at[i].code) self(self, i + 1);
      return;
    }
    OperandPlacements cure = nearest_legal(rule, ranks, op.count, at);
    if (!propagate(op, cure).legal()) ++wrong;
    if (propagate(op, at).legal() && cure != at) ++wrong;
    if (!propagate(op, at).legal() && hint_for(propagate(op, at).reason) == Hint::none) ++wrong;
  };
  visit(visit, 0);
  CHECK(wrong == 0);
}

template <class Operation>
void check() {
  check_rule<Operation>(Setting{2, {3, 2, 4, 2}, 1}, Setting{3, {4, 2, 3, 2}, 2},
                        Setting{3, {2, 4, 2, 3}, 3});
  check_rule<Operation>(Setting{2, {2, 4, 2, 2}, 4}, Setting{2, {4, 2, 3, 2}, 5},
                        Setting{2, {3, 3, 3, 3}, 6});
  check_cures<Operation>();
}

TEST_CASE("products") {
  check<Matmul>();
  check<Multiply>();
  check<RowMultiply>();
  check<ScaledTranspose>();
  check_rule<BatchedMatmul>(Setting{2, {2, 3, 2, 2}, 1}, Setting{3, {4, 2, 2, 3}, 2},
                            Setting{3, {2, 2, 4, 4}, 3});
  check_cures<BatchedMatmul>();
}

TEST_CASE("sums") {
  check<Add>();
  check<BiasAdd>();
  check<Where>();
  check<SumOver>();
}

TEST_CASE("operations that are not linear") {
  check<Square>();
  check<Softmax>();
  check<LayerNorm>();
  check<CrossEntropy>();
}

TEST_CASE("reductions that are not sums") {
  check<ExtremumOver<1>>();
  check<ExtremumOver<-1>>();
  check<NormOver>();
}

TEST_CASE("embedding") { check<Embedding>(); }

TEST_CASE("experts") {  // t, h, k, e, f, o
  check_rule<Experts>(Setting{2, {2, 2, 2, 3, 2, 2}, 1}, Setting{2, {3, 2, 2, 3, 3, 2}, 2});
}

TEST_CASE("attention") {
  check_rule<Attention>(Setting{2, {2, 2, 2, 2, 3}, 1}, Setting{3, {2, 3, 2, 2, 2}, 2});
  check_rule<Attention>(Setting{2, {3, 2, 2, 2, 2}, 3}, Setting{3, {2, 2, 4, 2, 2}, 4});
  check_cures<Attention>();
}

}  // namespace
}  // namespace shardwise::testing
