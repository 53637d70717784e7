// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// tokenizer.json, and texts through it.

#include <shardwise/llm/text/tokenizer.hpp>

#include "target.hpp"

namespace fuzz {

inline std::string byte_level_seed() {
  nlohmann::json vocabulary = {{"<|endoftext|>", 256}, {"he", 257}, {"ll", 258}, {"hell", 259}};
  for (int byte = 0; byte < 256; ++byte) {
    std::string character;
    shardwise::llm::detail::byte_alphabet.append(character, static_cast<char>(byte));
    vocabulary[character] = byte;
  }
  return nlohmann::json{
      {"version", "1.0"},
      {"added_tokens",
       {{{"id", 256}, {"content", "<|endoftext|>"}, {"special", true}, {"normalized", false}}}},
      {"normalizer", {{"type", "NFC"}}},
      {"pre_tokenizer", {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", true}}},
      {"post_processor",
       {{"type", "TemplateProcessing"},
        {"single",
         {{{"SpecialToken", {{"id", "e"}, {"type_id", 0}}}}, {{"Sequence", {{"id", "A"}, {"type_id", 0}}}}}},
        {"special_tokens", {{"e", {{"id", "e"}, {"ids", {256}}}}}}}},
      {"decoder", {{"type", "ByteLevel"}}},
      {"model", {{"type", "BPE"}, {"vocab", vocabulary}, {"merges", {"h e", "l l", "he ll"}}}}}
      .dump();
}

/// The steps of Llama 2's, a Split as in Llama 3's, and what else there is.
inline std::vector<std::string> small_seeds() {
  const std::string begin =
      R"({"added_tokens":[{"id":9,"content":"<s>","lstrip":true,"rstrip":true,"special":true},)"
      R"({"id":8,"content":"<s","normalized":true}],"normalizer":)";
  const std::string end =
      R"("model":{"type":"BPE","unk_token":"?","fuse_unk":true,"byte_fallback":true,"ignore_merges":true,)"
      R"("vocab":{"?":0,"a":1,"b":2,"ab":3,"▁":4,"<0x41>":5,"l":6},"merges":[["a","b"]]}})";
  const std::string llama =
      R"({"type":"Sequence","normalizers":[{"type":"Prepend","prepend":"▁"},)"
      R"({"type":"Replace","pattern":{"String":" "},"content":"▁"}]},"decoder":{"type":)"
      R"("Sequence","decoders":[{"type":"Replace","pattern":{"String":"▁"},"content":" "},)"
      R"({"type":"ByteFallback"},{"type":"Fuse"},{"type":"Strip","content":" ","start":1,)"
      R"("stop":0}]},)";
  const std::string split =
      R"(null,"pre_tokenizer":{"type":"Sequence","pretokenizers":[{"type":"Split","pattern":)"
      R"({"Regex":"(?i:'s|'t)|[^\\r\\n\\p{L}]?\\p{L}+|\\p{N}{1,3}|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"},)"
      R"("behavior":"Isolated","invert":false},{"type":"Digits","individual_digits":true},)"
      R"({"type":"ByteLevel","add_prefix_space":true,"use_regex":false}]},)";
  const std::string space =
      R"(null,"pre_tokenizer":{"type":"Metaspace","replacement":"▁","prepend_scheme":"first"},)"
      R"("decoder":{"type":"Metaspace","replacement":"▁","add_prefix_space":true},)";
  return {begin + llama + end, begin + split + end, begin + space + end, begin + "null," + end};
}

/// An input is a file, and, behind a zero byte, if there is one, a text.
inline Target tokenizer() {
  std::vector<std::string> seeds = small_seeds();
  seeds.push_back(byte_level_seed());
  seeds.push_back(R"({"added_tokens":[],"model":{"type":"BPE","vocab":{},"merges":[]}})");
  seeds.push_back(
      R"({"added_tokens":[{"id":1,"content":""}],"model":{"type":"BPE","vocab":{"":0},"merges":[["",""]]}})");
  seeds.push_back(
      R"({"added_tokens":[],"normalizer":{"type":"Sequence","normalizers":[]},"pre_tokenizer":{"type":"Sequence",)"
      R"("pretokenizers":[{"type":"Split","pattern":{"Regex":""},"behavior":"Isolated","invert":false}]},"decoder":)"
      R"({"type":"Sequence","decoders":[]},"model":{"type":"BPE","vocab":{"a":0},"merges":[]}})");
  seeds.push_back(
      R"({"normalizer":{"type":"Replace","pattern":{"String":""},"content":""},"pre_tokenizer":{"type":"Metaspace",)"
      R"("replacement":"","prepend_scheme":"always"},"model":{"type":"BPE","vocab":{"a":0},"merges":[]}})");
  for (const std::string& seed : small_seeds()) seeds.push_back(seed + '\0' + "ab <s> ▁aa  \xc3\xa9\n");
  return {
      "tokenizer", seeds, [](std::string_view input) {
        const std::string_view json = input.substr(0, input.find('\0'));
        const std::string_view text = input.substr(std::min(input.size(), json.size() + 1));
        std::vector<shardwise::llm::Tokenizer> made;
        if (!taken("t.json", [&] { made.push_back(shardwise::llm::Tokenizer::from_json(json, "t.json")); }))
          return;
        const shardwise::llm::Tokenizer& tokenizer = made.front();
        for (const std::string_view part :
             {text, std::string_view("hello  <s> 123\r\nab ▁é\U0001f600aaaaaaaaaaaab<|endoftext|>")}) {
          try {
            for (const std::int32_t id : tokenizer.encode(part)) {
              require(id >= 0 && id < tokenizer.vocabulary(), "all ids are less than the vocabulary");
            }
            const auto ids =
                tokenizer.encode(part, {.add_special_tokens = false, .match_special_tokens = false});
            tokenizer.decode(ids, {.skip_special_tokens = false});
          } catch (const std::runtime_error&) {
          } catch (const std::invalid_argument&) {
          } catch (const std::length_error&) {
          }
        }
      }};
}

}  // namespace fuzz
