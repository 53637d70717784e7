// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// `Llama`: the decoder of Touvron et al. ("LLaMA", 2023; "Llama 2", 2023; "The Llama 3 herd of models",
/// 2024): RMSNorm before attention and MLP, rotary embeddings, grouped-query attention, SwiGLU. A plan says
/// how it is parallel (plan.hpp).
///
/// ```
/// Llama<Mesh<dp, tp>> model(mesh, config);                              // tensor parallel over tp
/// Llama<Mesh<dp, tp>, LlamaSequenceParallel<>> model(mesh, config);     // and sequence parallel
/// auto loss = CrossEntropyLoss()(model(tape.constant(ids)), targets);
/// ```

#include <shardwise/layout/diagnosis.hpp>

#include <shardwise/models/llama/layer.hpp>
#include <shardwise/models/llama/plan.hpp>
#include <shardwise/module/sequential.hpp>
#include <shardwise/nn/embedding.hpp>
#include <shardwise/ops/narrow.hpp>
#include <shardwise/parallel/plan_problem.hpp>
#include <shardwise/train/recompute.hpp>
#include <shardwise/train/unit.hpp>

namespace shardwise {

/// What the layers of a Llama keep of the tokens so far: keys and values, sharded as the heads are.
template <TensorType Keys>
class LlamaCache {
 public:
  /// Empty, for `batch` sequences of up to `capacity` tokens.
  constexpr LlamaCache(const typename Keys::MeshOf& mesh, const LlamaConfig& config, Index batch,
                       Index capacity) {
    layers_.reserve(static_cast<std::size_t>(config.layers));
    for (Index i = 0; i < config.layers; ++i) {
      layers_.emplace_back(mesh, batch, capacity, config.kv_heads, config.head_size());
    }
  }

  constexpr Index length() const { return layers_.front().length(); }
  constexpr Index capacity() const { return layers_.front().capacity(); }
  constexpr void clear() {
    for (auto& layer : layers_) layer.clear();
  }

  /// For the model: layer by layer. Throws `std::invalid_argument` unless all of `layers` have the same tokens, as
  /// they do not if a call of the model failed half-way.
  constexpr std::vector<KeyValueCache<Keys>>& of(std::size_t layers) {
    bool even = layers == layers_.size();
    for (auto& layer : layers_) even = even && layer.length() == length();
    if (!even) {
      detail::fail({"LlamaCache: it is of a model with ", layers_.size(),
                    " layers, or a call failed half-way; clear it, or make another"});
    }
    return layers_;
  }

 private:
  std::vector<KeyValueCache<Keys>> layers_;
};

template <class MeshType, class PlanType = LlamaTensorParallel<>, class T = float>
class Llama : public Module<Llama<MeshType, PlanType, T>> {
  using Named = PlanFor<PlanType, llama_modules>;

 public:
  using Tokens = Embedding<MeshType, style_of<Named, "tokens">, T>;
  using Layer = styled<LlamaLayer<MeshType, PlanBelow<Named, "layers.*">, T>, style_of<Named, "layers.*">>;
  using Norm = RMSNorm<MeshType, style_of<Named, "norm">, T>;
  using Head = Linear<MeshType, style_of<Named, "head">, T, 1, 1, false>;

  using Problem = plan_problem<MeshType, PlanType, llama_modules>;
  /// Throws `std::invalid_argument`, on every rank, for a configuration that is no model, or whose heads do not
  /// fit on the mesh.
  constexpr Llama(const MeshType& mesh, const LlamaConfig& config) requires WellFormed<Problem>
      : tokens(mesh, config.checked().vocabulary, config.features, Init::normal(config.deviation)),
        norm(mesh, config.features, config.epsilon),
        config_(config) {
    layers.reserve(static_cast<std::size_t>(config.layers));
    for (Index i = 0; i < config.layers; ++i) layers.emplace_back(mesh, config);
    if (config.tied) {
      if constexpr (!tieable) {
        throw std::invalid_argument(
            "Llama: the plan gives \"tokens\" and \"head\" different layouts, so they "
            "cannot be tied");
      }
    } else {
      head.emplace(mesh, Shape<1>{config.features}, Shape<1>{config.vocabulary},
                   Init::normal(config.deviation));
    }
    make_units();
  }
  template <IllFormed Why = Problem>
  Llama(const MeshType&, const LlamaConfig&) = delete;  // see Why

