// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// `LayerNorm` over the last dimension, with a gain and a shift per feature. Every rank does all of it,
/// except on data axes, where its parameters are `Reduced` and their gradients pending.

#include <shardwise/nn/module.hpp>
#include <shardwise/nn/style.hpp>
#include <shardwise/ops/layer_norm.hpp>

namespace shardwise {

template <class MeshType, class T = float>
class LayerNorm {
 public:
  using Gain = tensor_with<T, 1, MeshType, detail::BiasCodes<NoParallel, MeshType>>;

  constexpr LayerNorm(const MeshType& mesh, Index features, double epsilon = 1e-5)
      : weight(mesh, {features}, Init::constant(1)),
        bias(mesh, {features}, Init::constant(0)),
        epsilon_(epsilon) {}

  template <Operand X>
  constexpr auto operator()(const X& x) const {
    return layer_norm(enter(x), weight, bias, epsilon_);
  }

  constexpr void visit(auto&& f) {
    f("weight", weight);
    f("bias", bias);
  }

  Parameter<Gain> weight, bias;

 private:
  double epsilon_;
};

}  // namespace shardwise
