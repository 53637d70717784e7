// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// A layer of a Llama: grouped-query attention with rotary embeddings (Ainslie et al., "GQA", 2023; Su et al.,
/// "RoFormer", 2021) and a SwiGLU MLP (Shazeer, "GLU variants improve transformer", 2020), each preceded by an
/// RMSNorm and with a residual connection. Their styles are those of the plan. Options of the configuration add biases,
/// norms and latents (latent.hpp), whose styles follow from those of the modules beside them, and experts instead of an
/// MLP.

#include <shardwise/layout/diagnosis.hpp>
#include <shardwise/llm/decoding/key_value_cache.hpp>
#include <shardwise/llm/decoding/quantized_style.hpp>
#include <shardwise/llm/models/llama/config.hpp>
#include <shardwise/llm/models/llama/latent.hpp>
#include <shardwise/llm/namespaces.hpp>
#include <shardwise/nn/attention.hpp>
#include <shardwise/nn/mixture_of_experts.hpp>
#include <shardwise/nn/project.hpp>
#include <shardwise/nn/rms_norm.hpp>
#include <shardwise/ops/add.hpp>
#include <shardwise/ops/swiglu.hpp>
#include <shardwise/parallel/lora.hpp>
#include <shardwise/parallel/plan.hpp>

namespace shardwise::llm {

namespace detail {

/// The style of a norm of each head, [batch, sequence, heads, head_dim], after a projection with the style `S`: heads
/// are sharded as the projection's are, and the gradient of the weight that they share is pending.
template <class S>
struct HeadNormStyle : TypeIs<S> {};
template <class Axes, class... Options>
struct HeadNormStyle<ColwiseParallel<Axes, Options...>> : TypeIs<SequenceParallel<Axes, 2>> {};
template <class Axes, class... Options>
struct HeadNormStyle<RowwiseParallel<Axes, Options...>> : TypeIs<NoParallel> {};
template <int Rank, int Alpha>
struct HeadNormStyle<LowRank<Rank, Alpha>> : TypeIs<NoParallel> {};
template <class Block>
struct HeadNormStyle<Quantized<Block>> : TypeIs<NoParallel> {};
template <class... Parts>
struct HeadNormStyle<Styles<Parts...>> : TypeIs<Styles<typename HeadNormStyle<Parts>::type...>> {};

/// norm(x); without a norm, x itself.
template <class Norm>
constexpr auto normed_or_same(const std::optional<Norm>& norm, const auto& x) {
  using X = std::remove_cvref_t<decltype(x)>;
  if constexpr (std::is_same_v<decltype((*norm)(x)), X>) {
    if (norm) return (*norm)(x);
  } else if (norm) {
    throw std::logic_error(
        "Llama: additional norms need a plan whose norms return the layout that they take");
  }
  return x;
}

}  // namespace detail

/// `NormStyle`: the style of the norm before it, for latents.
template <class MeshType, class PlanType, class T = float, class NormStyle = NoParallel>
class LlamaAttention : public Module<LlamaAttention<MeshType, PlanType, T, NormStyle>> {
 public:
  template <FixedString Name>
  using Projection = Linear<MeshType, style_of<PlanType, Name>, T, 2, 1>;
  template <FixedString Name>
  using HeadNorm =
      std::optional<RMSNorm<MeshType, typename detail::HeadNormStyle<style_of<PlanType, Name>>::type, T>>;
  using Output = Linear<MeshType, style_of<PlanType, "wo">, T, 1, 2, false>;

  /// The extents are those of `config`.
  constexpr LlamaAttention(const MeshType& mesh, const LlamaConfig& config)
      : wq(projection<"wq">(mesh, config, config.query_features(), config.heads, config.head_size())),
        wk(projection<"wk">(mesh, config, config.key_features(), config.kv_heads,
                            config.projected_key_size())),
        wv(projection<"wv">(mesh, config, config.latent ? 0 : config.features, config.kv_heads,
                            config.head_size())),
        wo(mesh, {config.heads, config.value_size()}, {config.features}, Init::normal(config.deviation), {},
           config.lora),
        rope_{.theta = config.theta, .scaling = config.scaling, .interleaved = config.interleaved},
        attention_options_{
            .window = config.window, .scale = config.score_scale(), .softcap = config.attention_softcap} {
    if (config.latent) {
      latent.emplace(mesh, config);
      rope_.dims = config.latent->rope_dim;
      rope_.interleaved = config.latent->interleaved;
    }
    if (config.head_norms) {
      const double offset = config.norm_offset;
      q_norm.emplace(mesh, config.head_size(), config.epsilon, offset);
      k_norm.emplace(mesh, config.head_size(), config.epsilon, offset);
    }
    constexpr Layout q = detail::heads_layout<style_of<PlanType, "wq">, typename Projection<"wq">::Weight>(),
                     k = detail::heads_layout<style_of<PlanType, "wk">, typename Projection<"wk">::Weight>();
    detail::check_heads_suffice<MeshType>(q, mesh.sizes(), config.heads);
    detail::check_heads(config.heads, config.kv_heads, q, k, 2, mesh.sizes(), MeshType::AxesOf::names.data());
  }

