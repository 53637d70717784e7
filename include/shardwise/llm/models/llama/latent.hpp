// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Multi-head latent attention (DeepSeek-AI, "DeepSeek-V2", 2024): queries, keys and values are projected from latents,
/// which are short. Each rank computes the latents of the tokens that it has after the norm before attention, so their
/// projections and norms are whole, and their style follows from that norm's. All latents are then redistributed
/// together, instead of the features.

#include <shardwise/layout/diagnosis.hpp>
#include <shardwise/llm/models/llama/config.hpp>
#include <shardwise/llm/namespaces.hpp>
#include <shardwise/nn/linear.hpp>
#include <shardwise/nn/rms_norm.hpp>
#include <shardwise/ops/cat.hpp>
#include <shardwise/ops/cat_shared.hpp>
#include <shardwise/ops/narrow.hpp>

namespace shardwise::llm {

namespace detail {

/// `SequenceParallel` for a linear layer: each rank projects its own tokens.
template <class Style>
struct OfOwnTokens : Style {
  static constexpr bool suits(ModuleKind kind) { return kind == ModuleKind::linear; }
};
/// The style of a projection to latents after a norm with the style `S`.
template <class S>
struct LatentStyle : TypeIs<S> {};
template <class Axes, int Dim, class... Options>
struct LatentStyle<SequenceParallel<Axes, Dim, Options...>>
    : TypeIs<OfOwnTokens<SequenceParallel<Axes, Dim, Options...>>> {};
template <class... Parts>
struct LatentStyle<Styles<Parts...>> : TypeIs<Styles<typename LatentStyle<Parts>::type...>> {};

}  // namespace detail

/// The projections to latents, after a norm with the style `NormStyle`.
template <class MeshType, class NormStyle, class T = float>
class LatentProjections {
 public:
  using Projection = Linear<MeshType, typename detail::LatentStyle<NormStyle>::type, T, 1, 1, false>;
  using Norm = RMSNorm<MeshType, NormStyle, T>;

  /// `config.latent` must have a value.
  constexpr LatentProjections(const MeshType& mesh, const LlamaConfig& config)
      : kv_a(mesh, {config.features}, {config.latent->kv_rank + config.latent->rope_dim},
             Init::normal(config.deviation)),
        kv_a_norm(mesh, config.latent->kv_rank, epsilon),
        sizes_(*config.latent),
        key_dim_(config.head_size() - sizes_.rope_dim) {
    if (sizes_.q_rank == 0) return;
    q_a.emplace(mesh, Shape<1>{config.features}, Shape<1>{sizes_.q_rank}, Init::normal(config.deviation));
    q_a_norm.emplace(mesh, sizes_.q_rank, epsilon);
  }

  /// Queries, keys and values of x, [batch, sequence, features], before rotary embeddings. `wq` projects the latents
  /// of queries, or x, and `wkv` those of keys and values. Nothing if the layouts of the two do not fit together.
  constexpr auto heads(const auto& x, const auto& wq, const auto& wkv) const {
    const auto kv = kv_a(x);
    const auto short_kv = kv_a_norm(narrow<2>(kv, 0, sizes_.kv_rank));
    const auto shared = narrow<2>(kv, sizes_.kv_rank, sizes_.rope_dim);
    const auto latents = wkv.take([&] {
      if (q_a) return cat<2>(short_kv, shared, (*q_a_norm)((*q_a)(x)));
      return cat<2>(short_kv, shared);
    }());
    const auto q = wq([&] {
      if (q_a) return narrow<2>(latents, sizes_.kv_rank + sizes_.rope_dim, sizes_.q_rank);
      return wq.take(x);
    }());
    const auto both = wkv(narrow<2>(latents, 0, sizes_.kv_rank));
    const auto own = narrow<3>(both, 0, key_dim_);
    const auto common = narrow<2>(latents, sizes_.kv_rank, sizes_.rope_dim);
    if constexpr (WellFormed<result_of<CatSharedOp, decltype(own), decltype(common)>>)
      return std::make_tuple(q, cat_shared(own, common), narrow<3>(both, key_dim_, sizes_.value_dim));
  }
  constexpr void visit(auto&& f) {
    if (q_a) f("q_a", *q_a);
    if (q_a_norm) f("q_a_norm", *q_a_norm);
    f("kv_a", kv_a);
    f("kv_a_norm", kv_a_norm);
  }

  std::optional<Projection> q_a;  ///< empty if queries are projected from features
  std::optional<Norm> q_a_norm;
  Projection kv_a;
  Norm kv_a_norm;

 private:
  static constexpr double epsilon = 1e-6;  // as in transformers, whatever rms_norm_eps is

  LatentSizes sizes_;
  Index key_dim_;  ///< of a head, without the rotary part
};

}  // namespace shardwise::llm
