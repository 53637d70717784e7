// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Finds by simulation which placements of an operation's result are legal: forward, the operation on the
/// local blocks of its operands must give the result distributed so; backward, from the result's gradient
/// distributed as the table of gradients says, the pullback on the local blocks must give every operand's
/// gradient distributed as the table says. The rules must agree with what is found, for all combinations.

#include "shardwise/layout/block.hpp"
#include "shardwise/layout/propagation.hpp"
#include "simulate.hpp"
#include "tiny.hpp"

namespace shardwise::testing {

/// A mesh axis, the extents of the indices in the order in which they first appear, and some randomness.
struct Setting {
  int ranks = 2;
  Shape<6> extents{};
  int seed = 0;
};

inline constexpr int max_ranks = 3;

/// One tensor as it lies on the ranks.
template <class T>
using Distributed = std::array<Tiny<T>, max_ranks>;

constexpr Tiny<Integer> block_of(const Tiny<Integer>& whole, Placement p, int ranks, int rank) {
  Tiny<Integer> block = whole;
  if (!p.is_shard()) return block;
  auto cut = static_cast<std::size_t>(p.dim());
  Range range = balanced_block(whole.extents[cut], ranks, rank);
  block.begin[cut] = range.begin;
  block.extents[cut] = range.size;
  Index inner = 1;  // elements of one index of the cut dimension
  for (std::size_t dim = cut + 1; dim < static_cast<std::size_t>(whole.rank); ++dim)
    inner *= whole.extents[dim];
  for (Index e = 0; e < block.elements(); ++e) {
    Index outer = e / (range.size * inner), within = e % (range.size * inner);
    block[e] = whole[outer * whole.extents[cut] * inner + range.begin * inner + within];
  }
  return block;
}

/// What `rank` holds of `whole`: a block, a copy, or an arbitrary term.
constexpr Tiny<Integer> local_part(const Tiny<Integer>& whole, Placement p, int ranks, int rank, int seed) {
  Tiny<Integer> part = block_of(whole, p, ranks, rank);
  if (!p.is_partial()) return part;
  for (Index e = 0; e < whole.elements(); ++e) {
    int element = static_cast<int>(e);
    if (p != partial_sum) {
      Integer distance = 1 + (noise(seed + element, rank) & 1);
      if (rank != (element + seed) % ranks) part[e] += p == partial_max ? -distance : distance;
      continue;
    }
    Integer rest = whole[e];
    for (int i = 0; i < ranks - 1; ++i) rest -= noise(seed + 31 * element, i);
    part[e] = rank < ranks - 1 ? noise(seed + 31 * element, rank) : rest;
  }
  return part;
}

constexpr bool same(const Tiny<Integer>& a, const Tiny<Integer>& b) {
  if (a.rank != b.rank) return false;
  for (int dim = 0; dim < a.rank; ++dim) {
    if (a.size(dim) != b.size(dim)) return false;
  }
  for (Index e = 0; e < a.elements(); ++e) {
    if (a[e] != b[e]) return false;
  }
  return true;
}

/// Do these local parts make `whole`, placed as `p`?
constexpr bool makes(const Distributed<Integer>& parts, const Tiny<Integer>& whole, Placement p, int ranks) {
  Tiny<Integer> combined = parts[0];
  for (int rank = 0; rank < ranks; ++rank) {
    const Tiny<Integer>& part = parts[static_cast<std::size_t>(rank)];
    if (!p.is_partial()) {
      if (!same(part, block_of(whole, p, ranks, rank))) return false;
      continue;
    }
    if (part.rank != whole.rank || part.extents != whole.extents) return false;
    for (Index e = 0; e < whole.elements() && rank > 0; ++e) {
      Integer a = combined[e], b = part[e];
      combined[e] = p == partial_sum ? a + b : (p == partial_max) == (a > b) ? a : b;
    }
  }
  return !p.is_partial() || same(combined, whole);
}

/// The operation on these operands, whole or blocks; false if they do not fit together.
template <class Operation, class T>
constexpr bool run(const Inputs<T>& inputs, Tiny<T>& result) {
  constexpr Signature op = Operation::signature;
  result = {};
  result.rank = op.result.rank;
  for (int i = 0; i < op.count; ++i) {
    const Indices& letters = op.operands[static_cast<std::size_t>(i)];
    for (int dim = 0; dim < letters.rank; ++dim) {
      Index extent = inputs[static_cast<std::size_t>(i)].size(dim);
      for (int j = 0; j < i; ++j) {
        int there = op.operands[static_cast<std::size_t>(j)].find(letters[dim]);
        if (there >= 0 && inputs[static_cast<std::size_t>(j)].size(there) != extent) return false;
      }
      int in_result = op.result.find(letters[dim]);
      if (in_result >= 0) result.extents[static_cast<std::size_t>(in_result)] = extent;
    }
  }
  Operation::run(inputs, result);
  return true;
}

/// The gradient of operand `i`, by the derivative of the operation in each of its elements.
template <class Operation>
constexpr Tiny<Integer> pullback(const Inputs<Integer>& inputs, const Tiny<Integer>& upstream, int i) {
  auto operand = static_cast<std::size_t>(i);
  Inputs<Dual> duals = with_slopes(inputs, Operation::signature.count);
  Tiny<Integer> gradient = inputs[operand];
  for (Index e = 0; e < gradient.elements(); ++e) {
    duals[operand][e].slope = 1;
    Tiny<Dual> result;
    run<Operation>(duals, result);
    gradient[e] = 0;
    for (Index y = 0; y < result.elements(); ++y) gradient[e] += upstream[y] * result[y].slope;
    duals[operand][e].slope = 0;
  }
  return gradient;
}

/// An operation on whole tensors: what the distributed one is held against.
template <class Operation>
struct Truth {
  static constexpr Signature op = Operation::signature;
  Setting setting{};
  Inputs<Integer> inputs{};
  Inputs<Integer> gradients{};
  Tiny<Integer> result{};
  Tiny<Integer> upstream{};

