// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// `RMSNorm` over the last dimension (Zhang and Sennrich, "Root mean square layer normalization", 2019), with
/// a gain per feature. Styles are `LayerNorm`'s.

#include <shardwise/layout/diagnosis.hpp>

#include <shardwise/module/module.hpp>
#include <shardwise/ops/rms_norm.hpp>
#include <shardwise/parallel/style_problem.hpp>
#include <shardwise/parallel/styled.hpp>

namespace shardwise {

template <class MeshType, ParallelStyle Style = NoParallel, class T = float>
class RMSNorm : public Module<RMSNorm<MeshType, Style, T>> {
 public:
  using Gain = tensor_with<T, 1, MeshType, packed(detail::bias_layout<Style, MeshType>())>;
  using Problem = detail::style_problem<MeshType, ModuleKind::norm, Style>;

  /// The gain is `offset` + weight, and begins as 1.
  constexpr RMSNorm(const MeshType& mesh, Index features, double epsilon = 1e-5,
                    double offset = 0) requires WellFormed<Problem>
      : weight(mesh, {features}, Init::constant(1 - offset)), epsilon_(epsilon), offset_(offset) {}
  template <IllFormed Why = Problem>
  RMSNorm(const MeshType&, Index, double = 1e-5, double = 0) = delete;  // see Why
  template <IllFormed Why = WrittenOtherwise<Hint::pass_the_mesh_first>>
  explicit RMSNorm(Index, double = 1e-5) = delete;  // see Why

  /// x: [r…, features], and so is the result.
  constexpr auto forward(const Operand auto& x) const {
    return rms_norm(detail::redistribute_input<Style, 1>(x), weight, epsilon_, offset_);
  }
  constexpr void visit(auto&& f) { f("weight", weight); }

  detail::StyledBias<Style, Gain> weight;

 private:
  double epsilon_, offset_;
};

}  // namespace shardwise
