// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// `Linear`: y = x wᵀ + b, parallel as its style says.
///
/// ```
/// Linear<Mesh, ColwiseParallel<tp>> up(mesh, 1024, 4096);
/// Linear<Mesh, RowwiseParallel<tp>> down(mesh, 4096, 1024);
/// auto y = down(gelu(up(x)));   // one all-reduce forward, one backward
/// ```

#include <shardwise/nn/module.hpp>
#include <shardwise/nn/style.hpp>
#include <shardwise/ops/matmul.hpp>

namespace shardwise {

/// The weight is [out…, in…], with `OutDims` and `InDims` dimensions, of which the first of each is the one
/// that a style shards: heads, where the features are [heads, head_dim].
template <class MeshType, ParallelStyle Style = NoParallel, class T = float, int OutDims = 1, int InDims = 1>
class Linear {
 public:
  using Weight = tensor_with<T, OutDims + InDims, MeshType, detail::WeightCodes<Style, MeshType, 0, OutDims>>;
  using Bias = tensor_with<T, OutDims, MeshType, detail::BiasCodes<Style, MeshType>>;

  /// `in` and `out` are the extents of the features: numbers, or {heads, head_dim}.
  constexpr Linear(const MeshType& mesh, const Shape<InDims>& in, const Shape<OutDims>& out)
      : weight(mesh, joined(out, in), Init::fan_in(elements(in))),
        bias(mesh, out, Init::fan_in(elements(in))) {}
  constexpr Linear(const MeshType& mesh, Index in, Index out) requires(InDims == 1 && OutDims == 1)
      : Linear(mesh, Shape<1>{in}, Shape<1>{out}) {}

  /// `x` in the layout that this layer wants; several layers of one style share its result, and so the edge
  /// that their gradients come back on.
  template <Operand X>
  constexpr auto prepare(const X& x) const {
    return redistribute_to<Prepared<X>>(x);
  }

  template <Operand X>
  using Prepared =
      detail::with_codes<tensor_of<X>, detail::InputCodes<Style, tensor_of<X>, tensor_of<X>::rank - InDims>>;

  /// x: [r…, in…]; the result is [r…, out…].
  template <Operand X, class Result = result_of<Matmul<InDims>, Prepared<X>, Weight>>
  constexpr auto operator()(const X& x) const {
    // The bias lies as the product does, so that a pending one gets it once.
    using UsedBias = detail::with_codes<Bias, BiasBeside<Result>>;
    auto y = linear<InDims>(prepare(x), weight, redistribute_to<UsedBias>(alongside(bias, x)));
    return redistribute_to<detail::with_codes<Result, detail::OutputCodes<Style, Result>>>(std::move(y));
  }
  template <Operand X, IllFormed Why = result_of<Matmul<InDims>, Prepared<X>, Weight>>
  Why operator()(const X&) const = delete;  // see Why

  constexpr void visit(auto&& f) {
    f("weight", weight);
    f("bias", bias);
  }

  Parameter<Weight> weight;
  Parameter<Bias> bias;

 private:
  template <class Product>
  struct BiasBeside {
    static constexpr int at(int axis) {
      return (Product::layout[axis].is_partial() ? partial_sum : Bias::layout[axis]).code;
    }
  };

  static constexpr Shape<OutDims + InDims> joined(const Shape<OutDims>& out, const Shape<InDims>& in) {
    Shape<OutDims + InDims> all{};
    for (std::size_t i = 0; i < out.size(); ++i) all[i] = out[i];
    for (std::size_t i = 0; i < in.size(); ++i) all[out.size() + i] = in[i];
    return all;
  }
};

}  // namespace shardwise
