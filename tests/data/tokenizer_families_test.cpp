// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// The tokenizers of families of models: tests/reference/tokenizers.mjs made the expected tokens with Hugging Face's
/// library, from small files with the same steps.

#include <doctest/doctest.h>

#include <filesystem>
#include <string>
#include <vector>

#include <shardwise/llm/text/tokenizer.hpp>

namespace shardwise::testing::tokenizer_families {

TEST_CASE("the tokenizers of each family make the tokens that Hugging Face's library makes") {
  using Ids = std::vector<std::int32_t>;
  const Json all = read_json(std::filesystem::path(SHARDWISE_FAMILIES) / "tokenizers.json");
  CHECK(all.size() == 9);
  for (const auto& each : all.items()) {
    const auto& family = each.key();
    const auto& given = each.value();
    CAPTURE(family);
    Json file = given["file"];
    const bool fallback = file["model"]["byte_fallback"];
    for (int byte = 0; byte < 256; ++byte) {
      std::string token;
      llm::detail::byte_alphabet.append(token, static_cast<char>(byte));
      file["model"]["vocab"][fallback ? llm::BytePairEncoding::byte_token(byte) : token] =
          fallback ? 3 + byte : byte;
    }
    const llm::Tokenizer tokenizer = llm::Tokenizer::from_json(file.dump(), family);
    CHECK(given["texts"].size() == 19);
    for (const Json& text : given["texts"]) {
      CAPTURE(text);
      const Ids ids = tokenizer.encode(text[0].get<std::string>());
      CHECK(ids == text[1].get<Ids>());
      CHECK(tokenizer.decode(ids) == text[2]);
    }
  }
}

}  // namespace shardwise::testing::tokenizer_families
