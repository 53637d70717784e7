// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// `Mlp`: up, gelu, down. With a column-wise and a row-wise layer, Megatron-LM's: one all-reduce forward, one
/// backward.

#include <shardwise/layout/diagnosis.hpp>
#include <shardwise/nn/linear.hpp>
#include <shardwise/ops/activation.hpp>

namespace shardwise {

template <class MeshType, class T = float, ParallelStyle Up = ColwiseParallel<tp>,
          ParallelStyle Down = RowwiseParallel<tp>>
class Mlp : public Module<Mlp<MeshType, T, Up, Down>> {
 public:
  using Problem = detail::style_problem<MeshType, ModuleKind::linear, Up, Down>;

  constexpr Mlp(const MeshType& mesh, Index features, Index hidden) requires WellFormed<Problem>
      : up(mesh, features, hidden), down(mesh, hidden, features) {}
  template <IllFormed Why = Problem>
  Mlp(const MeshType&, Index, Index) = delete;  // see Why

  /// x: [r…, features], and so is the result.
  constexpr auto forward(const auto& x) const { return down(gelu(up(x))); }
  constexpr void visit(auto&& f) {
    f("up", up);
    f("down", down);
  }

  Linear<MeshType, Up, T> up;
  Linear<MeshType, Down, T> down;
};

}  // namespace shardwise
