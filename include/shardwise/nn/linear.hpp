// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// `Linear`: y = x wᵀ + b, parallel as its style says.
///
/// ```
/// Linear<Mesh, ColwiseParallel<tp>> up(mesh, 1024, 4096);
/// Linear<Mesh, RowwiseParallel<tp>> down(mesh, 4096, 1024);
/// auto y = down(gelu(up(x)));               // one all-reduce forward, one backward
/// auto [q, k, v] = project(x, wq, wk, wv);  // x is redistributed once, and so is its gradient
/// ```

#include <shardwise/layout/diagnosis.hpp>
#include <shardwise/module/module.hpp>
#include <shardwise/ops/matmul.hpp>
#include <shardwise/parallel/styled.hpp>

namespace shardwise {

/// The weight is [out…, in…], with `OutDims` and `InDims` dimensions, of which the first of each is the one
/// that a style shards: heads, where the features are [heads, head_dim]. Without `HasBias` there is no b.
template <class MeshType, ParallelStyle Style = NoParallel, class T = float, int OutDims = 1, int InDims = 1,
          bool HasBias = true>
class Linear {
  struct NoBias {
    constexpr NoBias(const MeshType&, const Shape<OutDims>&, Init) {}
  };

 public:
  using Weight =
      tensor_with<T, OutDims + InDims, MeshType, packed(detail::weight_layout<Style, MeshType>(0, OutDims))>;
  using Bias = tensor_with<T, OutDims, MeshType, packed(detail::bias_layout<Style, MeshType>())>;
  using WeightParameter = detail::StyledWeight<Style, Weight, OutDims>;
  using BiasParameter = detail::StyledBias<Style, Bias>;

  template <class X>
  using PreparedTensor =
      relaid<X, packed(detail::input_layout<Style, MeshType>(X::layout, X::rank - InDims))>;
  template <class X>
  using ProductOfTensor = result_of<MatmulOp<InDims>, PreparedTensor<X>, Weight>;
  template <class Y>
  using GivenOut = detail::given_out<Style, Y>;

  /// The product with an input `X`, and what a call gives: a tensor type or a `LayoutError`.
  template <class X>
  using Product = detail::through<X, ProductOfTensor>;
  template <class X>
  using ResultOf = detail::through<X, ProductOfTensor, GivenOut>;

  using Problem = detail::style_problem<MeshType, ModuleKind::linear, Style>;

  /// `in` and `out` are the extents of the features: numbers, or {heads, head_dim}. Parameters begin as
  /// PyTorch's do, or as `init` says.
  constexpr Linear(const MeshType& mesh, const Shape<InDims>& in, const Shape<OutDims>& out,
                   Init init) requires WellFormed<Problem> : weight(mesh, joined(out, in), init),
                                                             bias(mesh, out, init) {}
  constexpr Linear(const MeshType& mesh, const Shape<InDims>& in,
                   const Shape<OutDims>& out) requires WellFormed<Problem>
      : Linear(mesh, in, out, Init::fan_in(elements(in))) {}
  constexpr Linear(const MeshType& mesh, Index in,
                   Index out) requires(InDims == 1 && OutDims == 1 && WellFormed<Problem>)
      : Linear(mesh, Shape<1>{in}, Shape<1>{out}) {}
  template <IllFormed Why = Problem>
  Linear(const MeshType&, const auto&, const auto&, Init = {}) = delete;  // see Why

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
    if constexpr (HasBias) {
      // The bias lies as the product does, so that a pending one gets it once.
      using UsedBias = relaid<Bias, packed(bias_beside(Product<X>::layout))>;
      auto y = linear<InDims>(prepare(x), weight, redistribute_to<UsedBias>(alongside(bias, x)));
      return redistribute_to<Result>(std::move(y));
    } else {
      return multiply(x, weight);
    }
  }
  template <Operand X, IllFormed Why = ResultOf<X>>
  Why operator()(const X&) const;  // see Why

  /// What a layer of this type without bias gives, if its weight is `other`: a table that is also a head.
  template <Operand X, class Result = ResultOf<X>>
  static constexpr auto multiply(const X& x, const WeightParameter& other) {
    auto y = matmul<InDims>(redistribute_to<PreparedTensor<tensor_of<X>>>(x), other);
    return redistribute_to<Result>(std::move(y));
  }

  constexpr void visit(auto&& f) {
    f("weight", weight);
    if constexpr (HasBias) f("bias", bias);
  }

  WeightParameter weight;
  [[no_unique_address]] std::conditional_t<HasBias, BiasParameter, NoBias> bias;

 private:
  static constexpr Layout bias_beside(const Layout& product) {
    return Layout::by_axis(product.axes, [&](int axis) {
      return product[axis].is_partial() ? partial_sum : Bias::layout[axis];
    });
  }

  static constexpr Shape<OutDims + InDims> joined(const Shape<OutDims>& out, const Shape<InDims>& in) {
    Shape<OutDims + InDims> all{};
    for (int i = 0; i < out.size(); ++i) all[i] = out[i];
    for (int i = 0; i < in.size(); ++i) all[out.size() + i] = in[i];
    return all;
  }
};

namespace detail {

/// The layout that all the layers want `X` in, or the `LayoutError` that says that they differ.
template <class X, class First, class... Rest>
struct SharedInput {
  using type = LayoutError<
      Reason::layers_want_the_input_in_different_layouts,
      Got<typename First::template PreparedTensor<X>, typename Rest::template PreparedTensor<X>...>,
      Cure<Hint::call_them_one_by_one>>;
};
template <class X, class First, class... Rest>
  requires(std::is_same_v<typename First::template PreparedTensor<X>,
                          typename Rest::template PreparedTensor<X>>&&...)  //
struct SharedInput<X, First, Rest...> {
  using type = typename First::template PreparedTensor<X>;
};
template <class... Layers>
struct SharedBy {
  template <class X>
  using Input = typename SharedInput<X, Layers...>::type;
};
template <class X, class... Layers>
using project_result = typename AllWellFormed<through<X, SharedBy<Layers...>::template Input>,
                                              typename Layers::template ResultOf<X>...>::type;

}  // namespace detail

/// `x` through several layers that want it in one layout, as a tuple: it is redistributed once, and their
/// gradients are added before they are reduced.
template <Operand X, class... Layers, class Result = detail::project_result<X, Layers...>>
constexpr auto project(const X& x, const Layers&... layers) {
  auto shared = std::get<0>(std::tie(layers...)).prepare(x);
  return std::make_tuple(layers(shared)...);
}
template <Operand X, class... Layers, IllFormed Why = detail::project_result<X, Layers...>>
Why project(const X&, const Layers&...);  // see Why

}  // namespace shardwise