  constexpr explicit Truth(const Setting& s) : setting(s) {
    Indices seen;
    for (std::size_t i = 0; i < static_cast<std::size_t>(op.count); ++i) {
      inputs[i].rank = op.operands[i].rank;
      for (int dim = 0; dim < inputs[i].rank; ++dim) {
        if (seen.find(op.operands[i][dim]) < 0) seen = seen.then(op.operands[i][dim]);
        auto letter = static_cast<std::size_t>(seen.find(op.operands[i][dim]));
        inputs[i].extents[static_cast<std::size_t>(dim)] = s.extents[letter];
      }
      for (Index e = 0; e < inputs[i].elements(); ++e) {
        inputs[i][e] = noise(static_cast<int>(e) + 100 * s.seed, static_cast<int>(i));
        // What has no gradient holds small indices.
        if (!op.differentiable[i]) inputs[i][e] = (inputs[i][e] + 8) % 3;
      }
    }
    run<Operation>(inputs, result);
    upstream = result;
    for (Index e = 0; e < result.elements(); ++e) upstream[e] = noise(static_cast<int>(e), s.seed + 77);
    for (int i = 0; i < op.count; ++i) {
      gradients[static_cast<std::size_t>(i)] = pullback<Operation>(inputs, upstream, i);
    }
  }
};

/// A set of placements: bit `code + 5`.
using PlacementSet = unsigned;
constexpr PlacementSet only(Placement p) { return 1u << (p.code + 5); }

/// The placements of the result that this setting does not refute.
template <class Operation>
constexpr PlacementSet legal_results(const Truth<Operation>& truth, const OperandPlacements& at) {
  constexpr Signature op = Operation::signature;
  const int ranks = truth.setting.ranks, seed = 1000 * truth.setting.seed;
  auto each_rank = [&](auto&& visit) {
    for (int rank = 0; rank < ranks; ++rank) visit(static_cast<std::size_t>(rank), rank);
  };
  for (std::size_t i = 0; i < static_cast<std::size_t>(op.count); ++i) {
    if (op.differentiable[i] && !has_cotangent(at[i])) return 0;
  }
  std::array<Inputs<Integer>, max_ranks> local{};
  Distributed<Integer> results{};
  bool fits = true;
  each_rank([&](std::size_t r, int rank) {
    for (std::size_t i = 0; i < static_cast<std::size_t>(op.count); ++i) {
      local[r][i] = local_part(truth.inputs[i], at[i], ranks, rank, seed + 7 * static_cast<int>(i));
    }
    fits = fits && run<Operation>(local[r], results[r]);
  });
  if (!fits) return 0;

  auto backward_is_local = [&](Placement p) {
    Distributed<Integer> upstream{};
    each_rank([&](std::size_t r, int rank) {
      upstream[r] = local_part(truth.upstream, cotangent(p), ranks, rank, seed + 500);
    });
    for (int i = 0; i < op.count; ++i) {
      auto operand = static_cast<std::size_t>(i);
      if (!op.differentiable[operand]) continue;
      Distributed<Integer> gradient{};
      each_rank([&](std::size_t r, int) { gradient[r] = pullback<Operation>(local[r], upstream[r], i); });
      if (!makes(gradient, truth.gradients[operand], cotangent(at[operand]), ranks)) return false;
    }
    return true;
  };
  PlacementSet legal = 0;
  for (int code = partial_min.code; code < op.result.rank; ++code) {
    Placement p{code};
    // A pending extremum has no gradient; it counts for operations that are meant to give one.
    if (!has_cotangent(p) && p != partial(op.contraction)) continue;
    if (!makes(results, truth.result, p, ranks)) continue;
    if (has_cotangent(p) ? backward_is_local(p) : !p.is_full()) legal |= only(p);
  }
  return legal;
}

/// What comparing the rules with the simulation found.
struct Verdict {
  int combinations = 0;
  int legal = 0;
  int wrong = 0;  ///< combinations in which the rule differs from the simulation
  OperandPlacements first_wrong{};
  PlacementSet found_there = 0;

