// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// Small files that once took all memory, or for ever. Each is refused, or read in no time.

#include <doctest/doctest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include <shardwise/llm/text/tokenizer.hpp>

namespace shardwise::testing::tokenizer_limits {
namespace {

using namespace shardwise;
using namespace shardwise::llm;
using nlohmann::json;

/// The token "a", and one for all other characters.
json small_file() {
  json file = {{"added_tokens", json::array()}};
  file["model"] = {
      {"type", "BPE"}, {"vocab", {{"a", 0}, {"?", 1}}}, {"merges", json::array()}, {"unk_token", "?"}};
  return file;
}
json repeated(const json& step, int times) {
  json steps = json::array();
  for (int i = 0; i < times; ++i) steps.push_back(step);
  return steps;
}
Tokenizer tokenizer(const json& file) { return Tokenizer::from_json(file.dump(), "t.json"); }
json replace(const char* from, const std::string& to) {
  return {{"type", "Replace"}, {"pattern", {{"String", from}}}, {"content", to}};
}
json split_by(const char* expression) {
  return {{"type", "Split"}, {"pattern", {{"Regex", expression}}}, {"behavior", "Isolated"}};
}

TEST_CASE("a file that nests too deep") {
  CHECK_THROWS_WITH_AS(Tokenizer::from_json(std::string(1'000'000, '['), "t.json"),
                       "t.json: lists and objects nest deeper than 100", std::runtime_error);
}

TEST_CASE("an id near 2^31 does not take a table of so many tokens") {
  json file = small_file();
  file["added_tokens"] = {{{"id", 2147483646}, {"content", "<m>"}}};
  const Tokenizer t = tokenizer(file);
  CHECK(t.vocabulary() == 2147483647);
  CHECK(t.encode("a<m>") == std::vector<std::int32_t>{0, 2147483646});
}

TEST_CASE("steps that each double the text") {
  json file = small_file();
  file["normalizer"] = {{"type", "Sequence"}, {"normalizers", repeated(replace("a", "aa"), 60)}};
  CHECK_THROWS_AS(tokenizer(file).encode("a"), std::length_error);

  file = small_file();
  const auto mark = [](const char* by) -> json {
    return {{"type", "Metaspace"}, {"replacement", by}, {"split", false}};
  };
  const json steps = json::array({split_by("."), mark("a"), split_by("."), mark("b")});
  const json all = {{"type", "Sequence"}, {"pretokenizers", steps}};
  file["pre_tokenizer"] = {{"type", "Sequence"}, {"pretokenizers", repeated(all, 12)}};
  CHECK_THROWS_AS(tokenizer(file).encode("b"), std::length_error);

  file = small_file();
  file["decoder"] = {{"type", "Sequence"}, {"decoders", repeated(replace("a", "aa"), 60)}};
  CHECK_THROWS_AS(tokenizer(file).decode(std::vector<std::int32_t>{0}), std::length_error);
}

TEST_CASE("a long prefix of many tokens") {
  json file = small_file();
  file["normalizer"] = {{"type", "Prepend"}, {"prepend", std::string(40'000, 'x')}};
  file["added_tokens"] = {{{"id", 2}, {"content", "t"}}};
  CHECK_NOTHROW(tokenizer(file));
  for (int i = 3; i < 100; ++i)
    file["added_tokens"].push_back({{"id", i}, {"content", "t" + std::to_string(i)}});
  CHECK_THROWS_WITH_AS(tokenizer(file), doctest::Contains("t.json: the tokenizer's steps would make more"),
                       std::runtime_error);
}

TEST_CASE("a pattern of a few bytes that is compiled to many") {
  json file = small_file();
  file["pre_tokenizer"] = split_by("(?:bcd){3000}");
  CHECK_THROWS_WITH_AS(tokenizer(file), "t.json: the pattern \"(?:bcd){3000}\" repeats too long a part",
                       std::runtime_error);
}

TEST_CASE("a pattern that goes back over and over") {
  json file = small_file();
  file["pre_tokenizer"] = split_by("(a+)+[bc]");
  CHECK_THROWS_WITH_AS(tokenizer(file).encode(std::string(100, 'a')),
                       "a regular expression failed: match limit exceeded", std::runtime_error);
}

TEST_CASE("patterns that look to the end for each character") {
  for (const char* pattern : {"a(?=.*a)|a", "a(?=[^b]*c)|a", "a+b|a", "(?=(?:a|b)*c)a|a"}) {
    json file = small_file();
    file["pre_tokenizer"] = split_by(pattern);
    CHECK_THROWS_WITH_AS(tokenizer(file).encode(std::string(300'000, 'a')),
                         doctest::Contains("a regular expression "), std::runtime_error);
    CHECK(tokenizer(file).encode(std::string(1000, 'a')).size() > 0);
  }
  json file = small_file();  // a match that is as long as the text, and one whose end is seen from far
  file["pre_tokenizer"] = split_by("a+(?!b)|b");
  CHECK(tokenizer(file).encode(std::string(3'000'000, 'a')).size() == 3'000'000);
}

TEST_CASE("a token that is named often") {
  json file = small_file();
  json single = repeated({{"SpecialToken", {{"id", "s"}}}}, 1000);
  single.push_back({{"Sequence", {{"id", "A"}}}});
  file["post_processor"] = {
      {"type", "TemplateProcessing"},
      {"single", single},
      {"special_tokens", {{"s", {{"ids", std::vector<int>(1000)}}}}},
  };
  CHECK_THROWS_WITH_AS(tokenizer(file), "t.json: post_processor: expected at most 1024 tokens around a text",
                       std::runtime_error);
}

TEST_CASE("what took a time that grows with the square of a size") {
  json file = small_file();
  for (int i = 0; i < 50'000; ++i) {  // tokens that begin alike
    file["added_tokens"].push_back(
        {{"id", i + 3}, {"content", "<" + std::to_string(i)}, {"normalized", false}});
  }
  CHECK(tokenizer(file).encode(std::string(50'000, '<')).size() == 50'000);

  file = small_file();
  file["added_tokens"] = {{{"id", 2}, {"content", " "}, {"lstrip", true}}};
  CHECK(tokenizer(file).encode(std::string(400'000, ' ')).size() == 400'000);
}

TEST_CASE("a pipe is no file to wait for") {
  const auto path =
      std::filesystem::temp_directory_path() / ("shardwise_pipe_" + std::to_string(std::random_device{}()));
  REQUIRE(::mkfifo(path.c_str(), 0600) == 0);
  CHECK_THROWS_WITH_AS(Tokenizer::from_file(path), (path.string() + ": not a regular file").c_str(),
                       std::runtime_error);
  std::filesystem::remove(path);
}

}  // namespace

}  // namespace shardwise::testing::tokenizer_limits
