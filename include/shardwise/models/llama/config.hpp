// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The sizes of a Llama.

#include <shardwise/ops/rope.hpp>

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
  std::optional<Index> window{};  ///< of tokens that a token sees, up to itself (Mistral); all if not given
  double epsilon = 1e-5;
  double theta = 10000;  ///< base of the rotary embeddings' wavelengths
  std::optional<RopeScaling> scaling{};
  bool tied = false;        ///< the head's weight is the embedding's table
  double deviation = 0.02;  ///< of the first weights

  constexpr Index head_size() const { return head_dim > 0 ? head_dim : features / heads; }
  /// Numbers in the matrices of a layer's attention, of a layer, and in the parameters of the model.
  constexpr Index attention_weights() const { return features * head_size() * 2 * (heads + kv_heads); }
  constexpr Index layer_weights() const { return attention_weights() + 3 * features * hidden; }
  constexpr Index parameters() const {
    return (tied ? 1 : 2) * vocabulary * features + features + layers * (2 * features + layer_weights());
  }
  /// The work of the head, and of a layer's attention, where that of a layer is 1: for sequences of `context` tokens, each of which
  /// attends to half of them, or to its window.
  constexpr double head_in_layers() const { return real(vocabulary * features) / real(layer_work()); }
  constexpr double attention_in_layers() const {
    return 1 - real(3 * features * hidden) / real(layer_work());
  }

  /// Returns itself. Throws `std::invalid_argument` for what cannot be a model.
  constexpr const LlamaConfig& checked() const {
    struct Size {
      const char* name;
      Index value, least;
    };
    for (const Size& size :
         {Size{"vocabulary", vocabulary, 1}, Size{"features", features, 1}, Size{"layers", layers, 1},
          Size{"heads", heads, 1}, Size{"kv_heads", kv_heads, 1}, Size{"head_dim", head_dim, 0},
          Size{"hidden", hidden, 1}, Size{"context", context, 1}, Size{"window", window.value_or(1), 1}}) {
      if (size.value < size.least) {
        detail::fail(
            {"LlamaConfig: ", size.name, " is ", size.value, ", which must be ", size.least, " or more"});
      }
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
  /// Multiplications of a layer for a token.
  constexpr Index layer_work() const {
    return layer_weights() + heads * head_size() * (window && *window < context / 2 ? 2 * *window : context);
  }
};

}  // namespace shardwise