  /// ids: integers [batch, sequence]; the result is [batch, sequence, vocabulary].
  constexpr auto forward(const auto& ids) const {
    return units_.back()(features(ids), [&](const auto& x) { return logits(norm(x)); });
  }
  /// The loss of the logits, which are never there: `criterion` is a `LinearCrossEntropyLoss`; targets: integers
  /// [batch, sequence].
  constexpr auto forward(const auto& ids, const auto& targets, const auto& criterion) const {
    return units_.back()(
        features(ids), [&](const auto& x) { return criterion(Head::take(norm(x)), head_weight(), targets); });
  }

  /// An empty cache for sequences like `ids`, of up to `capacity` tokens.
  template <TensorType Ids, class Problem = detail::call_problem<Llama, Ids>>
  constexpr auto make_cache(const Ids& ids, Index capacity) const {
    using Keys = tensor_of<decltype(layers.front().keys(embedded(Abstract<Ids, false, false>())))>;
    return LlamaCache<Keys>(ids.mesh(), config_, ids.shape()[0], capacity);
  }
  template <TensorType Ids, IllFormed Why = detail::call_problem<Llama, Ids>>
  Why make_cache(const Ids&, Index) const;  // see Why

  /// The logits of the token after `ids`, [batch, sequence], which follow those in the cache and go there:
  /// [batch, 1, vocabulary]. Throws `std::invalid_argument` if there are no ids, `std::length_error` if they do
  /// not fit into the cache.
  template <TensorType Ids, class CacheType, class Problem = detail::call_problem<Llama, Ids>>
  constexpr auto next(const Ids& ids, CacheType& cache) const {
    if (ids.shape()[1] == 0) throw std::invalid_argument("Llama: there are no tokens to go on from");
    auto& caches = cache.of(layers.size());
    auto h = repeat(embedded(ids), layers.size(), [&](const auto& x, std::size_t i) {
      return units_[i + 1](x, [&](const auto& in) { return layers[i](in, caches[i]); });
    });
    return units_.back()(
        h, [&](const auto& x) { return logits(narrow<1>(Head::take(norm(x)), ids.shape()[1] - 1, 1)); });
  }
  template <TensorType Ids, class CacheType, IllFormed Why = detail::call_problem<Llama, Ids>>
  Why next(const Ids&, CacheType&) const;  // see Why

  constexpr const LlamaConfig& config() const { return config_; }

  constexpr void visit(auto&& f) {
    f("tokens", tokens);
    f("layers", layers);
    f("norm", norm);
    if (head) f("head", *head);
  }

  Tokens tokens;
  std::vector<Layer> layers;
  Norm norm;
  std::optional<Head> head;  ///< none if it is tied to `tokens`

  /// Calls on a tape keep the input of each layer only, and compute the layer again in the backward pass.
  bool recompute_layers = false;

 private:
  static constexpr bool tieable =
      std::is_same_v<typename Tokens::TableParameter, typename Head::WeightParameter>;

  /// One for the tokens, one for each layer, one for norm and head; linked in the order of their calls.
  constexpr void make_units() {
    units_.reserve(layers.size() + 2);
    units_.emplace_back(tokens);
    for (Layer& layer : layers) units_.emplace_back(layer);
    if (head) {
      units_.emplace_back(norm, *head);
    } else {
      units_.emplace_back(norm);
      units_.back().borrow(tokens);
    }
    for (std::size_t i = 0; i + 1 < units_.size(); ++i) units_[i].link(units_[i + 1]);
  }

  constexpr auto embedded(const auto& ids) const {
    return units_.front()(ids, [&](const auto& in) { return enter(tokens(in)); });
  }
  /// What comes out of the last layer.
  constexpr auto features(const auto& ids) const {
    return repeat(embedded(ids), layers.size(), [&](const auto& x, std::size_t i) {
      return units_[i + 1](x, [&](const auto& in) {
        if (recompute_layers) return recompute(layers[i], in);
        return layers[i](in);
      });
    });
  }
  constexpr const auto& head_weight() const {
    if constexpr (tieable) {
      return head ? head->weight : tokens.table;
    } else {
      return head->weight;
    }
  }
  constexpr auto logits(const auto& x) const { return Head::multiply(x, head_weight()); }

  LlamaConfig config_;
  std::vector<Unit> units_;
};

}  // namespace shardwise
