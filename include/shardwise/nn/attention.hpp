// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// `Attention`: causal multi-head self-attention, split by whole heads. The three projections share one input
/// edge, so that their gradients are added before they are reduced: one all-reduce forward, one backward.

#include <shardwise/layout/diagnosis.hpp>
#include <shardwise/nn/linear.hpp>
#include <shardwise/nn/project.hpp>
#include <shardwise/ops/attention.hpp>

namespace shardwise {

namespace detail {

/// Throws `std::invalid_argument` unless every rank that shares the heads, dimension 0 of the weight, has one.
template <TensorType Weight>
constexpr void check_heads_suffice(const MeshSizes& sizes, Index heads) {
  const AxisSet sharing = Weight::layout.axes_sharding(0);
  const int ranks = group_size(sizes, Weight::layout.axes, sharing);
  if (heads >= ranks) return;
  fail({"Attention: ", heads, " heads cannot be shared by the ", ranks, " ranks of axis ",
        Weight::MeshOf::AxesOf::text(sharing, " x "), ": a head is not split, so use at most ", heads,
        " ranks"});
}

}  // namespace detail

template <class MeshType, class T = float, ParallelStyle In = ColwiseParallel<tp>,
          ParallelStyle Out = RowwiseParallel<tp>>
class Attention : public Module<Attention<MeshType, T, In, Out>> {
 public:
  using Problem = detail::style_problem<MeshType, ModuleKind::linear, In, Out>;
  using Projection = Linear<MeshType, In, T, 2, 1>;

  /// `features` is a multiple of `heads`. Throws `std::invalid_argument` if it is not, or if there are fewer
  /// heads than ranks to share them.
  constexpr Attention(const MeshType& mesh, Index features, Index heads) requires WellFormed<Problem>
      : wq(mesh, {features}, by_heads(mesh, features, heads)),
        wk(mesh, {features}, by_heads(mesh, features, heads)),
        wv(mesh, {features}, by_heads(mesh, features, heads)),
        wo(mesh, by_heads(mesh, features, heads), {features}) {}

  template <IllFormed Why = Problem>
  Attention(const MeshType&, Index, Index) = delete;  // see Why

  /// x: [batch, sequence, features], and so is the result.
  constexpr auto forward(const auto& x) const {
    auto [q, k, v] = project(x, wq, wk, wv);
    return wo(attention(q, k, v));
  }
  constexpr void visit(auto&& f) {
    f("wq", wq);
    f("wk", wk);
    f("wv", wv);
    f("wo", wo);
  }

  Projection wq, wk, wv;
  Linear<MeshType, Out, T, 1, 2> wo;

 private:
  static constexpr Shape<2> by_heads(const MeshType& mesh, Index features, Index heads) {
    if (heads < 1 || features % heads != 0) {
      detail::fail({"Attention: ", features, " features are not a multiple of ", heads, " heads"});
    }
    detail::check_heads_suffice<typename Projection::Weight>(mesh.sizes(), heads);
    return {heads, features / heads};
  }
};

}  // namespace shardwise