  /// x and the result: [batch, sequence, features]. With documents, [batch, sequence], a token sees only those of
  /// its own document, in which positions restart (see the functions `attention` and `rope`).
  constexpr auto forward(const auto& x, const Operand auto&... documents) const {
    auto [q, k, v] = heads_of(x);
    return wo(inner_attention(rope(detail::normed_or_same(q_norm, q), documents..., rope_),
                              rope(detail::normed_or_same(k_norm, k), documents..., rope_), v, documents...,
                              attention_options_));
  }
  /// The same for tokens that follow those in the selected rows of the cache, to which their keys and values are
  /// appended.
  template <TensorType K>
  constexpr auto forward(const auto& x, KeyValueCache<K>& cache) const {
    auto [q, k, v] = heads_of(x);
    RopeOptions here = rope_;
    const std::vector<Index> positions = cache.positions();
    here.row_positions = positions;
    cache.append(rope(detail::normed_or_same(k_norm, k), here), v);
    return wo(attention(rope(detail::normed_or_same(q_norm, q), here), cache, attention_options_));
  }
  constexpr auto keys(const auto& x) const { return rope(detail::normed_or_same(k_norm, wk(x)), rope_); }

  constexpr void visit(auto&& f) {
    if (latent) latent->visit(f);
    f("wq", wq);
    f("wk", wk);
    if (!latent) f("wv", wv);
    if (q_norm) f("q_norm", *q_norm);
    if (k_norm) f("k_norm", *k_norm);
    f("inner_attention", inner_attention);
    f("wo", wo);
  }

  Projection<"wq"> wq;
  Projection<"wk"> wk;
  Projection<"wv"> wv;  ///< empty with latents
  std::optional<LatentProjections<MeshType, NormStyle, T>> latent;
  HeadNorm<"wq"> q_norm;
  HeadNorm<"wk"> k_norm;
  styled<InnerAttention, style_of<PlanType, "inner_attention">> inner_attention;
  Output wo;

 private:
  /// Queries, keys and values, before norms and rotary embeddings.
  constexpr auto heads_of(const auto& x) const {
    using Heads = decltype(project(x, wq, wk, wv));
    if constexpr (std::is_same_v<decltype(latent->heads(x, wq, wk)), Heads>) {
      if (latent) return latent->heads(x, wq, wk);
    } else if (latent) {
      throw std::logic_error(
          "Llama: latents need a plan with one style for wk and wv, and for both sides of a norm");
    }
    return project(x, wq, wk, wv);
  }
  template <FixedString Name>
  static constexpr Projection<Name> projection(const MeshType& mesh, const LlamaConfig& config,
                                               Index features, Index heads, Index head_dim) {
    return Projection<Name>(mesh, {features}, {heads, head_dim}, Init::normal(config.deviation),
                            config.qkv_bias ? std::optional(Init::constant(0)) : std::nullopt, config.lora);
  }

  RopeOptions rope_;
  AttentionOptions attention_options_;
};

/// down(silu(gate(x)) · up(x)), or gelu_tanh instead of silu.
template <class MeshType, class PlanType, class T = float>
class LlamaMlp : public Module<LlamaMlp<MeshType, PlanType, T>> {
 public:
  /// The dimensions of hidden features: [n, 32] if `down` has blocks of 32, so that each rank has whole blocks.
  static constexpr Index block =
      numbers_in(data_type_of<typename detail::WeightElement<style_of<PlanType, "down">, T>::type>());
  static constexpr int hidden_dims = block > 1 ? 2 : 1;
  template <FixedString Name>
  using Layer = Linear<MeshType, style_of<PlanType, Name>, T, hidden_dims, 1, false>;
  using Down = Linear<MeshType, style_of<PlanType, "down">, T, 1, hidden_dims, false>;

  /// The extents are those of `config`. Throws `std::invalid_argument` if blocks do not divide the hidden features.
  constexpr LlamaMlp(const MeshType& mesh, const LlamaConfig& config)
      : gate(mesh, {config.features}, hidden_of(config), Init::normal(config.deviation), {}, config.lora),
        up(mesh, {config.features}, hidden_of(config), Init::normal(config.deviation), {}, config.lora),
        down(mesh, hidden_of(config), {config.features}, Init::normal(config.deviation), {}, config.lora),
        gelu_(config.gelu) {}

