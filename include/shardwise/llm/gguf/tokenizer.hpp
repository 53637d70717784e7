// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The contents of a model's folder besides its weights, or of a GGUF file instead: the sizes, the tokenizer, the
/// template of dialogues. Of a GGUF file, the tokenizer and the template that lie beside it come first.

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <shardwise/io/mapped_file.hpp>
#include <shardwise/llm/models/llama/files.hpp>
#include <shardwise/llm/models/rope_kernel.hpp>
#include <shardwise/llm/text/chat_template.hpp>
#include <shardwise/llm/text/tokenizer.hpp>

namespace tools {

namespace sw = shardwise;

/// The folder of a model, in which a GGUF file may lie.
inline std::filesystem::path folder_of(const std::filesystem::path& weights) {
  return sw::llm::detail::is_gguf(weights) ? std::filesystem::absolute(weights).parent_path() : weights;
}

namespace gguf_file {

using sw::Index;
using sw::Json;
using sw::JsonPart;
using sw::detail::fail;

inline Json values_of(const std::filesystem::path& path) {
  const sw::detail::MappedFile file(path);
  Json values;
  sw::prefix_errors(path.string(), [&] { sw::llm::detail::read_gguf_header(file.bytes(), &values); });
  return values;
}

/// llama.cpp keeps the factors of Llama 3's wavelengths instead of the numbers that they follow from. All models with
/// such factors have the same of these numbers but one, which is the greatest factor.
inline Json scaling_of_factors(const sw::StoredTensor& tensor, const char* file, double theta, Index head) {
  if (tensor.type != sw::StoredType::f32 || tensor.shape != std::vector{head / 2})
    fail<std::runtime_error>({"tensor \"", tensor.name, "\": expected ", head / 2, " numbers of F32"});
  std::vector<float> factors(static_cast<std::size_t>(tensor.bytes) / sizeof(float));
  std::copy_n(file + tensor.offset, tensor.bytes, reinterpret_cast<char*>(factors.data()));
  const sw::llm::RopeScaling scaling{.factor = *std::ranges::max_element(factors)};
  const auto frequency = [&](Index i, const std::optional<sw::llm::RopeScaling>& how) {
    return sw::llm::kernel::rope_frequency(i, 2 * std::ssize(factors), theta, how);
  };
  for (Index i = 0; i < std::ssize(factors); ++i) {
    const double given = factors[static_cast<std::size_t>(i)],
                 expected = frequency(i, {}) / frequency(i, scaling);
    if (std::abs(given - expected) <= 1e-3 * expected) continue;
    fail<std::runtime_error>({"tensor \"", tensor.name, "\": number ", i, " is ", given, ", expected ",
                              expected, ", as in a Llama 3 whose greatest is ", scaling.factor});
  }
  return sw::llm::detail::rope_scaling_keys(scaling);
}

/// The config.json that the model would have. Keys that are not known keep their names, so that the reader of config.json
/// refuses those that change the computation.
inline Json config_json(std::string_view file) {
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
  const sw::SafetensorsHeader header = sw::llm::detail::read_gguf_header(file, &values);
  const JsonPart all(values), family = all["general.architecture"];
  const std::string architecture = family.get<std::string>();
  if (std::ranges::count(sw::llm::detail::gguf_architectures, architecture) == 0)
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
  for (const sw::StoredTensor& tensor : header.tensors) {
    if (tensor.name == sw::llm::detail::head_name) config["tie_word_embeddings"] = false;
    if (tensor.name == sw::llm::detail::table_name) config["vocab_size"] = tensor.shape.front();
    if (tensor.name == "rope_freqs.weight")
      config["rope_scaling"] =
          scaling_of_factors(tensor, file.data(), config["rope_theta"].get<double>(), head);
  }
  return config;
}

/// The expressions by which words are cut before they are merged, and the other differences between tokenizers that
/// merge bytes, by the names that llama.cpp has for them.
struct Words {
  std::string_view name, expression, normalizer;
  bool begins,
      whole;  ///< texts begin with a token unless the file says else; a word that is a token stays one
};
inline constexpr std::string_view llama_words =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
inline constexpr std::string_view qwen_words =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
inline constexpr std::array all_words{Words{"llama-bpe", llama_words, "", true, true},
                                      Words{"llama3", llama_words, "", true, true},
                                      Words{"llama-v3", llama_words, "", true, true},
                                      Words{"qwen2", qwen_words, "NFC", false, false},
                                      Words{"deepseek-r1-qwen", qwen_words, "NFC", false, false},
                                      Words{"smollm", "\\p{N}", "", false, false},
                                      Words{"gpt-2", "", "", false, false}};

/// The tokenizer.json that the model would have.
inline Json tokenizer_json(const JsonPart& values) {
  const char* const hint = ": put the model's tokenizer.json beside the file";
  const auto part = [&](const char* key) { return values[std::string("tokenizer.ggml.") + key]; };
  if (part("model").json() != "gpt2") part("model").expected(std::string("\"gpt2\"") + hint);
  if (part("pre").null()) part("pre").expected(std::string("a text") + hint);
  const auto* const words = std::ranges::find(all_words, part("pre").get<std::string>(), &Words::name);
  if (words == all_words.end()) {
    std::string names;
    for (const Words& each : all_words) names += (names.empty() ? "" : ", ") + std::string(each.name);
    part("pre").expected("one of " + names + hint);
  }
  const Json bytes{
      {"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", false}};
  Json cut{{"type", "Split"},
           {"pattern", {{"Regex", words->expression}}},
           {"behavior", "Isolated"},
           {"invert", false}};
  Json first = bytes;  // also cuts words as GPT-2's tokenizer does
  first["use_regex"] = true;
  const bool like_gpt = words->name == "gpt-2", digits = words->name == "smollm";
  Json vocabulary = Json::object(), added = Json::array();
  const Index count = std::ssize(part("tokens").json());
  part("token_type").must_have(static_cast<std::size_t>(count));
  part("tokens").for_each([&](const JsonPart& token) {
    const std::size_t id = vocabulary.size();
    const auto text = token.get<std::string>();
    if (!vocabulary.emplace(text, id).second) token.fail("the token is there twice");
    const Json& type = part("token_type").json()[id];
    if (type == 3 || type == 4)  // of control; defined by the user
      added.push_back({{"id", id}, {"content", text}, {"special", type == 3}, {"normalized", false}});
  });
  Json around{{"type", "TemplateProcessing"}, {"single", Json::array()}, {"special_tokens", Json::object()}};
  const auto add = [&](const char* option, bool otherwise, const char* id) {
    const JsonPart given = part(option);
    if (given.null() ? !otherwise : given.integer(0, 1) == 0) return;
    const Index token = part(id).integer(0, count - 1);
    around["single"].push_back({{"SpecialToken", {{"id", id}, {"type_id", 0}}}});
    around["special_tokens"][id] = {{"id", id}, {"ids", {token}}, {"tokens", {id}}};
  };
  add("add_bos_token", words->begins, "bos_token_id");
  around["single"].push_back({{"Sequence", {{"id", "A"}, {"type_id", 0}}}});
  add("add_eos_token", false, "eos_token_id");
  Json tokenizer{{"version", "1.0"},
                 {"added_tokens", std::move(added)},
                 {"pre_tokenizer",
                  {{"type", "Sequence"},
                   {"pretokenizers", like_gpt ? Json::array({first})
                                              : Json::array({std::move(cut), digits ? first : bytes})}}},
                 {"post_processor", std::move(around)},
                 {"decoder", bytes},
                 {"model",
                  {{"type", "BPE"},
                   {"ignore_merges", words->whole},
                   {"vocab", std::move(vocabulary)},
                   {"merges", part("merges").json()}}}};
  if (!words->normalizer.empty()) tokenizer["normalizer"] = {{"type", words->normalizer}};
  return tokenizer;
}

}  // namespace gguf_file

/// The sizes of a model in a folder, or in a GGUF file. Throws as `read_llama_config`.
inline sw::llm::LlamaConfig config_of(const std::filesystem::path& weights) {
  if (!sw::llm::detail::is_gguf(weights)) return sw::llm::read_llama_config(weights / "config.json");
  const sw::detail::MappedFile file(weights);
  return sw::prefix_errors(weights.string(), [&] {
    const sw::Json json = gguf_file::config_json(file.bytes());
    sw::llm::LlamaConfig config = sw::llm::parse_llama_config(json);
    config.interleaved = json["model_type"] == "llama";
    return config;
  });
}

/// The model's tokenizer; bytes for a model of bytes; nothing for another model without one.
inline std::optional<sw::llm::Tokenizer> tokenizer_of(const std::filesystem::path& weights,
                                                      sw::Index vocabulary) {
  const std::filesystem::path folder = folder_of(weights);
  if (std::filesystem::exists(folder / "tokenizer.json")) return sw::llm::Tokenizer::from_folder(folder);
  if (sw::llm::detail::is_gguf(weights)) {
    const sw::Json values = gguf_file::values_of(weights);
    const sw::JsonPart all(values, weights.string() + ": ");
    if (!all["tokenizer.ggml.model"].null()) {
      const std::string json = sw::prefix_errors(
          weights.string(), [&] { return gguf_file::tokenizer_json(sw::JsonPart(values)).dump(); });
      return sw::llm::Tokenizer::from_json(json, weights.string());
    }
  }
  if (vocabulary != sw::llm::ByteTokenizer::vocabulary()) return std::nullopt;
  return sw::llm::detail::is_gguf(weights) ? sw::llm::Tokenizer::bytes()
                                           : sw::llm::Tokenizer::from_folder(folder);
}

/// The tokens that end a text.
inline std::vector<std::int32_t> ends_of(const std::filesystem::path& weights,
                                         const std::optional<sw::llm::Tokenizer>& tokenizer) {
  std::vector<std::int32_t> ends;
  if (sw::llm::detail::is_gguf(weights)) {
    const sw::Json values = gguf_file::values_of(weights);
    for (const char* name : {"eos", "eot", "eom"}) {
      const std::string key = std::string("tokenizer.ggml.") + name + "_token_id";
      const sw::JsonPart id = sw::JsonPart(values, weights.string() + ": ")[key];
      if (!id.null()) ends.push_back(id.get<std::int32_t>());
    }
  } else {
    ends = sw::llm::read_llama_tokens(weights).ends;
  }
  if (tokenizer && tokenizer->end_token()) ends.push_back(*tokenizer->end_token());
  return ends;
}

/// The template of dialogues, if the model has one.
inline std::optional<sw::llm::ChatTemplate> chat_template_of(const std::filesystem::path& weights) {
  auto chat = sw::llm::ChatTemplate::from_folder(folder_of(weights));
  if (chat || !sw::llm::detail::is_gguf(weights)) return chat;
  const sw::Json values = gguf_file::values_of(weights);
  const sw::JsonPart all(values, weights.string() + ": ");
  if (all["tokenizer.chat_template"].null()) return std::nullopt;
  const auto token = [&](const char* key) -> std::string {
    const sw::JsonPart id = all[key], tokens = all["tokenizer.ggml.tokens"];
    if (id.null()) return "";
    return tokens[static_cast<std::size_t>(id.integer(0, std::ssize(tokens.json()) - 1))].get<std::string>();
  };
  return sw::llm::ChatTemplate(all.get<std::string>("tokenizer.chat_template"),
                               token("tokenizer.ggml.bos_token_id"), token("tokenizer.ggml.eos_token_id"),
                               weights.string() + ": tokenizer.chat_template");
}

}  // namespace tools
