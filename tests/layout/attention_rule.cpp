// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// The two ways in which attention shares out heads, by simulation of grouped queries: `AttentionOp` offers
/// just what is found to be legal. The blocks fit the groups here; where they do not, `attention` throws. Also
/// the rules of `rms_norm`, `rope` and `swiglu`.

#include <doctest/doctest.h>
#include <shardwise/llm/models/rope.hpp>
#include <shardwise/mesh/mesh.hpp>
#include <shardwise/ops/attention.hpp>
#include <shardwise/ops/rms_norm.hpp>
#include <shardwise/ops/swiglu.hpp>

#include "../static/legality.hpp"
#include "../static/stand_ins.hpp"

namespace shardwise::testing {
namespace {

using namespace shardwise::llm;

/// Like causal attention where two heads h read one key/value head g. A rank that lacks it cannot compute.
struct GroupedAttention {
  static constexpr Signature signature = Signature::of("bshd", "btgd", "btgd", "bshd");
  template <class T>
  static constexpr void run(const Inputs<T>& in, Tiny<T>& y) {
    const auto& [q, k, v, unused, none] = in;
    for (Index b = 0; b < y.size(0); ++b) {
      for (Index h = 0; h < y.size(2); ++h) {
        const Index g = (q.begin[2] + h) / 2 - k.begin[2];
        for (Index s = 0; s < y.size(1); ++s) {
          for (Index d = 0; d < y.size(3); ++d) {
            y(b, s, h, d) = g < 0 || g >= k.size(2) ? T(1000) : attend(in, b, s, h, g, d);
          }
        }
      }
    }
  }

