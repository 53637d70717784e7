// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// LoRA (Hu et al., 2021): a style that freezes a `Linear` and trains two small weights beside it: y = x wᵀ + alpha
/// / rank · x Aᵀ Bᵀ. All other parameters of the layer are frozen.
///
/// ```
/// Linear<Mesh<dp, tp>, Styles<Lora<ColwiseParallel<tp>, 8>, Zero<1, dp>>> up(mesh, 1024, 4096);
/// using MyPlan = Plan<Use<"layers.*.attention.wq", Lora<ColwiseParallel<tp>, 8, 16>>, …>;
/// ```
/// A [rank, in] is sharded like the weight's input features, B [out, rank] like its output features. If the layer's
/// product is a pending sum, so is the adapter's; they are added locally and reduced once. Both read the same input.

#include <shardwise/parallel/plan.hpp>

namespace shardwise {

/// The part of the style `Lora` that adds an adapter.
template <int Rank, int Alpha = Rank>
struct LowRank {
  static constexpr int rank = Rank, alpha = Alpha;
  static constexpr bool suits(ModuleKind kind) { return kind == ModuleKind::linear; }
};

/// The rank and alpha of an adapter instead of those of its style, which it has if both are 0.
struct LoraSize {
  int rank = 0, alpha = 0;
};

template <class Style, int Rank, int Alpha = Rank>
using Lora = typename detail::StyleAnd<Style, LowRank<Rank, Alpha>>::type;

namespace detail {

template <int Rank, int Alpha>
inline constexpr bool freezes<LowRank<Rank, Alpha>> = true;

template <class Style>
struct LowRankIn : TypeIs<void> {};
template <int Rank, int Alpha>
struct LowRankIn<LowRank<Rank, Alpha>> : TypeIs<LowRank<Rank, Alpha>> {};
template <class First, class... Rest>
struct LowRankIn<Styles<First, Rest...>> {
  using Here = typename LowRankIn<First>::type;
  using There = typename LowRankIn<Styles<Rest...>>::type;
  using type = std::conditional_t<std::is_void_v<Here>, There, Here>;
};

}  // namespace detail

}  // namespace shardwise
