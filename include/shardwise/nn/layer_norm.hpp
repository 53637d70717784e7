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
#include <shardwise/parallel/styled.hpp>

namespace shardwise {

template <class MeshType, ParallelStyle Style = NoParallel, class T = float>
class LayerNorm {
 public:
  using Gain = tensor_with<T, 1, MeshType, packed(detail::bias_layout<Style, MeshType>())>;

  using Problem = detail::style_problem<MeshType, ModuleKind::norm, Style>;
  template <class X>
  using TakenIn = detail::taken_in<Style, X, 0>;
  template <class X>
  using Normalised = result_of<LayerNormOp, X, Gain, Gain>;
  /// What a call with an `X` gives, or the `LayoutError` that says why none.
  template <class X>
  using ResultOf = detail::through<X, TakenIn, Normalised>;

  constexpr LayerNorm(const MeshType& mesh, Index features,
                      double epsilon = 1e-5) requires WellFormed<Problem>
      : weight(mesh, {features}, Init::constant(1)),
        bias(mesh, {features}, Init::constant(0)),
        epsilon_(epsilon) {}

  template <IllFormed Why = Problem>
  LayerNorm(const MeshType&, Index, double = 1e-5) = delete;  // see Why

  /// x: [r…, features], and so is the result.
  template <Operand X, class Result = ResultOf<X>>
  constexpr auto operator()(const X& x) const {
    return layer_norm(redistribute_to<TakenIn<tensor_of<X>>>(x), weight, bias, epsilon_);
  }
  template <Operand X, IllFormed Why = ResultOf<X>>
  Why operator()(const X&) const;  // see Why

  constexpr void visit(auto&& f) {
    f("weight", weight);
    f("bias", bias);
  }

  detail::StyledBias<Style, Gain> weight, bias;

 private:
  double epsilon_;
};

}  // namespace shardwise
