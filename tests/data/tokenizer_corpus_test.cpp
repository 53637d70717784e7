// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// Corpora of a `tokenizer.json`.

#include <doctest/doctest.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include <shardwise/llm/data/open_token_corpus.hpp>
#include <shardwise/llm/text/tokenizer.hpp>

namespace shardwise::testing::tokenizer_corpus {
namespace {

using namespace shardwise;
using namespace shardwise::llm;
namespace fs = std::filesystem;

std::string letters(const std::string& end) {
  return R"({"version": "1.0", "model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2},
          "merges": [["a", "b"]]}, "added_tokens": [{"id": 3, "content": ")" +
         end + R"(", "special": true, "single_word": false, "lstrip": false, "rstrip": false,
          "normalized": false}]})";
}

TEST_CASE("a tokenizer's fingerprint is that of its file") {
  const auto tokenizer = Tokenizer::from_json(letters("</s>"));
  CHECK(tokenizer.fingerprint() == Tokenizer::from_json(letters("</s>")).fingerprint());
  CHECK(tokenizer.fingerprint() != Tokenizer::from_json(letters("<|endoftext|>")).fingerprint());
  CHECK(tokenizer.fingerprint() != Tokenizer::bytes().fingerprint());
  CHECK(Tokenizer::bytes().fingerprint() == ByteTokenizer::fingerprint());
}

TEST_CASE("documents are separated by the end token, also where the text has it") {
  const fs::path folder =
      fs::temp_directory_path() / ("shardwise_corpus_" + std::to_string(std::random_device{}()));
  fs::create_directories(folder);
  std::ofstream(folder / "1") << "abb";
  std::ofstream(folder / "2") << "b</s>a</s>";
  const auto corpus = open_token_corpus({folder}, Tokenizer::from_json(letters("</s>")));
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(corpus.size()));
  corpus.copy(0, tokens);
  CHECK(tokens == std::vector<std::int32_t>{2, 1, 3, 1, 3, 0, 3});
  CHECK(corpus.vocabulary() == 4);
  const auto bytes = open_token_corpus({folder}, Tokenizer::bytes());
  CHECK(bytes.fingerprint() == open_token_corpus({folder}, ByteTokenizer{}).fingerprint());
  fs::remove_all(folder);
}

}  // namespace

}  // namespace shardwise::testing::tokenizer_corpus
