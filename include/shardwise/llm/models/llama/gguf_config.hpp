// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The sizes of the model in a GGUF file.

#include <shardwise/llm/bodies.hpp>
#include <shardwise/llm/gguf/header.hpp>
#include <shardwise/llm/models/llama/config_keys.hpp>
#include <shardwise/llm/namespaces.hpp>

namespace shardwise::llm::detail {

/// The config.json that the model would have. Unknown keys keep their names, so that the reader of config.json
/// refuses those that change the computation.
Json gguf_config(std::string_view file);

#ifdef SHARDWISE_LLM_BODIES

/// llama.cpp keeps the factors of Llama 3's wavelengths instead of the numbers that they follow from. All models with
/// such factors have the same of these numbers but one, which is the greatest factor.
SHARDWISE_INLINE Json scaling_of_factors(const StoredTensor& tensor, const char* file, double theta,
                                         Index head) {
  const Index pairs = std::max<Index>(head / 2, 1);  // a head of fewer numbers is refused later
  if (tensor.type != StoredType::f32 || tensor.shape != std::vector{pairs})
    fail<std::runtime_error>(
        {"tensor \"", tensor.name, "\": ", tensor.dtype, " ", tensor.shape, ", expected F32 [", pairs, "]"});
  std::vector<float> factors(static_cast<std::size_t>(tensor.bytes) / sizeof(float));
  std::copy_n(file + tensor.offset, tensor.bytes, reinterpret_cast<char*>(factors.data()));
  const RopeScaling scaling{.factor = *std::ranges::max_element(factors)};
  const auto frequency = [&](Index i, const std::optional<RopeScaling>& how) {
    return kernel::rope_frequency(i, 2 * std::ssize(factors), theta, how);
  };
  for (Index i = 0; i < std::ssize(factors); ++i) {
    const double given = factors[static_cast<std::size_t>(i)],
                 expected = frequency(i, {}) / frequency(i, scaling);
    if (std::abs(given - expected) <= 1e-3 * expected) continue;
    fail<std::runtime_error>({"tensor \"", tensor.name, "\": number ", i, " is ", given, ", expected ",
                              expected, ", as in a Llama 3 whose greatest is ", scaling.factor});
  }
  return rope_scaling_keys(scaling);
}

SHARDWISE_INLINE Json gguf_config(std::string_view file) {
  using Key = std::pair<std::string_view, std::string_view>;
  constexpr std::array known{Key{"block_count", "num_hidden_layers"},
                             Key{"context_length", "max_position_embeddings"},
                             Key{"embedding_length", "hidden_size"},
                             Key{"feed_forward_length", "intermediate_size"},
                             Key{"attention.head_count", "num_attention_heads"},
                             Key{"attention.head_count_kv", "num_key_value_heads"},
                             Key{"attention.layer_norm_rms_epsilon", "rms_norm_eps"},
                             Key{"attention.key_length", "head_dim"},
                             Key{"attention.value_length", "head_dim"},
                             Key{"rope.dimension_count", "head_dim"},
                             Key{"rope.freq_base", "rope_theta"}};
  Json values;
  const SafetensorsHeader header = read_gguf_header(file, &values);
  const JsonPart all(values), family = all["general.architecture"];
  const std::string architecture = family.get<std::string>();
  if (std::ranges::count(gguf_architectures, architecture) == 0)
    family.expected("\"llama\", \"qwen2\" or \"qwen3\"");
  const std::string prefix = architecture + ".";
  for (const char* key : {"block_count", "embedding_length", "feed_forward_length", "attention.head_count"})
    all[prefix + key].integer(1, std::numeric_limits<std::int32_t>::max());
  all[prefix + "attention.layer_norm_rms_epsilon"].positive_number();
  all.must_be(prefix + "attention.causal", 1);
  all.must_be(prefix + "attention.scale", 0);  // the usual one
  const JsonPart theta = all[prefix + "rope.freq_base"];
  Json config{{"model_type", architecture},
              {"num_key_value_heads", nullptr},
              {"rope_theta", theta.null() ? 10000.0 : theta.positive_number()},
              {"tie_word_embeddings", true}};
  all.for_each_member([&](const std::string& key, const JsonPart& value) {
    if (!key.starts_with(prefix)) return;
    const std::string rest = key.substr(prefix.size());
    const auto* const same = std::ranges::find(known, rest, &Key::first);
    if (rest == "attention.causal" || rest == "attention.scale") return;
    Json& to = config[same == known.end() ? key : std::string(same->second)];
    const bool of_head = same != known.end() && same->second == "head_dim" && !to.is_null();
    if (of_head && to != value.json()) value.expected(to.dump() + ", as another size of a head is");
    to = value.json();
  });
  const Json& given = config["head_dim"];
  const Index head = given.is_number_integer()
                         ? given.get<Index>()
                         : config["hidden_size"].get<Index>() / config["num_attention_heads"].get<Index>();
  for (const StoredTensor& tensor : header.tensors) {
    if (tensor.name == name_of_gguf_tensor("output.weight")) config["tie_word_embeddings"] = false;
    if (tensor.name == name_of_gguf_tensor("token_embd.weight")) config["vocab_size"] = tensor.shape.front();
    if (tensor.name == "rope_freqs.weight")
      config["rope_scaling"] =
          scaling_of_factors(tensor, file.data(), config["rope_theta"].get<double>(), head);
  }
  return config;
}

#endif

}  // namespace shardwise::llm::detail