  /// x and the result: [r…, features].
  constexpr auto forward(const auto& x) const {
    auto [g, u] = project(x, gate, up);
    if (gelu_) return down(geglu(g, u));
    return down(swiglu(g, u));
  }
  constexpr void visit(auto&& f) {
    f("gate", gate);
    f("up", up);
    f("down", down);
  }

  Layer<"gate"> gate;
  Layer<"up"> up;
  Down down;

 private:
  static constexpr Shape<hidden_dims> hidden_of(const LlamaConfig& config) {
    if constexpr (hidden_dims == 1) {
      return {config.hidden};
    } else {
      if (config.hidden % block != 0) {
        detail::fail({"Llama: ", config.hidden, " hidden features are not a multiple of the ", block,
                      " numbers of a block"});
      }
      return {config.hidden / block, block};
    }
  }

  bool gelu_;
};

namespace detail {

/// half(x), or x if that half of the layer is on another rank.
constexpr auto half_or_same(bool here, const auto& x, const auto& half) {
  using Y = decltype(half(x));
  if constexpr (std::is_same_v<Y, std::remove_cvref_t<decltype(x)>>) {
    if (!here) return x;
  } else if (!here) {
    throw std::logic_error(
        "Llama: no stage begins or ends within a layer whose first half gives another type than it takes");
  }
  return half(x);
}

/// The error of a sum names the plan's entry for the layer that gives the second term.
template <class Sum, FixedString Entry>
struct SumOf : TypeIs<Sum> {};
template <Reason R, class Axis, class Wanted, class Given, Hint H, bool... Traits, FixedString Entry>
struct SumOf<Abstract<LayoutError<R, Axis, Wanted, Given, Cure<H>, Of<AddOp>>, Traits...>, Entry> {
  struct Text {
    static constexpr std::string_view value = Entry.view();
  };
  static constexpr Hint hint =
      Hint::give_it_RowwiseParallel_with_the_output_that_tokens_and_the_other_sums_have;
  using type = Abstract<LayoutError<R, Axis, Wanted, Given, Cure<hint>, Of<name_type<Text>>>, Traits...>;
};
template <FixedString Entry>
constexpr auto add_result(const auto& x, const auto& y) {
  using Sum = decltype(add(x, y));
  if constexpr (AbstractOperand<Sum>) {
    return typename SumOf<Sum, Entry>::type{};
  } else {
    return add(x, y);
  }
}

/// Whether a plan names the module with this style.
template <class Style>
inline constexpr bool is_named = true;
template <class PlanType, FixedString Module>
inline constexpr bool is_named<NoStyle<PlanType, Module>> = false;
struct NoExperts {};

}  // namespace detail

/// Experts instead of an MLP (see nn/mixture_of_experts.hpp). A backward pass adds their balance loss to the model's,
/// with the factor `balance` / `micro_batches`.
template <class MeshType, class Style, class T = float>
class LlamaExperts : public Module<LlamaExperts<MeshType, Style, T>> {
 public:
  /// The number and the size of the experts are those of `config`.
  constexpr LlamaExperts(const MeshType& mesh, const LlamaConfig& config)
      : mixture(mesh, config.features, with_init(*config.experts, Init::normal(config.deviation))),
        balance_(config.balance / static_cast<double>(config.micro_batches)) {}

  /// x and the result: [batch, sequence, features].
  constexpr auto forward(const auto& x) const {
    const auto in = mixture.take(x);
    const auto routing = mixture.route(in);
    if constexpr (requires { routing.logits.slot(); }) {
      const double k = static_cast<double>(routing.options.k);
      if (balance_ > 0) routing.logits.tape().add_loss(balance_loss(routing, {.uniform = k}), balance_);
    }
    return mixture.mix(in, routing, x);
  }
  constexpr void visit(auto&& f) { mixture.visit(f); }

  MixtureOfExperts<MeshType, Style, T> mixture;

 private:
  static constexpr MixtureOptions with_init(MixtureOptions options, const Init& init) {
    if (!options.init) options.init = init;
    return options;
  }

  double balance_;
};

/// A layer: attention and an MLP or experts, each after its norm, and added to its input.
template <class MeshType, class PlanType, class T = float>
class LlamaLayer : public Module<LlamaLayer<MeshType, PlanType, T>> {
 public:
  template <FixedString Name>
  using Norm = RMSNorm<MeshType, style_of<PlanType, Name>, T>;
  using Attention = styled<
      LlamaAttention<MeshType, PlanBelow<PlanType, "attention">, T, style_of<PlanType, "attention_norm">>,
      style_of<PlanType, "attention">>;
  using Mlp = styled<LlamaMlp<MeshType, PlanBelow<PlanType, "mlp">, T>, style_of<PlanType, "mlp">>;
  using Experts = LlamaExperts<MeshType, style_of<PlanType, "experts">, T>;
  static constexpr bool may_have_experts = detail::is_named<style_of<PlanType, "experts">>;

