// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// `RMSNorm` over the last dimension (Zhang and Sennrich, "Root mean square layer normalization", 2019), with
/// a gain per feature. Styles are `LayerNorm`'s.

#include <shardwise/layout/diagnosis.hpp>
#include <shardwise/module/module.hpp>
#include <shardwise/ops/rms_norm.hpp>
#include <shardwise/parallel/styled.hpp>

namespace shardwise {

template <class MeshType, ParallelStyle Style = NoParallel, class T = float>
class RMSNorm {
 public:
  using Gain = tensor_with<T, 1, MeshType, packed(detail::bias_layout<Style, MeshType>())>;

  using Problem = detail::style_problem<MeshType, ModuleKind::norm, Style>;
  template <class X>
  using TakenIn = detail::taken_in<Style, X, 0>;
  template <class X>
  using Normalised = result_of<RmsNormOp, X, Gain>;
  /// What a call with an `X` gives, or the `LayoutError` that says why none.
  template <class X>
  using ResultOf = detail::through<X, TakenIn, Normalised>;

  constexpr RMSNorm(const MeshType& mesh, Index features, double epsilon = 1e-5) requires WellFormed<Problem>
      : weight(mesh, {features}, Init::constant(1)), epsilon_(epsilon) {}

  template <IllFormed Why = Problem>
  RMSNorm(const MeshType&, Index, double = 1e-5) = delete;  // see Why

  /// x: [r…, features], and so is the result.
  template <Operand X, class Result = ResultOf<X>>
  constexpr auto operator()(const X& x) const {
    return rms_norm(redistribute_to<TakenIn<tensor_of<X>>>(x), weight, epsilon_);
  }
  template <Operand X, IllFormed Why = ResultOf<X>>
  Why operator()(const X&) const;  // see Why

  constexpr void visit(auto&& f) { f("weight", weight); }

  detail::StyledBias<Style, Gain> weight;

 private:
  double epsilon_;
};

}  // namespace shardwise