 private:
  /// Σ_t (q · k_t)² v_t times the sum of the weights.
  template <class T>
  static constexpr T attend(const Inputs<T>& in, Index b, Index s, Index h, Index g, Index at) {
    const auto& [q, k, v, unused, none] = in;
    T total{}, sum{};
    for (Index t = 0; t < k.size(1) && t <= q.begin[1] + s; ++t) {
      T product{};
      for (Index d = 0; d < q.size(3); ++d) product += q(b, s, h, d) * k(b, t, g, d);
      total += product * product;
      sum += product * product * v(b, t, g, at);
    }
    return sum * total;
  }
};

const Truth<GroupedAttention> on_two(Setting{2, {2, 2, 4, 1, 2, 2}, 1});
const Truth<GroupedAttention> on_three(Setting{3, {1, 2, 6, 2, 2, 3}, 2});
/// Three heads each: key/value head 1 is read on both ranks.
const Truth<GroupedAttention> mid_group(Setting{2, {1, 2, 6, 2, 2, 3}, 3});

bool offers(const OperandPlacements& at, PlacementSet found) {
  const Propagated rule = AttentionOp::rule(AttentionOp::signature<4, 4, 4>(), at);
  return (rule.legal() ? only(rule.placement) : 0) == found;
}

/// All combinations of these placements of q, k and v.
int legal_combinations() {
  constexpr Placement placements[] = {replicate, reduced,  partial_sum, partial_max,
                                      shard(0),  shard(1), shard(2),    shard(3)};
  int legal = 0;
  for (Placement q : placements) {
    for (Placement k : placements) {
      for (Placement v : placements) {
        const OperandPlacements at{q, k, v};
        PlacementSet found = legal_results(on_two, at);
        if (found != 0) found &= legal_results(on_three, at);
        found &= ~(only(partial_max) | only(partial_min));
        // It is linear in the values; but these are never pending where they are made.
        if (q == reduced && k == reduced && v == partial_sum) continue;
        if (!offers(at, found)) return -1;
        legal += found != 0;
      }
    }
  }
  return legal;
}
TEST_CASE("attention") {
  CHECK(legal_combinations() == 6);  // all Replicate, all Reduced, batch, queries, heads in two ways
}

TEST_CASE("blocks that end within a group") {
  const Placement heads = shard(2);
  CHECK(legal_results(mid_group, {heads, reduced, reduced}) == only(heads));
  CHECK(legal_results(mid_group, {heads, heads, heads}) == 0);
  CHECK(legal_results(mid_group, {heads, replicate, replicate}) == 0);
}

// The others are of kinds that propagation_exhaustive.cpp simulates.
constexpr bool same(const Signature& a, const Signature& b) {
  for (int i = 0; i < max_operands; ++i) {
    if (a.operands[i].letters != b.operands[i].letters || a.differentiable[i] != b.differentiable[i])
      return false;
  }
  return a.count == b.count && a.result.letters == b.result.letters && a.uncut.letters == b.uncut.letters &&
         a.linearity == b.linearity && a.contraction == b.contraction && a.contractible == b.contractible;
}

/// Like rms_norm.
struct RmsNorm : Complete {
  static constexpr Signature signature = Signature::of("Ac", "c", "Ac").whole('c');
  template <class T>
  static constexpr void run(const Inputs<T>& in, Tiny<T>& y) {
    for (Index r = 0; r < y.size(0); ++r) {
      const T squares = row_sum_of_squares(in[0], r);
      for (Index c = 0; c < y.size(1); ++c) y(r, c) = in[0](r, c) * squares * in[1](c);
    }
  }
  /// It is linear in the weight, which as a parameter is never pending.
  static constexpr bool not_offered(const OperandPlacements& at) {
    return at[0] == reduced && at[1] == partial_sum;
  }
};
/// Like rope: turns by the global position.
struct Rope : Complete {
  static constexpr Signature signature = Signature::of("bshd", "bshd").whole('d').linear_in_each();
  template <class T>
  static constexpr void run(const Inputs<T>& in, Tiny<T>& y) {
    const Index half = y.size(3) / 2;
    for (Index b = 0; b < y.size(0); ++b) {
      for (Index s = 0; s < y.size(1); ++s) {
        const T sine(1 + in[0].begin[1] + s);
        for (Index h = 0; h < y.size(2); ++h) {
          for (Index d = 0; d < y.size(3); ++d) {
            const Index other = (d + half) % y.size(3);
            y(b, s, h, d) = in[0](b, s, h, d) + T(d < half ? -1 : 1) * sine * in[0](b, s, h, other);
          }
        }
      }
    }
  }
};
/// Like swiglu.
struct Swiglu {
  static constexpr Signature signature = Signature::of("AB", "AB", "AB");
  template <class T>
  static constexpr void run(const Inputs<T>& in, Tiny<T>& y) {
    for (Index e = 0; e < y.elements(); ++e) y[e] = in[0][e] * in[0][e] * in[1][e];
  }
  /// It is linear in `up`; but both come from like products, and a pending one comes with another.
  static constexpr bool not_offered(const OperandPlacements& at) {
    return at[0] == reduced && at[1] == partial_sum;
  }
};

static_assert(same(RmsNormOp::signature.of_ranks({2, 1}, 2), RmsNorm::signature));
static_assert(same(RopeOp::signature<4>(), Rope::signature));
static_assert(same(SwigluOp::signature.of_ranks({2, 2}, 2), Swiglu::signature));

template <class Operation>
int legal_in(const auto&... settings) {
  const Verdict verdict = judge<Operation>(settings...);
  return verdict.agrees() ? verdict.legal : -1;
}
TEST_CASE("rms_norm, rope and swiglu") {
  CHECK(legal_in<RmsNorm>(Setting{2, {3, 4}, 1}, Setting{3, {4, 3}, 2}) == 4);
  CHECK(legal_in<Rope>(Setting{2, {2, 3, 2, 2}, 1}, Setting{3, {1, 4, 2, 4}, 2}) == 6);
  CHECK(legal_in<Swiglu>(Setting{2, {3, 4}, 1}, Setting{3, {4, 2}, 2}) == 5);
}

}  // namespace
}  // namespace shardwise::testing
