// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The sizes of a Llama, with their names in Hugging Face's config.json.

#include <shardwise/ops/rope.hpp>

namespace shardwise {

struct LlamaConfig {
  Index vocabulary = 32000;  ///< vocab_size
  Index features = 4096;     ///< hidden_size
  Index layers = 32;         ///< num_hidden_layers
  Index heads = 32;          ///< num_attention_heads
  Index kv_heads = 32;       ///< num_key_value_heads, which divides `heads`
  Index head_dim = 0;        ///< head_dim; 0: features / heads
  Index hidden = 11008;      ///< intermediate_size, of the MLPs
  Index context =
      2048;  ///< max_position_embeddings: context length for predictions; the model itself has no limit
  std::optional<Index>
      window{};  ///< sliding_window: tokens that a token sees, up to itself (Mistral); all by default
  double epsilon = 1e-5;                 ///< rms_norm_eps
  double theta = 10000;                  ///< rope_theta: base of the rotary embeddings' wavelengths
  std::optional<RopeScaling> scaling{};  ///< rope_scaling
  bool tied = false;                     ///< tie_word_embeddings: the head's weight is the embedding's table
  double deviation = 0.02;               ///< initializer_range: of the initial weights

  constexpr Index head_size() const { return head_dim > 0 ? head_dim : features / heads; }
  /// The number of weights in a layer's attention, in a layer, and in the model.
  constexpr Index attention_weights() const { return features * head_size() * 2 * (heads + kv_heads); }
  constexpr Index layer_weights() const { return attention_weights() + 3 * features * hidden; }
  constexpr Index parameters() const {
    return (tied ? 1 : 2) * vocabulary * features + features + layers * (2 * features + layer_weights());
  }
  /// The work of the head, and of a layer's attention, relative to that of a layer: for sequences of `context`
  /// tokens, each of which attends to half of them, or to its window.
  constexpr double head_in_layers() const { return real(vocabulary * features) / layer_work(); }
  constexpr double attention_in_layers() const { return 1 - real(3 * features * hidden) / layer_work(); }
  /// The time to send a token's features in float between hosts, relative to forward and backward of a layer: for a
  /// link of 300 Mbit/s, and a rank that computes at 100 GFLOP/s.
  constexpr double message_in_layers() const {
    return (4 * real(features) / 37.5e6) / (6 * layer_work() / 100e9);
  }

  /// Returns itself. Throws `std::invalid_argument` for an invalid model, or one with more bytes than an `Index`
  /// can count.
  [[gnu::noinline]] constexpr const LlamaConfig& checked() const {
    constexpr Index most = std::numeric_limits<std::int32_t>::max();  // token ids are 32-bit integers
    struct Size {
      const char* name;
      Index value, least = 1, most = std::numeric_limits<Index>::max();
    };
    for (const Size& size :
         {Size{"vocabulary", vocabulary, 1, most}, Size{"features", features},
          Size{"layers", layers, 1, 1 << 16}, Size{"heads", heads}, Size{"kv_heads", kv_heads},
          Size{"head_dim", head_dim, 0}, Size{"hidden", hidden}, Size{"context", context},
          Size{"window", window.value_or(1)}}) {
      const bool less = size.value < size.least;
      if (less || size.value > size.most) {
        detail::fail({"LlamaConfig: ", size.name, " is ", size.value, ", which must be ",
                      less ? size.least : size.most, less ? " or more" : " or less"});
      }
    }
    const double width = real(heads) * real(head_size()),
                 layer = real(features) * (4 * width + 3 * real(hidden) + 2);
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
    if (head_size() % 2 != 0) {
      detail::fail({"LlamaConfig: rotary embeddings need an even head_dim, not ", head_size()});
    }
    return *this;
  }

 private:
  static constexpr double real(Index count) { return static_cast<double>(count); }
  constexpr double layer_work() const {
    return real(layer_weights()) +
           real(heads * head_size()) * real(window && *window < context / 2 ? 2 * *window : context);
  }
};

}  // namespace shardwise
