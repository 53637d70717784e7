// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// `Attention`: multi-head self-attention, split by whole heads. The three projections share one input
/// edge, so that their gradients are added before they are reduced: one all-reduce forward, one backward.
///
/// ```
/// Attention<Mesh<tp>> attention(mesh, 512, 8);                                      // causal
/// Attention<Mesh<tp>> attention(mesh, 512, 8, {.causal = false, .dropout = 0.1});   // as in BERT
/// y = attention(x), y = attention(x, documents);                                    // nothing is dropped
/// y = attention(x, step), y = attention(x, documents, step);                        // in training
/// ```

#include <shardwise/layout/diagnosis.hpp>
#include <shardwise/nn/linear.hpp>
#include <shardwise/nn/project.hpp>
#include <shardwise/parallel/context_parallel.hpp>

namespace shardwise {

namespace detail {

/// The layout of the heads, [batch, sequence, heads, head_dim], that a projection with this weight and style returns.
template <class Style, TensorType Weight>
constexpr Layout heads_layout() {
  using MeshOf = typename Weight::MeshOf;
  return output_layout<Style, MeshOf>(Layout::by_axis(
      MeshOf::axes, [](int axis) { return Weight::layout[axis].is_shard(0) ? shard(2) : reduced; }));
}

/// Throws `std::invalid_argument` if a tensor with this layout leaves a rank without a head.
template <class MeshType>
constexpr void check_heads_suffice(const Layout& layout, const MeshSizes& sizes, Index heads) {
  const AxisSet sharing = layout.axes_sharding(2);
  const int ranks = group_size(sizes, layout.axes, sharing);
  if (heads >= ranks) return;
  fail({"Attention: ", heads, " heads cannot be shared by the ", ranks, " ranks of axis ",
        MeshType::AxesOf::text(sharing, " x "), ": a head is not split, so use at most ", heads, " ranks"});
}

}  // namespace detail

/// `Inner`: a style for the attention itself, such as `Ulysses<cp>`.
template <class MeshType, class T = float, ParallelStyle In = ColwiseParallel<tp>,
          ParallelStyle Out = RowwiseParallel<tp>, class Inner = NoParallel>
class Attention : public Module<Attention<MeshType, T, In, Out, Inner>> {
 public:
  using InnerProblem = detail::style_problem<MeshType, ModuleKind::inner_attention, Inner>;
  using Problem = typename detail::FirstError<
      detail::style_problem<MeshType, ModuleKind::linear, In, Out>,
      std::conditional_t<std::is_same_v<Inner, NoParallel>, void, InnerProblem>>::type;
  using Projection = Linear<MeshType, In, T, 2, 1>;

  /// `features` is a multiple of `heads`. Throws `std::invalid_argument` if it is not, if there are fewer
  /// heads than ranks to share them, or if an option is out of range. Layers that drop have different seeds.
  constexpr Attention(const MeshType& mesh, Index features, Index heads,
                      const AttentionOptions& options = {}) requires WellFormed<Problem>
      : wq(mesh, {features}, by_heads(mesh, features, heads)),
        wk(mesh, {features}, by_heads(mesh, features, heads)),
        wv(mesh, {features}, by_heads(mesh, features, heads)),
        wo(mesh, by_heads(mesh, features, heads), {features}),
        options_(options.checked()) {}

  template <IllFormed Why = Problem>
  Attention(const MeshType&, Index, Index, const AttentionOptions& = {}) = delete;  // see Why

  /// x: [batch, sequence, features], and so is the result. documents: integers [batch, sequence], see the function
  /// `attention`. In evaluation: nothing is dropped.
  constexpr auto forward(const auto& x, const Operand auto&... documents) const {
    AttentionOptions all = options_;
    all.dropout = 0;
    return attend(all, x, documents...);
  }
  /// In training: each step has its own dropout masks.
  constexpr auto forward(const auto& x, std::uint64_t step) const { return attend(of_step(step), x); }
  constexpr auto forward(const auto& x, const Operand auto& documents, std::uint64_t step) const {
    return attend(of_step(step), x, documents);
  }
  constexpr void visit(auto&& f) {
    f("wq", wq);
    f("wk", wk);
    f("wv", wv);
    f("inner_attention", inner_attention);
    f("wo", wo);
  }

  Projection wq, wk, wv;
  styled<InnerAttention, Inner> inner_attention;
  Linear<MeshType, Out, T, 1, 2> wo;

 private:
  constexpr AttentionOptions of_step(std::uint64_t step) const {
    AttentionOptions here = options_;
    here.seed = derived_seed(derived_seed(here.seed, "attention") ^ step, "step");
    return here;
  }
  constexpr auto attend(const AttentionOptions& options, const auto& x, const auto&... documents) const {
    auto [q, k, v] = project(x, wq, wk, wv);
    return wo(inner_attention(q, k, v, documents..., options));
  }
  static constexpr Shape<2> by_heads(const MeshType& mesh, Index features, Index heads) {
    if (heads < 1 || features % heads != 0)
      detail::fail({"Attention: ", features, " features are not a multiple of ", heads, " heads"});
    detail::check_heads_suffice<MeshType>(detail::heads_layout<In, typename Projection::Weight>(),
                                          mesh.sizes(), heads);
    return {heads, features / heads};
  }

  AttentionOptions options_;
};

}  // namespace shardwise
