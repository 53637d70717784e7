// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The sizes and the options of a decoder, with their names in Hugging Face's config.json. Without options it is a
/// Llama.

#include <shardwise/llm/models/rope.hpp>
#include <shardwise/nn/mixture_of_experts.hpp>
#include <shardwise/parallel/lora.hpp>

namespace shardwise::llm {

/// The sizes of multi-head latent attention (DeepSeek). Of `head_dim` numbers of a query or key, the last `rope_dim`
/// get rotary embeddings; those of a token's keys are the same in all heads.
struct LatentSizes {
  Index q_rank = 0;     ///< q_lora_rank: numbers of a query's latent; 0: queries are projected from features
  Index kv_rank = 512;  ///< kv_lora_rank: of the latent of keys and values
  Index rope_dim = 64;  ///< qk_rope_head_dim; head_dim - rope_dim is qk_nope_head_dim
  Index value_dim = 128;    ///< v_head_dim
  bool interleaved = true;  ///< rope_interleave: see `RopeOptions`
};

struct LlamaConfig {
  Index vocabulary = 32000;       ///< vocab_size
  Index features = 4096;          ///< hidden_size
  Index layers = 32;              ///< num_hidden_layers
  Index heads = 32;               ///< num_attention_heads
  Index kv_heads = 32;            ///< num_key_value_heads, which divides `heads`
  Index head_dim = 0;             ///< head_dim; 0: features / heads
  Index hidden = 11008;           ///< intermediate_size, of the MLPs
  Index context = 2048;           ///< max_position_embeddings: for predictions; the model itself has no limit
  std::optional<Index> window{};  ///< sliding_window: how many tokens a token sees, up to itself; else all
  double epsilon = 1e-5;          ///< rms_norm_eps
  double theta = 10000;           ///< rope_theta: base of the rotary embeddings' wavelengths
  std::optional<RopeScaling> scaling{};  ///< rope_scaling
  bool tied = false;                     ///< tie_word_embeddings: the head's weight is the embedding's table
  double deviation = 0.02;               ///< initializer_range: of the initial weights

  // Options of other families than Llama; see `hugging_face_families`.
  std::optional<LatentSizes> latent{};  ///< latent attention (DeepSeek); `kv_heads` must be `heads`
  bool interleaved = false;    ///< pairs of rotary embeddings are neighbours, as in GGUF files of a Llama
  bool qkv_bias = false;       ///< the projections to queries, keys and values have a bias
  bool head_norms = false;     ///< QK norm: an RMSNorm of each head's query and key, before they are rotated
  bool output_norms = false;   ///< post-norms: an RMSNorm also of the results of attention and MLP
  double norm_offset = 0;      ///< is added to the weights of all norms: 1 in Gemma
  bool scaled_tokens = false;  ///< embeddings of tokens are multiplied by √features
  bool gelu = false;           ///< MLPs have gelu_tanh(gate) · up instead of silu(gate) · up
  Index full_every = 0;  ///< sliding_window_pattern: every so many layers, one has no window; 0: all have it
  std::optional<double> window_theta{};  ///< rope_local_base_freq: of layers with a window, without scaling
  double query_scalar = 0;       ///< query_pre_attn_scalar: scores are divided by its root; 0: head_dim
  double attention_softcap = 0;  ///< attn_logit_softcapping: scores are cap · tanh(score / cap); 0: no cap
  double logit_softcap = 0;      ///< final_logit_softcapping: the same of logits

  // Of models with experts.
  /// num_experts, moe_intermediate_size, num_experts_per_tok, …: layers have experts instead of an MLP
  std::optional<MixtureOptions> experts{};
  Index dense_layers = 0;  ///< first_k_dense_replace: how many leading layers have an MLP all the same
  double balance = 0;  ///< router_aux_loss_coef: factor of a `balance_loss` that is k for evenly used experts
  /// Of a step: a loss is the mean over them. It is not part of config.json.
  Index micro_batches = 1;

