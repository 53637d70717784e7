// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// `LayerNorm` over the last dimension, with a gain and a shift per feature. Every rank does all of it, or,
/// with `SequenceParallel<tp>`, its own tokens: then, as on data axes, the parameters are `Reduced` and their
/// gradients pending.

#include <shardwise/layout/diagnosis.hpp>

#include <shardwise/module/module.hpp>
#include <shardwise/ops/layer_norm.hpp>
#include <shardwise/parallel/style_problem.hpp>
#include <shardwise/parallel/styled.hpp>

namespace shardwise {

template <class MeshType, ParallelStyle Style = NoParallel, class T = float>
class LayerNorm : public Module<LayerNorm<MeshType, Style, T>> {
 public:
  using Gain = tensor_with<T, 1, MeshType, packed(detail::bias_layout<Style, MeshType>())>;
  using Problem = detail::style_problem<MeshType, ModuleKind::norm, Style>;

  /// Normalises a last dimension of `features` elements; weight and bias begin as 1 and 0.
  constexpr LayerNorm(const MeshType& mesh, Index features,
                      double epsilon = 1e-5) requires WellFormed<Problem>
      : weight(mesh, {features}, Init::constant(1)),
        bias(mesh, {features}, Init::constant(0)),
        epsilon_(epsilon) {}
  template <IllFormed Why = Problem>
  LayerNorm(const MeshType&, Index, double = 1e-5) = delete;  // see Why
  template <IllFormed Why = WrittenOtherwise<Hint::pass_the_mesh_first>>
  explicit LayerNorm(Index, double = 1e-5) = delete;  // see Why

  /// x: [r…, features], and so is the result.
  constexpr auto forward(const Operand auto& x) const {
    return layer_norm(detail::redistribute_input<Style, 1>(x), weight, bias, epsilon_);
  }
  constexpr void visit(auto&& f) {
    f("weight", weight);
    f("bias", bias);
  }

  detail::StyledBias<Style, Gain> weight, bias;

 private:
  double epsilon_;
};

}  // namespace shardwise
