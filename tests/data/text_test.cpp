// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// Text corpora, and the batches drawn from them.

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <random>
#include <set>
#include <string>
#include <string_view>

#include <shardwise/data/text.hpp>

namespace {

using namespace shardwise;

TEST_CASE("what is no text") {
  CHECK(first_non_text("a\tb\r\n\u00e9\u4e16\U0001f44d\U0010ffff") == 18);
  CHECK(first_non_text("") == 0);
  for (const char* bad : {"\x01", "\x7f", "\x80", "\xc0\x80", "\xe0\x9f\xbf", "\xed\xa0\x80",
                          "\xf0\x8f\xbf\xbf", "\xf4\x90\x80\x80", "\xf5\x80\x80\x80", "\xe4\xb8"}) {
    CHECK(first_non_text("ab" + std::string(bad) + "c") == 2);
  }
  CHECK(first_non_text(std::string_view("a\0b", 3)) == 1);
  CHECK(first_non_text("\xff\xff", 1) == 1);
  CHECK(first_non_text("\xff", 1) == 1);
}

/// Position i is token i, of as many as are asked for: no memory.
struct LongText {
  std::int64_t length;
  std::size_t size() const { return static_cast<std::size_t>(length); }
  std::int32_t operator[](std::size_t position) const {
    return static_cast<std::int32_t>(position & 0x7fffffff);
  }
};

TEST_CASE("a batch is a function of seed and step, and its targets are one further on") {
  const LongText text{1000};
  const TokenBatch batch = sample_batch(text, 3, 5, 4, 7);
  REQUIRE(batch.inputs.size() == 28);
  for (std::size_t i = 0; i < batch.inputs.size(); ++i) {
    CHECK(batch.targets[i] == batch.inputs[i] + 1);
    if (i % 7 > 0) CHECK(batch.inputs[i] == batch.inputs[i - 1] + 1);
    CHECK(batch.targets[i] < 1000);
  }
  CHECK(sample_batch(text, 3, 5, 4, 7).inputs == batch.inputs);
  CHECK(sample_batch(text, 3, 6, 4, 7).inputs != batch.inputs);
  CHECK(sample_batch(text, 4, 5, 4, 7).inputs != batch.inputs);
  // The sequences of one step are those of twice as many steps with half of them each.
  const TokenBatch second = sample_batch(text, 3, 11, 2, 7);
  CHECK(std::equal(second.inputs.begin(), second.inputs.end(), batch.inputs.begin() + 14));
  CHECK_THROWS_WITH_AS(sample_batch(text, 0, 0, 1, 1000),
                       "the text has 1000 tokens, but a sequence needs 1001", std::invalid_argument);
}

TEST_CASE("every start is drawn: of a short text, and with all bits of a long one") {
  std::set<std::int32_t> starts;
  for (Index step = 0; step < 200; ++step) starts.insert(sample_batch(LongText{9}, 1, step, 1, 4).inputs[0]);
  CHECK(starts == std::set<std::int32_t>{0, 1, 2, 3, 4});

  // Of 2^31 starts, with 24 bits all would be multiples of 128.
  std::set<std::int32_t> rests;
  const LongText text{(std::int64_t{1} << 31) + 1};
  for (Index step = 0; step < 2000; ++step) rests.insert(sample_batch(text, 1, step, 1, 1).inputs[0] % 128);
  CHECK(rests.size() == 128);
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
  CHECK(TextCorpus({folder}).text() == "first second third");
  CHECK(TextCorpus({folder / "c.txt", folder / "a.txt"}).text() == "thirdfirst ");
  CHECK(TextCorpus({folder / "c.txt"})[0] == 't');

  const auto refused = [](const fs::path& path, const std::string& why) {
    CHECK_THROWS_WITH_AS(TextCorpus({path}), (path.string() + why).c_str(), std::runtime_error);
  };
  refused(folder / "none", ": no such file or folder");
  std::ofstream(folder / "bad") << "ab\xed\xa0\x80";  // a surrogate
  refused(folder / "bad", ": not UTF-8 text: byte 0xed at offset 2");
  fs::create_directory(folder / "empty");
  CHECK_THROWS_WITH_AS(TextCorpus({folder / "empty"}),
                       ("there is no text in " + (folder / "empty").string()).c_str(), std::runtime_error);
  CHECK_THROWS_WITH_AS(detail::bytes_of_file(folder),
                       (folder.string() + ": cannot be read: Is a directory").c_str(), std::runtime_error);
  fs::remove_all(folder);
}

}  // namespace
