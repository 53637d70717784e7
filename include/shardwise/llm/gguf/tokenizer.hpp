// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// The tokenizer and the template of dialogues in a GGUF file.
///
/// Needs PCRE2 and utf8proc: link `shardwise::tokenizer`. Where these are missing, llm.hpp leaves this header out.

#include <shardwise/llm/gguf/header.hpp>
#include <shardwise/llm/namespaces.hpp>
#include <shardwise/llm/text/chat_template.hpp>
#include <shardwise/llm/text/tokenizer.hpp>

namespace shardwise::llm {

namespace detail {

/// The expressions by which words are cut before they are merged, and the other differences between tokenizers that
/// merge bytes, by the names that llama.cpp has for them.
struct GgufWords {
  std::string_view name, expression, normalizer;
  bool begins,
      whole;  ///< texts begin with a token unless the file says else; a word that is a token stays one
};
inline constexpr std::string_view llama_words =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|)"
    R"( ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
inline constexpr std::string_view qwen_words =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
inline constexpr std::array gguf_words{GgufWords{"llama-bpe", llama_words, "", true, true},
                                       GgufWords{"llama3", llama_words, "", true, true},
                                       GgufWords{"llama-v3", llama_words, "", true, true},
                                       GgufWords{"qwen2", qwen_words, "NFC", false, false},
                                       GgufWords{"deepseek-r1-qwen", qwen_words, "NFC", false, false},
                                       GgufWords{"smollm", "\\p{N}", "", false, false},
                                       GgufWords{"gpt-2", "", "", false, false}};

/// The tokenizer.json that the model would have. Its `dump` throws if texts are not UTF-8.
inline Json gguf_tokenizer_json(const JsonPart& values) {
  const char* const hint = ": put the model's tokenizer.json beside the file";
  const auto part = [&](const char* key) { return values[std::string("tokenizer.ggml.") + key]; };
  if (part("model").json() != "gpt2") part("model").expected(std::string("\"gpt2\"") + hint);
  if (part("pre").null()) part("pre").expected(std::string("a text") + hint);
  const auto* const words = std::ranges::find(gguf_words, part("pre").get<std::string>(), &GgufWords::name);
  if (words == gguf_words.end()) {
    std::string names;
    for (const GgufWords& each : gguf_words) names += (names.empty() ? "" : ", ") + std::string(each.name);
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

}  // namespace detail

/// The tokenizer in a GGUF file, if there is one. Throws `std::runtime_error`, with the file and the value, unless it
/// merges bytes as those of Llama 3, Qwen 2 and 3, SmolLM or GPT-2.
inline std::optional<Tokenizer> read_gguf_tokenizer(const std::filesystem::path& path) {
  const Json values = detail::gguf_values(path);
  if (JsonPart(values)["tokenizer.ggml.model"].null()) return std::nullopt;
  const std::string json =
      prefix_errors(path.string(), [&] { return detail::gguf_tokenizer_json(JsonPart(values)).dump(); });
  return Tokenizer::from_json(json, path.string());
}

/// The template of dialogues in a GGUF file, if there is one. Throws `std::runtime_error`, with the file and the
/// place in it, for templates that `ChatTemplate` does not support.
inline std::optional<ChatTemplate> read_gguf_chat_template(const std::filesystem::path& path) {
  const Json values = detail::gguf_values(path);
  const JsonPart all(values, path.string() + ": ");
  if (all["tokenizer.chat_template"].null()) return std::nullopt;
  const auto token = [&](const char* key) -> std::string {
    const JsonPart id = all[key], tokens = all["tokenizer.ggml.tokens"];
    if (id.null()) return "";
    return tokens[static_cast<std::size_t>(id.integer(0, std::ssize(tokens.json()) - 1))].get<std::string>();
  };
  return ChatTemplate(all.get<std::string>("tokenizer.chat_template"), token("tokenizer.ggml.bos_token_id"),
                      token("tokenizer.ggml.eos_token_id"), path.string() + ": tokenizer.chat_template");
}

}  // namespace shardwise::llm
