// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// `experts`: for each token the weighted sum of the gated MLPs that it chose, of many (Shazeer et al., "Outrageously
/// large neural networks", 2017).
///
/// ```
/// y = experts(x, ids, weights, gate_up, down);
/// ```
/// y[t] = Σ_j weights[t, j] · down[e] · swiglu(gate[e] · x[t], up[e] · x[t]), where e = ids[t, j]. No token is dropped.
/// Along one axis, besides whole operands:
///
/// | x          | ids        | weights    | gate_up    | down       | result          |                       |
/// |------------|------------|------------|------------|------------|-----------------|-----------------------|
/// | `Shard<t>` | `Shard<t>` | `Shard<t>` | `Reduced`  | `Reduced`  | `Shard<t>`      | data parallelism      |
/// | `Reduced`  | full       | `Reduced`  | `Shard<0>` | `Shard<0>` | `Partial<Sum>`  | experts cut           |
/// | `Reduced`  | full       | `Reduced`  | `Shard<2>` | `Shard<2>` | `Partial<Sum>`  | hidden features cut   |
/// | `Reduced`  | full       | `Reduced`  | `Reduced`  | `Shard<1>` | `Shard` (last)  | output features cut   |
/// | `Reduced`  | `Shard<k>` | `Shard<k>` | `Reduced`  | `Reduced`  | `Partial<Sum>`  | choices cut           |

#include <shardwise/kernel/embedding.hpp>
#include <shardwise/kernel/experts.hpp>
#include <shardwise/layout/diagnosis.hpp>
#include <shardwise/ops/apply.hpp>

namespace shardwise {

struct ExpertsOp {
  static constexpr const char* name = "experts";
  static constexpr Signature signature =
      Signature::of("...h, ...k, ...k, egfh, eof -> ...o").without_gradient(1).whole('h').whole('g');
  static constexpr Saved saved{.inputs = 0b11111};
  static constexpr bool accumulates = true;

  /// For plans, which do not know the ids: as if all experts were chosen as often.
  static constexpr std::int64_t flops(const auto& y, const auto& x, const auto& ids, const auto&,
                                      const auto& gate_up, const auto&) {
    return hidden(ids, gate_up) * (2 * (2 * x.columns() + y.columns()) + 3);
  }
  static constexpr std::int64_t gradient_flops(unsigned wanted, const auto& y, const auto& x, const auto& ids,
                                               const auto& weights, const auto& gate_up, const auto& down) {
    const bool trained = (wanted & 0b11000u) != 0;
    return flops(y, x, ids, weights, gate_up, down) * (trained ? 2 : 1) +
           (all_here(gate_up) ? 0 : hidden(ids, gate_up) * 4 * x.columns());
  }
  /// Of the experts, as many as are chosen, if all of these are on this rank.
  static constexpr Index moved_bytes(const auto& y, const auto& x, const auto& ids, const auto& weights,
                                     const auto& gate_up, const auto& down) {
    const Index own = std::max<Index>(gate_up.size[0], 1), chosen = std::min(own, ids.elements());
    return y.bytes() + x.bytes() + ids.bytes() + weights.bytes() +
           (gate_up.bytes() + down.bytes()) / own * chosen;
  }
  /// The projections of all slots, if all experts are on this rank. Otherwise their number is data, so the pullback
  /// computes them again.
  template <class T>
  static constexpr Index residual_bytes(const auto&, const auto&, const auto& ids, const auto&,
                                        const View<const T, 4>& gate_up, const auto&) {
    return all_here(gate_up) ? ids.elements() * 2 * gate_up.size[2] * static_cast<Index>(sizeof(T)) : 0;
  }

  template <class T, class Id, int Rank>
  static void forward(View<T, Rank> y, void* projected, View<const T, Rank> x, View<const Id, Rank> ids,
                      View<const T, Rank> weights, View<const T, 4> gate_up, View<const T, 3> down) {
    if (gate_up.shape[1] != 2) {
      detail::fail({"experts: gate_up is ", gate_up.shape, ", and must be [experts, 2, hidden, features]"});
    }
    const Index wrong = kernel::check_ids(ids.elements(), ids.data, gate_up.shape[0]);
    if (wrong >= 0) {
      detail::fail<std::out_of_range>({"experts: id ", ids.data[wrong], " at ",
                                       detail::position(ids.size, wrong, ids.begin), " is not one of the ",
                                       gate_up.shape[0], " experts"});
    }
    kernel::experts(extents(ids, gate_up, down), x.data, ids.data, weights.data, gate_up.data, down.data,
                    static_cast<T*>(projected), y.data);
  }
  template <class T, class Id, int Rank>
  static void pull_back(View<const T, Rank> dy, View<const T, Rank>, const void* projected, Input<T, Rank> x,
                        Input<Id, Rank> ids, Input<T, Rank> weights, Input<T, 4> gate_up, Input<T, 3> down) {
    const auto to = [](const auto& input) { return kernel::GradientTo<T>{input.gradient, input.accumulate}; };
    kernel::experts_backward(extents(ids, gate_up, down), x.data, ids.data, weights.data, gate_up.data,
                             down.data, static_cast<const T*>(projected), dy.data, to(x), to(weights),
                             to(gate_up), to(down));
  }

 private:
  static constexpr bool all_here(const auto& gate_up) { return gate_up.size[0] == gate_up.shape[0]; }
  /// The hidden features of the slots of this rank.
  static constexpr std::int64_t hidden(const auto& ids, const auto& gate_up) {
    const Index all = gate_up.shape[0];
    return all == 0 ? 0 : ids.elements() * gate_up.size[0] / all * gate_up.size[2];
  }
  static kernel::ExpertExtents extents(const auto& ids, const auto& gate_up, const auto& down) {
    return {ids.rows(),      ids.columns(),   gate_up.begin[0], gate_up.size[0],
            gate_up.size[3], gate_up.size[2], down.size[1]};
  }
};

/// x: [t…, features]; ids: integers, [t…, k]; weights: [t…, k]; gate_up: [experts, 2, hidden, features], the gate
/// first; down: [experts, out, hidden]. The result is [t…, out]. Layouts as in the table above; x and the experts have
/// one element type. Terms are added in the order of the experts, so the order of a token's ids does not matter.
///
/// The pullback keeps the operands, and, where no axis shards the experts, the k · 2 · hidden projections of each
/// token. Throws `std::invalid_argument` if extents do not fit, and `std::out_of_range`, on the ranks that hold it, for
/// an id outside [0, experts).
SHARDWISE_FUNCTION(experts, ExpertsOp);

}  // namespace shardwise
