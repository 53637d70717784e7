// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// `Llama`: the decoder of Touvron et al. ("LLaMA", 2023; "Llama 2", 2023; "The Llama 3 herd of models",
/// 2024): RMSNorm before attention and MLP, rotary embeddings, grouped-query attention, SwiGLU. A plan says
/// how it is parallel (llama_plan.hpp).
///
/// ```
/// Llama<Mesh<dp, tp>> model(mesh, config);                              // tensor parallel over tp
/// Llama<Mesh<dp, tp>, LlamaSequenceParallel<>> model(mesh, config);     // and sequence parallel
/// auto loss = CrossEntropyLoss()(model(tape.constant(ids)), targets);
/// ```

#include <optional>
#include <vector>

#include <shardwise/layout/diagnosis.hpp>
#include <shardwise/nn/attention.hpp>
#include <shardwise/nn/embedding.hpp>
#include <shardwise/nn/llama_plan.hpp>
#include <shardwise/nn/residual.hpp>
#include <shardwise/nn/rms_norm.hpp>
#include <shardwise/ops/key_value_cache.hpp>
#include <shardwise/ops/narrow.hpp>
#include <shardwise/ops/rope.hpp>
#include <shardwise/ops/swiglu.hpp>

namespace shardwise {

struct LlamaConfig {
  Index vocabulary = 32000;
  Index features = 4096;
  Index layers = 32;
  Index heads = 32;
  Index kv_heads = 32;   ///< divides `heads`
  Index head_dim = 0;    ///< 0: features / heads
  Index hidden = 11008;  ///< of the MLPs
  Index context = 2048;  ///< tokens that a prediction may look back on; the model itself has no limit
  double epsilon = 1e-5;
  double theta = 10000;  ///< base of the rotary embeddings' wavelengths
  std::optional<RopeScaling> scaling{};
  bool tied = false;        ///< the head's weight is the embedding's table
  double deviation = 0.02;  ///< of the first weights

  constexpr Index head_size() const { return head_dim > 0 ? head_dim : features / heads; }

  /// Returns itself. Throws `std::invalid_argument` for what cannot be a model.
  constexpr const LlamaConfig& checked() const {
    struct Size {
      const char* name;
      Index value, least;
    };
    for (const Size& size :
         {Size{"vocabulary", vocabulary, 1}, Size{"features", features, 1}, Size{"layers", layers, 0},
          Size{"heads", heads, 1}, Size{"kv_heads", kv_heads, 1}, Size{"head_dim", head_dim, 0},
          Size{"hidden", hidden, 1}, Size{"context", context, 1}}) {
      if (size.value < size.least) {
        throw std::invalid_argument("LlamaConfig: " + std::string(size.name) + " is " +
                                    std::to_string(size.value) + ", which must be " +
                                    std::to_string(size.least) + " or more");
      }
    }
    if (head_dim == 0 && features % heads != 0) {
      throw std::invalid_argument("LlamaConfig: " + std::to_string(features) +
                                  " features are not a multiple of " + std::to_string(heads) + " heads");
    }
    if (heads % kv_heads != 0) {
      throw std::invalid_argument("LlamaConfig: " + std::to_string(heads) + " heads are not a multiple of " +
                                  std::to_string(kv_heads) + " key/value heads");
    }
    if (head_size() % 2 != 0) {
      throw std::invalid_argument("LlamaConfig: rotary embeddings need an even head_dim, not " +
                                  std::to_string(head_size()));
    }
    return *this;
  }
};

template <class MeshType, class PlanType, class T = float>
class LlamaAttention {
 public:
  template <FixedString Name>
  using Projection = Linear<MeshType, style_of<PlanType, Name>, T, 2, 1, false>;
  using Output = Linear<MeshType, style_of<PlanType, "wo">, T, 1, 2, false>;

  template <class X>
  using Rotated = result_of<RopeOp, X>;
  template <class X>
  using Queries = detail::through<X, Projection<"wq">::template ResultOf, Rotated>;
  template <class X>
  using Keys = detail::through<X, Projection<"wk">::template ResultOf, Rotated>;
  template <class X>
  using Values = detail::through<X, Projection<"wv">::template ResultOf>;
  template <class X>
  using Heads = detail::result_after<AttentionOp, Queries<X>, Keys<X>, Values<X>>;
  /// What a call with an `X` gives, or the `LayoutError` that says why none.
  template <class X>
  using ResultOf = detail::through<X, Heads, Output::template ResultOf>;

