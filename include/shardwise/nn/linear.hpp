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

#include <shardwise/layout/diagnosis.hpp>
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

  template <class X>
  using PreparedTensor = detail::with_codes<X, detail::InputCodes<Style, X, X::rank - InDims>>;
  template <class X>
  using ProductOfTensor = result_of<Matmul<InDims>, PreparedTensor<X>, Weight>;
  template <class Y>
  using GivenOut = detail::given_out<Style, Y>;

  /// The product with an input `X`, and what a call gives: a tensor type or a `LayoutError`.
  template <class X>
  using Product = detail::through<X, ProductOfTensor>;
  template <class X>
  using ResultOf = detail::through<X, ProductOfTensor, GivenOut>;

  using Problem = detail::style_problem<MeshType, Style>;

  /// `in` and `out` are the extents of the features: numbers, or {heads, head_dim}.
  constexpr Linear(const MeshType& mesh, const Shape<InDims>& in,
                   const Shape<OutDims>& out) requires WellFormed<Problem>
      : weight(mesh, joined(out, in), Init::fan_in(elements(in))),
        bias(mesh, out, Init::fan_in(elements(in))) {}
  constexpr Linear(const MeshType& mesh, Index in,
                   Index out) requires(InDims == 1 && OutDims == 1 && WellFormed<Problem>)
      : Linear(mesh, Shape<1>{in}, Shape<1>{out}) {}
  template <IllFormed Why = Problem>
  Linear(const MeshType&, const auto&, const auto&) = delete;  // see Why

  /// `x` in the layout that this layer wants; several layers of one style share its result, and so the edge
  /// that their gradients come back on.
  template <Operand X, class Result = Product<X>>
  constexpr auto prepare(const X& x) const {
    return redistribute_to<PreparedTensor<tensor_of<X>>>(x);
  }
  template <Operand X, IllFormed Why = Product<X>>
  Why prepare(const X&) const;  // see Why

  /// x: [r…, in…]; the result is [r…, out…].
  template <Operand X, class Result = ResultOf<X>>
  constexpr auto operator()(const X& x) const {
    // The bias lies as the product does, so that a pending one gets it once.
    using UsedBias = detail::with_codes<Bias, BiasBeside<Product<X>>>;
    auto y = linear<InDims>(prepare(x), weight, redistribute_to<UsedBias>(alongside(bias, x)));
    return redistribute_to<Result>(std::move(y));
  }
  template <Operand X, IllFormed Why = ResultOf<X>>
  Why operator()(const X&) const;  // see Why

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