  /// Numbers of a head's queries and keys; below, those of a head's values.
  constexpr Index head_size() const { return head_dim > 0 ? head_dim : features / heads; }
  constexpr Index value_size() const { return latent ? latent->value_dim : head_size(); }
  /// The numbers that the projections to queries and to keys take, and those of a head that the latter gives, which
  /// include its value if there are latents.
  constexpr Index query_features() const { return latent && latent->q_rank > 0 ? latent->q_rank : features; }
  constexpr Index key_features() const { return latent ? latent->kv_rank : features; }
  constexpr Index projected_key_size() const {
    return latent ? head_size() - latent->rope_dim + latent->value_dim : head_size();
  }
  /// The same with the window and the rotary embeddings of layer `number`.
  constexpr LlamaConfig for_layer(Index number) const {
    LlamaConfig own = *this;
    if (number < dense_layers) own.experts.reset();
    if (full_every > 0 && (number + 1) % full_every == 0) {
      own.window.reset();
    } else if (window_theta) {
      own.theta = *window_theta;
      own.scaling.reset();
    }
    return own;
  }
  /// The factors of embeddings, if `scaled_tokens`, and of scores, if not 1/√head_dim.
  constexpr double token_scale() const { return root(real(features)); }
  constexpr std::optional<double> score_scale() const {
    if (latent && scaling && scaling->rope_type == RopeType::yarn && scaling->mscale_all_dim != 0) {
      const double magnitude =
          __builtin_is_constant_evaluated() ? 1 : scaling->magnitude(scaling->mscale_all_dim);
      return magnitude * magnitude / root(real(head_size()));
    }
    return query_scalar > 0 ? std::optional(1 / root(query_scalar)) : std::nullopt;
  }
  /// The number of weights in a layer's attention, without biases and norms; in an MLP; and in experts, of all or of
  /// those that a token uses.
  constexpr Index attention_weights() const {
    if (!latent) return features * head_size() * 2 * (heads + kv_heads);
    const Index latents = latent->q_rank + latent->kv_rank + latent->rope_dim;
    return features * (latents + heads * value_size()) +
           heads * (query_features() * head_size() + key_features() * projected_key_size());
  }
  constexpr Index mlp_weights() const { return 3 * features * hidden; }
  constexpr Index expert_weights(bool used) const {
    if (!experts) return 0;
    const MixtureOptions& all = *experts;
    const Index mlps = (used ? all.routing.k : all.experts) * all.hidden + all.shared_hidden;
    return features * (3 * mlps + all.experts) + (all.bias && !used ? all.experts : 0);
  }
  /// In the model: all, or those that are multiplied with each token.
  constexpr Index parameters() const {
    const Index biases = qkv_bias ? (heads + 2 * kv_heads) * head_size() : 0;
    const Index norms = (output_norms ? 4 : 2) * features + (head_norms ? 2 * head_size() : 0) +
                        (latent ? latent->q_rank + latent->kv_rank : 0);
    return (tied ? 1 : 2) * vocabulary * features + features + layers * (norms + biases) +
           weights_of_layers(false);
  }
  constexpr Index active_parameters() const {
    return parameters() - weights_of_layers(false) + weights_of_layers(true);
  }
  /// The work of the head, and of a layer's attention, relative to that of a layer: for sequences of `context`
  /// tokens, each of which attends to half of them, or to its window.
  constexpr double head_in_layers() const { return real(vocabulary * features) / layer_work(); }
  constexpr double attention_in_layers() const {
    return 1 - real(weights_of_layers(true) / layers - attention_weights()) / layer_work();
  }
  /// The time to send a token's features in float between hosts, relative to forward and backward of a layer.
  constexpr double message_in_layers() const {
    constexpr double bytes_per_second = 300e6 / 8, flops_per_second = 100e9;  // see docs/learn/pipelines.md
    return (4 * real(features) / bytes_per_second) / (6 * layer_work() / flops_per_second);
  }

  /// Of the adapters of a plan that has them, instead of the plan's. It is not part of config.json.
  LoraSize lora{};
  /// The n in slices of layers in a plan, such as "layers.[:n]". It is not part of config.json.
  std::optional<Index> n{};