  /// Throws `std::invalid_argument` if the layer has experts that the plan does not name.
  constexpr LlamaLayer(const MeshType& mesh, const LlamaConfig& config)
      : attention_norm(mesh, config.features, config.epsilon, config.norm_offset),
        attention(mesh, config),
        mlp_norm(mesh, config.features, config.epsilon, config.norm_offset) {
    if (!config.experts) {
      mlp.emplace(mesh, config);
    } else if constexpr (may_have_experts) {
      experts.emplace(mesh, config);
    } else {
      throw std::invalid_argument(
          "Llama: the model has experts, and the plan does not name \"layers.*.experts\": see "
          "LlamaExpertParallel");
    }
    if (!config.output_norms) return;
    attention_output_norm.emplace(mesh, config.features, config.epsilon, config.norm_offset);
    mlp_output_norm.emplace(mesh, config.features, config.epsilon, config.norm_offset);
  }

  /// x and the result: [batch, sequence, features]. For documents, see `LlamaAttention`; with a cache, x are the
  /// tokens that follow those in it.
  constexpr auto forward(const auto& x, auto&&... documents_or_cache) const {
    auto h = detail::half_or_same(has_attention_, x, [&](const auto& in) {
      return detail::add_result<"layers.*.attention.wo">(
          in, detail::normed_or_same(attention_output_norm,
                                     attention(attention_norm(in), documents_or_cache...)));
    });
    return detail::half_or_same(has_mlp_, h, [&](const auto& in) {
      const auto normed = mlp_norm(in);
      if constexpr (may_have_experts) {
        static_assert(std::is_same_v<decltype((*experts)(normed)), decltype((*mlp)(normed))>,
                      "Llama: the plan gives the results of \"mlp\" and \"experts\" different layouts");
        if (experts) return add(in, detail::normed_or_same(mlp_output_norm, (*experts)(normed)));
      }
      return detail::add_result<"layers.*.mlp.down">(in,
                                                     detail::normed_or_same(mlp_output_norm, (*mlp)(normed)));
    });
  }
  constexpr auto keys(const auto& x) const {
    return attention.keys(detail::taken_by(attention, attention_norm(x)));
  }
  /// `x`, the result of a layer with other styles, in the layout of what this one adds to it.
  template <Operand X>
  static constexpr auto take(const X& x) {
    using MeshOf = typename tensor_of<X>::MeshOf;
    constexpr Layout whole = Layout::by_axis(MeshOf::axes, [](int axis) {
      return MeshOf::AxesOf::data[axis] ? tensor_of<X>::layout[axis] : replicate;
    });
    using Normed = decltype(detail::not_evaluated<const Norm<"attention_norm">>()(
        detail::not_evaluated<const with_layout<tensor_of<X>, packed(whole)>>()));
    using Added = decltype(detail::not_evaluated<const Attention>()(detail::not_evaluated<const Normed>()));
    return redistribute_to<tensor_of<Added>>(x);
  }

  constexpr void visit(auto&& f) {
    if (has_attention_) {
      f("attention_norm", attention_norm);
      f("attention", attention);
      if (attention_output_norm) f("attention_output_norm", *attention_output_norm);
    }
    if (has_mlp_) {
      f("mlp_norm", mlp_norm);
      if (mlp) f("mlp", *mlp);
      if constexpr (may_have_experts) {
        if (experts) f("experts", *experts);
      }
      if (mlp_output_norm) f("mlp_output_norm", *mlp_output_norm);
    }
  }

  Norm<"attention_norm"> attention_norm;
  Attention attention;
  Norm<"mlp_norm"> mlp_norm;
  std::optional<Mlp> mlp;
  std::conditional_t<may_have_experts, std::optional<Experts>, detail::NoExperts>
      experts;  ///< instead of `mlp`
  std::optional<Norm<"attention_norm">> attention_output_norm;
  std::optional<Norm<"mlp_norm">> mlp_output_norm;

  /// A stage of a pipeline may begin or end between the halves of a layer: frees the other half.
  constexpr void drop_attention() {
    has_attention_ = false;
    [[maybe_unused]] const auto gone = std::pair(std::move(attention_norm), std::move(attention));
    attention_output_norm.reset();
  }
  constexpr void drop_mlp() {
    has_mlp_ = false;
    [[maybe_unused]] const auto gone = std::move(mlp_norm);
    mlp.reset();
    experts = decltype(experts)();
    mlp_output_norm.reset();
  }

 private:
  bool has_attention_ = true, has_mlp_ = true;
};

}  // namespace shardwise::llm
