// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// What is text, and which files of folders are read.

#include <doctest/doctest.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include <shardwise/llm/data/open_token_corpus.hpp>
#include <shardwise/llm/text/byte_tokenizer.hpp>

namespace shardwise::testing::text_files {
namespace {

using namespace shardwise;

TEST_CASE("what is no text") {
  CHECK(llm::first_non_text("a\tb\r\n\u00e9\u4e16\U0001f44d\U0010ffff") == 18);
  CHECK(llm::first_non_text("") == 0);
  for (const char* bad : {"\x01", "\x7f", "\x80", "\xc0\x80", "\xe0\x9f\xbf", "\xed\xa0\x80",
                          "\xf0\x8f\xbf\xbf", "\xf4\x90\x80\x80", "\xf5\x80\x80\x80", "\xe4\xb8"}) {
    CHECK(llm::first_non_text("ab" + std::string(bad) + "c") == 2);
  }
  CHECK(llm::first_non_text(std::string_view("a\0b", 3)) == 1);
}

TEST_CASE("a corpus is files and folders, and errors name the path") {
  namespace fs = std::filesystem;
  const fs::path folder =
      fs::temp_directory_path() / ("shardwise_text_" + std::to_string(std::random_device{}()));
  fs::create_directories(folder / "b" / ".hidden");
  std::ofstream(folder / "c.txt") << "third";
  std::ofstream(folder / "a.txt") << "first ";
  std::ofstream(folder / "b" / "x") << "second ";
  std::ofstream(folder / "b" / ".hidden" / "y") << "never";
  std::ofstream(folder / "b" / "picture.webp") << "\x90";
  const auto text_of = [](const std::vector<fs::path>& paths) {
    const llm::TokenCorpus corpus = llm::open_token_corpus(paths, llm::ByteTokenizer());
    std::vector<std::int32_t> tokens(static_cast<std::size_t>(corpus.size()));
    corpus.copy(0, tokens);
    return llm::ByteTokenizer().decode(tokens);
  };
  CHECK(text_of({folder}) == "first second third");
  CHECK(text_of({folder / "c.txt", folder / "a.txt"}) == "thirdfirst ");

  const auto refused = [&](const fs::path& path, const std::string& why) {
    CHECK_THROWS_WITH_AS(text_of({path}), (path.string() + why).c_str(), std::runtime_error);
  };
  refused(folder / "none", ": no such file or folder");
  std::ofstream(folder / "bad") << "ab\xed\xa0\x80";  // a surrogate
  refused(folder / "bad", ": not UTF-8 text: byte 0xed at offset 2");
  refused(folder / "b" / "picture.webp", ": not UTF-8 text: byte 0x90 at offset 0");
  fs::create_directory(folder / "empty");
  CHECK_THROWS_WITH_AS(text_of({folder / "empty"}),
                       ("there is no text in " + (folder / "empty").string()).c_str(), std::runtime_error);
  CHECK(read_text("/proc/self/status").starts_with("Name:"));  // its size says 0
  CHECK_THROWS_WITH_AS(read_text(folder), (folder.string() + ": not a regular file").c_str(),
                       std::runtime_error);
  fs::remove_all(folder);
}

}  // namespace

}  // namespace shardwise::testing::text_files
