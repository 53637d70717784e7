// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// What programs read of a GGUF file besides weights: sizes, the tokenizer, the template of dialogues.

#include <doctest/doctest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "../../examples/programs/common/model_files.hpp"
#include "mpi/scratch_folder.hpp"
#include "support/gguf.hpp"

namespace {

using namespace tools;
using sw::Json;

gguf::Writer model_of(const std::string& architecture, std::uint32_t heads = 2) {
  gguf::Writer file;
  const std::string prefix = architecture + ".";
  file.words("general.architecture", architecture);
  file.number(prefix + "block_count", 2).number(prefix + "embedding_length", 32);
  file.number(prefix + "feed_forward_length", 48).number(prefix + "attention.head_count", heads);
  file.real(prefix + "attention.layer_norm_rms_epsilon", 1e-5F);
  file.tensor("token_embd.weight", {7, 32}, gguf::f32, std::string(7 * 32 * 4, '\0'));
  return file;
}
sw::llm::LlamaConfig config_in(const ScratchFolder& folder, const gguf::Writer& file) {
  return config_of(folder.file("model.gguf", file.bytes()));
}

TEST_CASE("sizes of a GGUF file are those of a config.json") {
  const ScratchFolder folder;
  const sw::llm::LlamaConfig least = config_in(folder, model_of("llama"));
  CHECK(least.vocabulary == 7);
  CHECK(least.features == 32);
  CHECK(least.layers == 2);
  CHECK(least.hidden == 48);
  CHECK(least.heads == 2);
  CHECK(least.kv_heads == 2);
  CHECK(least.head_size() == 16);
  CHECK(least.theta == 10000);
  CHECK(static_cast<float>(least.epsilon) == 1e-5F);
  CHECK(least.tied);
  CHECK(least.interleaved);

  gguf::Writer more = model_of("qwen3");
  more.number("qwen3.attention.head_count_kv", 1).number("qwen3.attention.key_length", 24);
  more.number("qwen3.attention.value_length", 24).number("qwen3.context_length", 99);
  more.real("qwen3.rope.freq_base", 5e5F)
      .tensor("output.weight", {7, 32}, gguf::f32, std::string(7 * 32 * 4, '\0'));
  const sw::llm::LlamaConfig qwen = config_in(folder, more);
  CHECK(qwen.kv_heads == 1);
  CHECK(qwen.head_size() == 24);
  CHECK(qwen.context == 99);
  CHECK(qwen.theta == 500000);
  CHECK(qwen.head_norms);
  CHECK_FALSE(qwen.tied);
  CHECK_FALSE(qwen.interleaved);
  CHECK(config_in(folder, model_of("qwen2")).qkv_bias);
}

TEST_CASE("values that change the computation, and are not supported, are refused") {
  const ScratchFolder folder;
  const auto value = [&](const char* key, std::uint32_t type, const std::string& bytes) {
    return error_of([&] { config_in(folder, model_of("llama").value(key, type, bytes)); });
  };
  const auto one_real = [](std::uint64_t count) {
    return gguf::bytes_of(6u) + gguf::bytes_of(count) + gguf::bytes_of(5e5F);
  };
  CHECK(has(value("llama.rope.freq_base", 9, one_real(1)), "rope.freq_base: it is \"a list\", expected"));
  CHECK(has(value("llama.attention.head_count_kv", 9, one_real(1)), "it is \"a list\", expected"));
  CHECK(has(value("llama.attention.other", 9, one_real(1)), "llama.attention.other: "));
  CHECK(has(value("llama.attention.causal", 7, std::string(1, '\0')),
            "llama.attention.causal: it is 0, expected 1"));
  CHECK(value("llama.attention.causal", 7, "\1") == "no error");
  CHECK(has(value("llama.attention.scale", 6, gguf::bytes_of(1.F)),
            "llama.attention.scale: it is 1.0, expected 0"));
  CHECK(has(value("llama.sliding_window", 4, gguf::bytes_of(8u)), "llama.sliding_window: "));
  // Its own keys are not those of config.json.
  CHECK(config_in(folder, model_of("llama").real("llama.hidden_size", 64)).features == 32);
  CHECK(has(value("llama.rope_theta", 6, gguf::bytes_of(5e5F)), "llama.rope_theta: "));
}

TEST_CASE("the factors of wavelengths are those of Llama 3") {
  const ScratchFolder folder;
  const sw::llm::RopeScaling scaling{.factor = 32};
  const auto file_of = [&](float spoilt) {
    std::string factors;
    for (sw::Index i = 0; i < 32; ++i) {
      const double kept = sw::llm::kernel::rope_frequency(i, 64, 5e5, {}) /
                          sw::llm::kernel::rope_frequency(i, 64, 5e5, scaling);
      factors += gguf::bytes_of(static_cast<float>(kept) + (i == 17 ? spoilt : 0));
    }
    gguf::Writer file = model_of("llama");
    file.real("llama.rope.freq_base", 5e5F).number("llama.rope.dimension_count", 64);
    file.tensor("rope_freqs.weight", {32}, gguf::f32, factors);
    return file;
  };
  const sw::llm::LlamaConfig config = config_in(folder, file_of(0));
  REQUIRE(config.scaling.has_value());
  CHECK(config.scaling == scaling);
  gguf::Writer longer = model_of("llama");
  longer.tensor("rope_freqs.weight", {32}, gguf::f32, std::string(128, '\0'));
  CHECK(has(error_of([&] { config_in(folder, longer); }),
            "tensor \"rope_freqs.weight\": F32 [32], expected F32 [8]"));
  // Heads of no pair of numbers: of one, of none, and more heads than features.
  for (gguf::Writer none :
       {model_of("llama").number("llama.attention.key_length", 1),
        model_of("llama").number("llama.attention.key_length", 0), model_of("llama", 33)}) {
    none.tensor("rope_freqs.weight", {0}, gguf::f32, "");
    CHECK(
        has(error_of([&] { config_in(folder, none); }), "\"rope_freqs.weight\": F32 [0], expected F32 [1]"));
  }
  CHECK(has(error_of([&] { config_in(folder, file_of(0.1F)); }),
            "tensor \"rope_freqs.weight\": number 17 is "));
}

std::string character(int byte) {
  std::string text;
  sw::llm::detail::byte_alphabet.append(text, static_cast<char>(byte));
  return text;
}

/// The tokenizer of a family, as the converter of llama.cpp writes it.
gguf::Writer tokenizer_of_family(const Json& tokenizer, const char* pre) {
  std::vector<std::string> tokens, merges;
  std::vector<std::int32_t> types(281, 1);
  for (int byte = 0; byte < 256; ++byte) tokens.push_back(character(byte));
  tokens.resize(types.size());
  for (const auto& token : tokenizer["model"]["vocab"].items())
    tokens[token.value().get<std::size_t>()] = token.key();
  for (const Json& token : tokenizer["added_tokens"]) {
    const auto id = token["id"].get<std::size_t>();
    tokens[id] = token["content"];
    types[id] = 3;
  }
  for (std::size_t id = 0; id < tokens.size(); ++id) {  // unused
    if (tokens[id].empty()) tokens[id] = "[PAD" + std::to_string(id) + "]", types[id] = 5;
  }
  for (const Json& merge : tokenizer["model"]["merges"]) merges.push_back(merge);
  gguf::Writer file = model_of("llama");
  file.words("tokenizer.ggml.model", "gpt2").words("tokenizer.ggml.pre", pre);
  file.list("tokenizer.ggml.tokens", tokens).list("tokenizer.ggml.merges", merges);
  file.list("tokenizer.ggml.token_type", types);
  for (std::size_t id = 0; id < tokens.size(); ++id) {
    if (tokens[id] == "<s>") file.number("tokenizer.ggml.bos_token_id", static_cast<std::uint32_t>(id));
    if (tokens[id] == "</s>") file.number("tokenizer.ggml.eos_token_id", static_cast<std::uint32_t>(id));
    if (tokens[id] == "<|end|>") file.number("tokenizer.ggml.eot_token_id", static_cast<std::uint32_t>(id));
  }
  file.words("tokenizer.chat_template", "{{ bos_token }}{{ messages[0].content }}{{ eos_token }}");
  return file;
}

TEST_CASE("a tokenizer in GGUF makes the tokens that Hugging Face's library makes") {
  using Ids = std::vector<std::int32_t>;
  const ScratchFolder folder;
  const Json all = sw::read_json(std::filesystem::path(SHARDWISE_FAMILIES) / "tokenizers.json");
  for (const auto& names : {std::pair("Llama 3", "llama-bpe"), std::pair("Qwen 2.5 and 3", "qwen2"),
                            std::pair("SmolLM2", "smollm")}) {
    const Json& given = all[names.first];
    const std::string pre = names.second;
    CAPTURE(pre);
    const auto path = folder.file("model.gguf", tokenizer_of_family(given["file"], names.second).bytes());
    const auto tokenizer = tokenizer_of(path, 281);
    REQUIRE(tokenizer.has_value());
    CHECK(given["texts"].size() == 19);
    for (const Json& text : given["texts"]) {
      CAPTURE(text);
      const Ids ids = tokenizer->encode(text[0].get<std::string>());
      CHECK(ids == text[1].get<Ids>());
      CHECK(tokenizer->decode(ids) == text[2]);
    }
    CHECK(ends_of(path, tokenizer).front() == tokenizer->id_of("</s>"));
    CHECK(ends_of(path, tokenizer)[1] == tokenizer->id_of("<|end|>"));
    const auto chat = chat_template_of(path);
    REQUIRE(chat.has_value());
    CHECK(chat->render(Json{{{"role", "user"}, {"content", "Hello"}}}, true) == "<s>Hello</s>");
  }
}

TEST_CASE("what lies beside a GGUF file comes first") {
  const ScratchFolder folder;
  const Json all = sw::read_json(std::filesystem::path(SHARDWISE_FAMILIES) / "tokenizers.json");
  const auto path = folder.file("model.gguf", tokenizer_of_family(all["SmolLM2"]["file"], "smollm").bytes());
  Json other = all["SmolLM2"]["file"];
  other["model"]["vocab"] = {{"a", 0}, {"b", 1}};
  other["model"]["merges"] = Json::array();
  other["added_tokens"] = Json::array();
  folder.file("tokenizer.json", other.dump());
  folder.file("chat_template.jinja", "beside");
  CHECK(tokenizer_of(path, 281)->encode("ab") == std::vector{0, 1});
  CHECK(chat_template_of(path)->render(Json::array(), true) == "beside");
}

TEST_CASE("tokenizers that are damaged or not supported are refused") {
  const ScratchFolder folder;
  const auto problem = [&](const gguf::Writer& file) {
    const auto path = folder.file("model.gguf", file.bytes());
    const std::string message = error_of([&] { static_cast<void>(tokenizer_of(path, 281)); });
    CHECK(message.starts_with(path.string() + ": "));
    return message;
  };
  const auto with = [](const char* model, const char* pre, const std::vector<std::string>& tokens,
                       const std::vector<std::int32_t>& types) {
    gguf::Writer file = model_of("llama");
    file.words("tokenizer.ggml.model", model).words("tokenizer.ggml.pre", pre);
    return file.list("tokenizer.ggml.tokens", tokens).list("tokenizer.ggml.token_type", types);
  };
  CHECK(has(problem(with("llama", "default", {"a"}, {1})),
            "tokenizer.ggml.model: it is \"llama\", expected \"gpt2\": put the model's tokenizer.json beside "
            "the file"));
  CHECK(has(problem(with("gpt2", "tekken", {"a"}, {1})),
            "tokenizer.ggml.pre: it is \"tekken\", expected one of llama-bpe, llama3, llama-v3, qwen2, "
            "deepseek-r1-qwen, "
            "smollm, gpt-2: "
            "put the model's tokenizer.json beside the file"));
  CHECK(has(problem(with("gpt2", "gpt-2", {"a", "b"}, {1})),
            "tokenizer.ggml.token_type: it is [1], expected a list of 2"));
  CHECK(has(problem(with("gpt2", "gpt-2", {"a", "a"}, {1, 1})),
            "tokenizer.ggml.tokens[1]: the token is there twice"));
  CHECK(has(problem(with("gpt2", "gpt-2", {"a", "\xff"}, {1, 1})), "invalid UTF-8"));
  CHECK(has(problem(with("gpt2", "gpt-2", {"a", "b"}, {1, 1})), "merges: it is missing"));
  CHECK(has(problem(with("gpt2", "llama-bpe", {"a", "b"}, {1, 1})),
            "bos_token_id: it is missing, expected an integer"));
  gguf::Writer unknown = with("gpt2", "gpt-2", {"a", "b"}, {1, 1});
  unknown.list("tokenizer.ggml.merges", std::vector<std::string>{"a c"});
  CHECK(has(problem(unknown), "the vocabulary has no token"));
  // Without a tokenizer.
  const auto path = folder.file("model.gguf", model_of("llama").bytes());
  CHECK_FALSE(tokenizer_of(path, 281).has_value());
  CHECK(tokenizer_of(path, 256)->encode("a") == std::vector{97});
  CHECK_FALSE(chat_template_of(path).has_value());
  CHECK(ends_of(path, std::nullopt).empty());
}

}  // namespace