  constexpr bool agrees() const { return combinations > 0 && legal > 0 && wrong == 0; }
};

/// Compares `propagate` with the simulation for every combination of operand placements. Where a result is
/// legal, exactly one is, and the rule must name it.
template <class Operation, class... Settings>
constexpr Verdict judge(const Settings&... settings) {
  constexpr Signature op = Operation::signature;
  Verdict verdict;
  auto judge_all = [&](const auto&... truths) {
    OperandPlacements at{};
    auto visit = [&](auto&& self, std::size_t i) -> void {
      if (i < static_cast<std::size_t>(op.count)) {
        for (at[i].code = partial_min.code; at[i].code < op.operands[i].rank; ++at[i].code) self(self, i + 1);
        return;
      }
      PlacementSet found = ~0u;
      (..., (found = found == 0 ? 0 : found & legal_results(truths, at)));
      // Last resort: all ranks holding one value are also a pending maximum, but an unnecessary one.
      if ((found & ~(only(partial_max) | only(partial_min))) != 0)
        found &= ~(only(partial_max) | only(partial_min));
      Propagated rule = propagate(op, at);
      PlacementSet offered = rule.legal() ? only(rule.placement) : 0;
      bool left_out = found != 0 && offered == 0;
      bool right = left_out ? Operation::not_offered(at) : found == offered && !Operation::not_offered(at);
      ++verdict.combinations;
      verdict.legal += found != 0;
      if (right) return;
      if (verdict.wrong++ > 0) return;
      verdict.first_wrong = at;
      verdict.found_there = found;
    };
    visit(visit, 0);
  };
  judge_all(Truth<Operation>(settings)...);
  return verdict;
}

}  // namespace shardwise::testing