  constexpr LlamaAttention(const MeshType& mesh, const LlamaConfig& config)
      : wq(mesh, {config.features}, {config.heads, config.head_size()}, Init::normal(config.deviation)),
        wk(mesh, {config.features}, {config.kv_heads, config.head_size()}, Init::normal(config.deviation)),
        wv(mesh, {config.features}, {config.kv_heads, config.head_size()}, Init::normal(config.deviation)),
        wo(mesh, {config.heads, config.head_size()}, {config.features}, Init::normal(config.deviation)),
        rope_{.theta = config.theta, .scaling = config.scaling} {
    detail::check_heads_suffice<typename Projection<"wq">::Weight>(mesh.sizes(), config.heads);
  }

  /// x: [batch, sequence, features], and so is the result.
  template <Operand X, class Result = ResultOf<X>>
  constexpr auto operator()(const X& x) const {
    auto [q, k, v] = project(x, wq, wk, wv);
    return wo(attention(rope(q, rope_), rope(k, rope_), v));
  }
  template <Operand X, IllFormed Why = ResultOf<X>>
  Why operator()(const X&) const;  // see Why

  /// The same for tokens that follow those in the cache, which takes their keys and values.
  template <TensorType X, class Result = ResultOf<X>>
  constexpr Result operator()(const X& x, KeyValueCache<Keys<X>>& cache) const {
    auto [q, k, v] = project(x, wq, wk, wv);
    RopeOptions here = rope_;
    here.first_position = cache.length();
    cache.append(rope(k, here), v);
    return wo(attention(rope(q, here), cache));
  }

  constexpr void visit(auto&& f) {
    f("wq", wq);
    f("wk", wk);
    f("wv", wv);
    f("wo", wo);
  }

  Projection<"wq"> wq;
  Projection<"wk"> wk;
  Projection<"wv"> wv;
  Output wo;

 private:
  RopeOptions rope_;
};

/// down(silu(gate(x)) · up(x)).
template <class MeshType, class PlanType, class T = float>
class LlamaMlp {
 public:
  template <FixedString Name>
  using Layer = Linear<MeshType, style_of<PlanType, Name>, T, 1, 1, false>;

  template <class X>
  using Hidden = detail::result_after<SwigluOp, typename Layer<"gate">::template ResultOf<X>,
                                      typename Layer<"up">::template ResultOf<X>>;
  /// What a call with an `X` gives, or the `LayoutError` that says why none.
  template <class X>
  using ResultOf = detail::through<X, Hidden, Layer<"down">::template ResultOf>;

  constexpr LlamaMlp(const MeshType& mesh, const LlamaConfig& config)
      : gate(mesh, {config.features}, {config.hidden}, Init::normal(config.deviation)),
        up(mesh, {config.features}, {config.hidden}, Init::normal(config.deviation)),
        down(mesh, {config.hidden}, {config.features}, Init::normal(config.deviation)) {}

  /// x: [r…, features], and so is the result.
  template <Operand X, class Result = ResultOf<X>>
  constexpr auto operator()(const X& x) const {
    auto [g, u] = project(x, gate, up);
    return down(swiglu(g, u));
  }
  template <Operand X, IllFormed Why = ResultOf<X>>
  Why operator()(const X&) const;  // see Why

  constexpr void visit(auto&& f) {
    f("gate", gate);
    f("up", up);
    f("down", down);
  }

  Layer<"gate"> gate;
  Layer<"up"> up;
  Layer<"down"> down;
};

template <class MeshType, class PlanType, class T = float>
class LlamaLayer {
 public:
  template <FixedString Name>
  using Norm = RMSNorm<MeshType, style_of<PlanType, Name>, T>;
  using Attention =
      styled<LlamaAttention<MeshType, PlanBelow<PlanType, "attention">, T>, style_of<PlanType, "attention">>;
  using Mlp = styled<LlamaMlp<MeshType, PlanBelow<PlanType, "mlp">, T>, style_of<PlanType, "mlp">>;

  template <class X>
  using Attended = typename detail::Residual<
      X, detail::through<X, Norm<"attention_norm">::template ResultOf, Attention::template ResultOf>>::type;
  template <class H>
  using Finished = typename detail::Residual<
      H, detail::through<H, Norm<"mlp_norm">::template ResultOf, Mlp::template ResultOf>>::type;
  /// What a call with an `X` gives, or the `LayoutError` that says why none.
  template <class X>
  using ResultOf = detail::through<X, Attended, Finished>;
  template <class X>
  using Keys = detail::through<X, Norm<"attention_norm">::template ResultOf, Attention::template Keys>;

