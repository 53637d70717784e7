// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Placement propagation: an operation's signature and its operands' placements along one mesh axis determine the
/// placement of the result, or the reason for an error. Mesh axes are independent of each other.
///
/// A result is legal if the operation is local in both directions: forward from the operands' placements, and
/// backward from the result's gradient to the gradients that the operands' placements call for. That leaves:
///   - one index cut into blocks: every operand that has it is `Shard` there, every other operand is `Reduced` (each
///     rank uses it on other data); the result is `Shard` there, or `Partial` if the index is contracted;
///   - nothing cut: all operands `Replicate`, or all `Reduced`;
///   - pending sums: one, beside `Reduced` operands, in a product; all, in a sum.
/// The tests find the same set by simulating every combination on small tensors.

#include <shardwise/layout/diagnosis.hpp>
#include <shardwise/layout/signature.hpp>

namespace shardwise {

/// The placements of the operands along one axis.
using OperandPlacements = Array<Placement, max_operands>;

/// The placement of the result along one axis, or the reason why there is none.
struct Propagated {
  Placement placement{};
  Reason reason = Reason::none;
  constexpr bool legal() const { return reason == Reason::none; }
};

/// The rule for all operations: the placement of the result from the placements of the operands along one axis.
constexpr Propagated propagate(const Signature& op, const OperandPlacements& at) {
  auto illegal = [](Reason reason) { return Propagated{{}, reason}; };
  char cut = 0;  // the index that is cut into blocks
  int pending = 0, replicated = 0, finished = 0;
  bool different = false, whole = false, extremum = false, pending_indices = false;
  for (int i = 0; i < op.count; ++i) {
    Placement p = at[i];
    if (p.is_shard()) {
      char letter = op.operands[i][p.dim()];
      different |= cut != 0 && cut != letter;
      cut = letter;
      whole |= op.uncut.find(cut) >= 0;
    }
    pending += p == partial_sum;
    extremum |= p.is_partial() && p != partial_sum;
    pending_indices |= p == partial_sum && !op.differentiable[i];
    if (op.differentiable[i]) {
      replicated += p == replicate;
      finished += p == reduced;
    }
  }
  if (extremum) return illegal(Reason::pending_maximum_or_minimum_must_be_reduced_first);
  if (pending_indices || (pending > 0 && op.linearity == Linearity::none)) {
    return illegal(Reason::operation_is_not_linear_so_it_needs_the_finished_sum);
  }
  if (whole) return illegal(Reason::operation_needs_this_dimension_whole_on_every_rank);
  if (different) return illegal(Reason::operands_sharded_on_different_dimensions);
  if (cut != 0) {
    bool contracted = op.result.find(cut) < 0;
    if (contracted && !op.contractible) return illegal(Reason::contracted_blocks_have_no_pending_form);
    for (int i = 0; i < op.count; ++i) {
      if (op.operands[i].find(cut) >= 0 && !at[i].is_shard()) {
        return illegal(contracted ? Reason::contracted_dimension_sharded_on_one_side_only
                                  : Reason::dimension_sharded_on_one_side_only);
      }
    }
    if (pending > 0) return illegal(Reason::pending_sum_meets_a_finished_value);
    if (replicated > 0) {
      return illegal(Reason::replicated_operand_meets_blocks_so_its_gradient_would_be_pending);
    }
    return {contracted ? partial(op.contraction) : shard(op.result.find(cut))};
  }
  if (pending > 0) {
    if (replicated > 0) return illegal(Reason::pending_sum_meets_a_finished_value);
    if (op.linearity == Linearity::in_each && pending > 1)
      return illegal(Reason::product_of_two_pending_sums);
    if (op.linearity == Linearity::jointly && finished > 0) {
      return illegal(Reason::pending_sum_meets_a_finished_value);
    }
    return {partial_sum};
  }
  if (replicated > 0 && finished > 0) return illegal(Reason::replicated_operand_meets_reduced_one);
  return {finished > 0 ? reduced : replicate};
}

/// The legal operand placements nearest to `at`: first those that change the fewest operands, then those that need
/// no communication, then the cheapest. `rule` maps placements to a result; `ranks` are the operands'. Used only
/// for the text of an error.
template <class Rule>
constexpr OperandPlacements nearest_legal(Rule rule, const Array<int, max_operands>& ranks, int count,
                                          const OperandPlacements& at) {
  auto price = [](Placement from, Placement to) {
    if (from == to) return 0;
    if (same_data(from, to)) return to == reduced ? 10 : 11;  // a cast
    if (from.is_full()) return to.is_shard() ? 12 : 14;       // a slice or a mask
    if (from.is_partial()) return to == replicate ? 20 : to.is_shard() ? 21 : 22;
    return to.is_shard() ? 22 : to == replicate ? 23 : to == reduced ? 24 : 30;
  };
  OperandPlacements best = at;
  int best_price = 1 << 20;
  OperandPlacements tried{};
  auto search = [&](auto&& self, int i, int so_far) -> void {
    if (so_far >= best_price) return;
    if (i >= count || i >= max_operands) {
      if (!rule(tried).legal()) return;
      best = tried;
      best_price = so_far;
      return;
    }
    tried[i] = at[i];  // first: among equals, leave the first operands unchanged
    self(self, i + 1, so_far);
    for (int code = ranks[i] - 1; code >= partial_sum.code; --code) {
      tried[i] = Placement{code};
      self(self, i + 1, so_far + price(at[i], tried[i]));
    }
  };
  search(search, 0, 0);
  return best;
}

}  // namespace shardwise
