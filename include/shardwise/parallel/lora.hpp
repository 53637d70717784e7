// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// A style for a `Linear` that is given, and adapted by two small weights that are trained in its place (Hu et al., "LoRA", 2021):
/// y = x wᵀ + alpha / rank · x Aᵀ Bᵀ. All that the layer has besides is frozen.
///
/// ```
/// Linear<Mesh<dp, tp>, Styles<Lora<ColwiseParallel<tp>, 8>, Zero<1, dp>>> up(mesh, 1024, 4096);
/// using MyPlan = Plan<Use<"layers.*.attention.wq", Lora<ColwiseParallel<tp>, 8, 16>>, …>;
/// ```
/// A [rank, in] is cut where the weight's input features are, B [out, rank] where its output features are. What is pending
/// of the layer's own product is so of the adapter's: they are added, and then reduced, once. Both read one input.

#include <shardwise/parallel/plan.hpp>

namespace shardwise {

/// What `Lora` puts beside a style.
template <int Rank, int Alpha = Rank>
struct LowRank {
  static constexpr int rank = Rank, alpha = Alpha;
  static constexpr bool suits(ModuleKind kind) { return kind == ModuleKind::linear; }
};

template <class Style, int Rank, int Alpha = Rank>
using Lora = typename detail::StyleAnd<Style, LowRank<Rank, Alpha>>::type;

namespace detail {

template <int Rank, int Alpha>
inline constexpr bool freezes<LowRank<Rank, Alpha>> = true;

/// The `LowRank` in a style, or `void`.
template <class Style>
struct LowRankIn {
  using type = void;
};
template <int Rank, int Alpha>
struct LowRankIn<LowRank<Rank, Alpha>> {
  using type = LowRank<Rank, Alpha>;
};
template <class First, class... Rest>
struct LowRankIn<Styles<First, Rest...>> {
  using Here = typename LowRankIn<First>::type;
  using There = typename LowRankIn<Styles<Rest...>>::type;
  using type = std::conditional_t<std::is_void_v<Here>, There, Here>;
};

}  // namespace detail

}  // namespace shardwise