  constexpr LlamaLayer(const MeshType& mesh, const LlamaConfig& config)
      : attention_norm(mesh, config.features, config.epsilon),
        attention(mesh, config),
        mlp_norm(mesh, config.features, config.epsilon),
        mlp(mesh, config) {}

  /// x: [batch, sequence, features], and so is the result. With a cache, x are the tokens that follow those
  /// in it.
  template <Operand X, class... Cache, class Result = ResultOf<X>>
  constexpr auto operator()(const X& x, Cache&... cache) const {
    auto h = add(x, attention(attention_norm(x), cache...));
    return add(h, mlp(mlp_norm(h)));
  }
  template <Operand X, class... Cache, IllFormed Why = ResultOf<X>>
  Why operator()(const X&, Cache&...) const;  // see Why

  constexpr void visit(auto&& f) {
    f("attention_norm", attention_norm);
    f("attention", attention);
    f("mlp_norm", mlp_norm);
    f("mlp", mlp);
  }

  Norm<"attention_norm"> attention_norm;
  Attention attention;
  Norm<"mlp_norm"> mlp_norm;
  Mlp mlp;
};

template <class MeshType, class PlanType = LlamaTensorParallel<>, class T = float>
class Llama {
 public:
  using Tokens = Embedding<MeshType, style_of<PlanType, "tokens">, T>;
  using Layer =
      styled<LlamaLayer<MeshType, PlanBelow<PlanType, "layers.*">, T>, style_of<PlanType, "layers.*">>;
  using Norm = RMSNorm<MeshType, style_of<PlanType, "norm">, T>;
  using Head = Linear<MeshType, style_of<PlanType, "head">, T, 1, 1, false>;

  using Problem = plan_problem<MeshType, PlanType, llama_modules>;
  /// What the layers give for `Ids`.
  template <class Ids>
  using Embedded = detail::through<Ids, Tokens::template ResultOf, detail::entered>;
  template <class Ids>
  using Hidden = detail::through<Ids, Embedded, Layer::template ResultOf, Norm::template ResultOf>;
  /// What a call with `Ids` gives, or the `LayoutError` that says why none.
  template <class Ids>
  using ResultOf = detail::through<Ids, Hidden, Head::template ResultOf>;

  /// Throws `std::invalid_argument` for a configuration that is no model, or does not fit on the mesh.
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
  }
  template <IllFormed Why = Problem>
  Llama(const MeshType&, const LlamaConfig&) = delete;  // see Why

  /// ids: integers [batch, sequence]; the result is [batch, sequence, vocabulary].
  template <Operand Ids, class Result = ResultOf<Ids>>
  constexpr auto operator()(const Ids& ids) const {
    auto x = enter(tokens(ids));
    for (const auto& layer : layers) x = layer(x);
    return logits(norm(x));
  }
  template <Operand Ids, IllFormed Why = ResultOf<Ids>>
  Why operator()(const Ids&) const;  // see Why

  /// What the layers keep of the tokens so far: keys and values, sharded as the heads are.
  template <TensorType Ids>
  using Cache = std::vector<KeyValueCache<typename Layer::template Keys<Embedded<Ids>>>>;
  /// An empty cache for sequences like `ids`, of up to `capacity` tokens.
  template <TensorType Ids, class Result = ResultOf<Ids>>
  constexpr Cache<Ids> make_cache(const Ids& ids, Index capacity) const {
    Cache<Ids> caches;
    caches.reserve(layers.size());
    for (std::size_t i = 0; i < layers.size(); ++i) {
      caches.emplace_back(ids.mesh(), ids.shape()[0], capacity, config_.kv_heads, config_.head_size());
    }
    return caches;
  }
  /// The logits of the token after `ids`, [batch, sequence], which follow those in the cache and go there:
  /// [batch, 1, vocabulary].
  template <TensorType Ids, class Result = ResultOf<Ids>>
  constexpr Result next(const Ids& ids, Cache<Ids>& cache) const {
    auto x = enter(tokens(ids));
    for (std::size_t i = 0; i < layers.size(); ++i) x = layers[i](x, cache[i]);
    auto last = redistribute_to<typename Head::template PreparedTensor<Hidden<Ids>>>(norm(x));
    return logits(narrow<1>(last, ids.shape()[1] - 1, 1));
  }

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

 private:
  static constexpr bool tieable = std::is_same_v<typename Tokens::Table, typename Head::Weight>;

  template <Operand X>
  constexpr auto logits(const X& x) const {
    if constexpr (tieable) {
      return Head::multiply(x, head ? head->weight : tokens.table);
    } else {
      return (*head)(x);
    }
  }

  LlamaConfig config_;
};

}  // namespace shardwise
