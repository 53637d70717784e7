// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// `LayerNorm` over the last dimension, with a gain and a shift per feature. Every rank does all of it,
/// except on data axes, where its parameters are `Reduced` and their gradients pending.

#include <shardwise/layout/diagnosis.hpp>
#include <shardwise/nn/module.hpp>
#include <shardwise/nn/style.hpp>
#include <shardwise/ops/layer_norm.hpp>

namespace shardwise {

template <class MeshType, class T = float>
class LayerNorm {
 public:
  using Gain = tensor_with<T, 1, MeshType, detail::BiasCodes<NoParallel, MeshType>>;

  template <class X>
  using Normalised = result_of<LayerNormOp, detail::entered<X>, Gain, Gain>;
  /// What a call with an `X` gives, or the `LayoutError` that says why none.
  template <class X>
  using ResultOf = detail::through<X, Normalised>;

  constexpr LayerNorm(const MeshType& mesh, Index features, double epsilon = 1e-5)
      : weight(mesh, {features}, Init::constant(1)),
        bias(mesh, {features}, Init::constant(0)),
        epsilon_(epsilon) {}

  template <Operand X, class Result = ResultOf<X>>
  constexpr auto operator()(const X& x) const {
    return layer_norm(enter(x), weight, bias, epsilon_);
  }
  template <Operand X, IllFormed Why = ResultOf<X>>
  Why operator()(const X&) const;  // see Why

  constexpr void visit(auto&& f) {
    f("weight", weight);
    f("bias", bias);
  }

  Parameter<Gain> weight, bias;

 private:
  double epsilon_;
};

}  // namespace shardwise