  /// Returns itself. Throws `std::invalid_argument` for an invalid model, or one with more bytes than an `Index`
  /// can count.
  [[gnu::noinline]] constexpr const LlamaConfig& checked() const {
    constexpr Index most = std::numeric_limits<std::int32_t>::max();  // token ids are 32-bit integers
    struct Size {
      const char* name;
      Index value, least = 1, most = std::numeric_limits<Index>::max();
    };
    const MixtureOptions mixture = experts.value_or(MixtureOptions{.experts = 2, .hidden = 1});
    const auto [groups, kept] = mixture.routing.choice;
    if (groups < 1 || kept < 1 || kept > groups || mixture.experts % groups != 0) {
      detail::fail({"LlamaConfig: experts.routing.choice has ", groups, " groups and keeps ", kept, " of ",
                    mixture.experts,
                    " experts: the groups must divide the experts, and at least one be kept"});
    }
    for (const Size& size : {Size{"vocabulary", vocabulary, 1, most},
                             Size{"features", features},
                             Size{"layers", layers, 1, 1 << 16},
                             Size{"heads", heads},
                             Size{"kv_heads", kv_heads},
                             Size{"head_dim", head_dim, 0},
                             Size{"hidden", hidden},
                             Size{"context", context},
                             Size{"window", window.value_or(1)},
                             Size{"full_every", full_every, 0},
                             Size{"dense_layers", dense_layers, 0},
                             Size{"micro_batches", micro_batches},
                             Size{"experts", mixture.experts, 1, 1 << 16},
                             Size{"experts.hidden", mixture.hidden},
                             Size{"experts.routing.k", mixture.routing.k, 1, mixture.experts / groups * kept},
                             Size{"experts.shared_hidden", mixture.shared_hidden, 0},
                             Size{"q_rank", latent_or_one().q_rank, 0},
                             Size{"kv_rank", latent_or_one().kv_rank},
                             Size{"rope_dim", latent_or_one().rope_dim, 2},
                             Size{"value_dim", latent_or_one().value_dim}}) {
      const bool less = size.value < size.least;
      if (less || size.value > size.most) {
        detail::fail({"LlamaConfig: ", size.name, " is ", size.value, ", which must be ",
                      less ? size.least : size.most, less ? " or more" : " or less"});
      }
    }
    const double width = real(heads) * std::max(real(head_size()), real(value_size())),
                 widest = std::max(real(hidden), real(mixture.experts) * (real(mixture.hidden) + 1) +
                                                     real(mixture.shared_hidden)),
                 latents = latent ? real(latent->q_rank) + real(latent->kv_rank) + real(latent->rope_dim) : 0,
                 layer =
                     real(features) * (4 * width + 3 * widest + 2) + latents * (real(features) + 2 * width);
    if (2 * real(vocabulary) * real(features) + real(layers) * layer > 0x1p58) {  // of 8 bytes, with a margin
      detail::fail({"LlamaConfig: a model of these sizes has more bytes than are counted: vocabulary ",
                    vocabulary, ", features ", features, ", layers ", layers, ", hidden ", hidden, ", heads ",
                    heads, " with head_dim ", head_size()});
    }
    if (head_dim == 0 && features % heads != 0) {
      detail::fail({"LlamaConfig: ", features, " features are not a multiple of ", heads, " heads"});
    }
    if (heads % kv_heads != 0) {
      detail::fail({"LlamaConfig: ", heads, " heads are not a multiple of ", kv_heads, " key/value heads"});
    }
    if (const Index turned = latent ? latent->rope_dim : head_size(); turned % 2 != 0) {
      detail::fail({"LlamaConfig: rotary embeddings need an even ", latent ? "rope_dim" : "head_dim",
                    ", not ", turned});
    }
    if (latent && latent->rope_dim >= head_size()) {
      detail::fail({"LlamaConfig: rope_dim is ", latent->rope_dim, ", which must be less than head_dim, ",
                    head_size()});
    }
    if (latent && (kv_heads != heads || head_norms || qkv_bias)) {
      detail::fail({"LlamaConfig: with latent attention, kv_heads, ", kv_heads, ", must be heads, ", heads,
                    ", and qkv_bias and head_norms false"});
    }
    if (!(query_scalar >= 0 && attention_softcap >= 0 && logit_softcap >= 0)) {
      detail::fail({"LlamaConfig: query_scalar is ", query_scalar, ", attention_softcap ", attention_softcap,
                    ", logit_softcap ", logit_softcap, "; each must be 0 or more"});
    }
    if (experts && gelu) throw std::invalid_argument("LlamaConfig: experts have the gate silu, and not gelu");
    if (!(balance >= 0) || balance > 1e6 || !(mixture.routing.scale > 0)) {
      detail::fail({"LlamaConfig: balance is ", balance,
                    ", which must be from 0 to 1e6, and experts.routing.scale ", mixture.routing.scale,
                    ", which must be more than 0"});
    }
    return *this;
  }

 private:
  constexpr LatentSizes latent_or_one() const { return latent.value_or(LatentSizes{}); }
  /// 1 where the numbers do not matter: in constant expressions.
  static constexpr double root(double x) { return __builtin_is_constant_evaluated() ? 1 : std::sqrt(x); }
  static constexpr double real(Index count) { return static_cast<double>(count); }
  constexpr Index weights_of_layers(bool used) const {
    const Index with_mlp = experts ? std::min(dense_layers, layers) : layers;
    return layers * attention_weights() + with_mlp * mlp_weights() +
           (layers - with_mlp) * expert_weights(used);
  }
  constexpr double layer_work() const {
    const double all = real(context), seen = window && *window < context / 2 ? 2 * real(*window) : all;
    const double full = full_every > 0 ? 1 / real(full_every) : 0;  // layers without a window
    return real(weights_of_layers(true)) / real(layers) +
           real(heads * (head_size() + value_size())) / 2 * (full * all + (1 - full) * seen);
  }
};

}  // namespace shardwise::llm
