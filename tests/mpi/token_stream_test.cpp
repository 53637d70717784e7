// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// Tokens that are made while steps take them: the same as those of a corpus in memory, from any place on, in bounded
/// memory, and with errors that name the file.

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include <shardwise/llm/data/load_batch.hpp>
#include <shardwise/llm/data/open_token_corpus.hpp>
#include <shardwise/llm/data/token_stream.hpp>
#include <shardwise/llm/text/byte_tokenizer.hpp>
#include <shardwise/mesh/mesh.hpp>

#include "scratch_folder.hpp"

namespace sw = shardwise;
using sw::dp;
using sw::Index;
using sw::tp;
using sw::llm::BatchSampler;
using sw::llm::TokenStream;

namespace {

/// Bytes, with tokens at both ends of a text.
struct Ended {
  static constexpr Index vocabulary() { return 258; }
  static std::optional<std::int32_t> end_token() { return 257; }
  static std::uint64_t fingerprint() { return 7; }
  std::vector<std::int32_t> encode(std::string_view text) const { return encode_part(text, true, true); }
  std::vector<std::int32_t> encode_part(std::string_view text, bool begins, bool ends) const {
    std::vector<std::int32_t> ids = sw::llm::ByteTokenizer().encode(text);
    if (begins) ids.insert(ids.begin(), 256);
    if (ends) ids.push_back(257);
    return ids;
  }
};

/// Bytes, but none of text with a 'b', and no exception of the standard's for text with a 'c'.
struct Odd {
  static constexpr Index vocabulary() { return 256; }
  static std::optional<std::int32_t> end_token() { return std::nullopt; }
  static std::uint64_t fingerprint() { return 8; }
  static std::vector<std::int32_t> encode(std::string_view text) {
    ++calls;
    if (text.find('c') != text.npos) throw 7;
    return text.find('b') == text.npos ? sw::llm::ByteTokenizer().encode(text) : std::vector<std::int32_t>();
  }
  inline static std::atomic<int> calls = 0;
};

/// Lines of different lengths; some begin with white space, and some are longer than a piece.
std::string lines(int count, int seed) {
  std::string text;
  for (int i = 0; i < count; ++i) {
    const int of = (i * 31 + seed * 17) % 37;
    text += of % 5 == 0 ? "  " : "";
    for (int word = 0; word < (of == 7 ? 60 : of); ++word)
      text += word % 3 == 2 ? "\u00e9" : std::to_string(word + i);
    text += of % 11 == 0 ? "\r\n" : "\n";
  }
  return text;
}

constexpr Index piece_bytes = 100;

BatchSampler steps_of(Index tokens, Index length = 7, Index batch = 6) {
  return {tokens, {.length = length, .batch = batch, .micro_batches = 2, .shuffle = false}};
}

/// The text of the files in the order of a stream, for some epochs.
std::string in_order_of_stream(const std::filesystem::path& folder, std::uint64_t seed,
                               std::uint64_t epochs) {
  const sw::llm::detail::TextPieces pieces({folder}, piece_bytes);
  std::string text;
  for (std::uint64_t epoch = 0; epoch < epochs; ++epoch) {
    const sw::llm::Permutation order(pieces.count(), seed, epoch);
    for (Index i = 0; i < pieces.count(); ++i) text += pieces.read(order(i)).text;
  }
  return text;
}

/// The tokens of a stream from a place on, as one row for each step.
std::vector<std::int32_t> tokens_of(TokenStream& stream, Index step, Index steps) {
  const BatchSampler sampler = steps_of(stream.size());
  std::vector<std::int32_t> all, tokens(42);
  for (const Index end = step + steps; step < end; ++step) {
    stream.fetch(sampler, step);
    stream.copy(42 * step, tokens);
    all.insert(all.end(), tokens.begin(), tokens.end());
  }
  return all;
}

Index resident_bytes() {
  std::ifstream status("/proc/self/statm");
  Index all = 0, resident = 0;
  status >> all >> resident;
  return resident * ::sysconf(_SC_PAGESIZE);
}

}  // namespace

TEST_CASE("pieces of files are all of them, and end with lines") {
  const ScratchFolder folder;
  const std::string text = lines(200, 1);
  folder.file("a", text);
  folder.file("b", "");
  folder.file("c", text.substr(0, 100));
  folder.file("d", std::string(1000, 'x'));
  const sw::llm::detail::TextPieces pieces({folder.path()}, piece_bytes);
  CHECK(pieces.count() == (std::ssize(text) + 99) / 100 + 1 + 10);
  std::string all;
  Index begin = 0, at_lines = 0;
  int begins = 0, ends = 0;
  for (Index i = 0; i < pieces.count(); ++i) {
    const auto piece = pieces.read(i);
    if (piece.begins) begin = 0;
    CHECK(piece.offset == begin);
    begin += std::ssize(piece.text);
    CHECK(std::ssize(piece.text) <= 2 * piece_bytes);
    CHECK(sw::llm::first_non_text(piece.text) == piece.text.size());
    at_lines += all.ends_with('\n') && piece.text.find_first_of(" \r\n") != 0 ? 1 : 0;
    begins += piece.begins && !piece.text.empty() ? 1 : 0;
    ends += piece.ends && !piece.text.empty() ? 1 : 0;
    all += piece.text;
  }
  CHECK(all == text + text.substr(0, 100) + std::string(1000, 'x'));
  CHECK(begins == 3);
  CHECK(ends == 3);
  CHECK(at_lines > pieces.count() / 2);
  const std::string b = (folder / "b").string();
  CHECK(error_of([&] {
          sw::llm::detail::TextPieces({b, b}, 100);
        }) == b + ", " + b + ": there is no text (files: 2)");
  CHECK_THROWS_WITH(sw::llm::detail::TextPieces({folder / "a"}, (Index{1} << 40) + 1),
                    "pieces of 1099511627777 bytes of text, expected 16 to 1099511627776");
}

TEST_CASE("batches of a stream are those of a corpus in memory") {
  const ScratchFolder folder;
  std::filesystem::create_directory(folder / "text");
  sw::world().barrier();
  folder.file("text/a", lines(60, 1));
  folder.file("text/b", lines(25, 2));
  const auto reordered = folder.file("reordered", in_order_of_stream(folder / "text", 5, 3));
  const auto same = [](const auto& mesh, TokenStream& stream, const sw::llm::TokenCorpus& corpus) {
    const BatchSampler of_stream = steps_of(stream.size()), of_corpus = steps_of(corpus.size());
    for (Index step = 0; step < of_corpus.steps_per_epoch(); ++step) {
      stream.fetch(of_stream, step);
      for (Index micro = 0; micro < 2; ++micro) {
        const auto found = sw::llm::load_batch(mesh, stream, of_stream, step, micro);
        const auto right = sw::llm::load_batch(mesh, corpus, of_corpus, step, micro);
        REQUIRE(found.inputs.local() == right.inputs.local());
        REQUIRE(found.targets.local() == right.targets.local());
        REQUIRE(found.counted == right.counted);
      }
    }
  };
  for (const int columns : {1, 2}) {
    if (sw::world().size() % columns != 0) continue;
    const sw::Mesh<dp, tp> mesh(sw::world(), {sw::any, columns});
    // Shuffled: the text in another order. Longer than what two epochs have.
    TokenStream shuffled(mesh, {folder / "text"}, sw::llm::ByteTokenizer(),
                         {.piece = piece_bytes, .seed = 5});
    same(mesh, shuffled, sw::llm::open_token_corpus(mesh, {reordered}, sw::llm::ByteTokenizer()));
    CHECK(shuffled.position().piece >= 3 * shuffled.pieces() - 1);
    // In order: also with tokens at the ends of files.
    TokenStream in_order(mesh, {folder / "text"}, Ended(), {.piece = piece_bytes, .shuffle = false});
    same(mesh, in_order, sw::llm::open_token_corpus(mesh, {folder / "text"}, Ended()));
  }
}

TEST_CASE("a stream continues at a position, on any number of ranks") {
  const ScratchFolder folder;
  const auto file = folder.file("a", lines(50, 3));
  const sw::Mesh<dp, tp> mesh(sw::world(), {sw::any, 1});
  const auto open = [&](const sw::Communicator& ranks) {
    return TokenStream(ranks, {file}, sw::llm::ByteTokenizer(), {.piece = piece_bytes, .seed = 2});
  };
  TokenStream first = open(sw::world());
  const std::vector<std::int32_t> all = tokens_of(first, 0, 150);  // more than an epoch
  for (const Index step : {0, 1, 20, 100}) {
    TokenStream before = open(mesh.communicator<tp>());  // each rank alone
    tokens_of(before, 0, step);
    for (const bool alone : {false, true}) {
      TokenStream after = open(alone ? mesh.communicator<tp>() : sw::world());
      after.seek(before.position());
      CHECK(tokens_of(after, step, 5) ==
            std::vector<std::int32_t>(all.begin() + 42 * step, all.begin() + 42 * (step + 5)));
    }
  }
  // It also goes back to a position, skips steps, and repeats one.
  first.seek({});
  CHECK(tokens_of(first, 30, 2) == std::vector<std::int32_t>(all.begin() + 42 * 30, all.begin() + 42 * 32));
  CHECK(tokens_of(first, 31, 1) == std::vector<std::int32_t>(all.begin() + 42 * 31, all.begin() + 42 * 32));
  CHECK_THROWS_WITH(
      first.fetch(steps_of(first.size()), 30),
      "TokenStream: step 30 begins with token 1260, but those before 1302 were dropped: seek a position");
  CHECK_THROWS_WITH(first.seek({3, 0, 4}), "TokenStream: token 3 as number 4 of piece 0 is not a position");
  CHECK_THROWS_WITH(
      first.fetch(steps_of(1000), 0),
      "TokenStream: the sampler has 1000 tokens, expected 4611686018427387904 and no shuffling");
  CHECK_THROWS_WITH(first.fetch(steps_of(first.size()), 32, 0), "TokenStream: 0 steps, expected at least 1");
  std::vector<std::int32_t> some(2);
  CHECK_THROWS_WITH(first.copy(1301, some),
                    doctest::Contains("TokenStream: tokens 1301 to 1303, but 1302 to "));
}

TEST_CASE("a file that changes while it streams is named by all ranks, when its turn comes") {
  const ScratchFolder folder;
  const bool writes = sw::world().rank() == 0;
  const auto path = folder.file("a", std::string(40 * 42, 'a')),
             other = folder.file("b", std::string(20000, 'b'));
  const auto error = [&](auto change) {
    folder.file("b", std::string(20000, 'b'));
    TokenStream stream(sw::world(), {folder.path()}, sw::llm::ByteTokenizer(),
                       {.piece = 42, .shuffle = false});
    tokens_of(stream, 0, 1);
    if (writes) change();
    sw::world().barrier();
    tokens_of(stream, 1, 38);  // the other file's
    const std::string first = error_of([&] { tokens_of(stream, 39, 300); });
    CHECK(error_of([&] { tokens_of(stream, 350, 1); }) == first);
    const sw::llm::StreamPosition failed = stream.position();  // that of the step that failed
    CHECK(failed.token == 350 * 42);
    CHECK(42 * failed.piece + failed.offset == failed.token);
    const std::vector<std::string> all = sw::world().all_gather(first);
    CHECK(std::count(all.begin(), all.end(), first) == sw::world().size());
    return first;
  };
  const std::string begin = "TokenStream: " + other.string();
  CHECK(has(error([&] { std::filesystem::remove(other); }), begin + ": cannot be opened: No such file"));
  CHECK(has(error([&] { std::filesystem::resize_file(other, 10000); }),
            begin + ": it had 20000 bytes when the run began, and has 10000"));
  CHECK(has(error([&] {
              std::filesystem::last_write_time(
                  other, std::filesystem::file_time_type::clock::now() + std::chrono::seconds(9));
            }),
            begin + ": it was written to after the run had begun"));
  CHECK(has(error([&] {
              std::filesystem::remove(other);
              std::filesystem::create_directory(other);
            }),
            begin + ": it had 20000 bytes"));
  if (writes) std::filesystem::remove(other);
  sw::world().barrier();
  folder.file("b", std::string(50, 'b') + "\xff" + std::string(500, 'b'));
  TokenStream stream(sw::world(), {other}, sw::llm::ByteTokenizer(), {.piece = 42, .shuffle = false});
  CHECK(has(error_of([&] { tokens_of(stream, 0, 1); }), begin + ": not UTF-8 text: byte 0xff at offset 50"));
  folder.file("c", "");
  CHECK(has(error_of([&] { TokenStream(sw::world(), {folder / "c"}, sw::llm::ByteTokenizer()); }),
            "c: there is no text"));
  const bool is_last = sw::world().rank() == sw::world().size() - 1;
  if (sw::world().size() == 1) return;
  const std::string begin_of_last = "TokenStream: rank " + std::to_string(sw::world().size() - 1) + ": ";
  CHECK_THROWS_WITH(TokenStream(sw::world(), {is_last ? path : other}, sw::llm::ByteTokenizer()),
                    (begin_of_last + "bytes of text 1680, rank 0: bytes of text 551").c_str());
  CHECK_THROWS_WITH(TokenStream(sw::world(), {path}, sw::llm::ByteTokenizer(), {.seed = is_last ? 2u : 1u}),
                    (begin_of_last + "seed 2, rank 0: seed 1").c_str());
  CHECK_THROWS_WITH(TokenStream(sw::world(), {path}, sw::llm::ByteTokenizer(), {.shuffle = is_last}),
                    (begin_of_last + "shuffle true, rank 0: shuffle false").c_str());
  TokenStream apart(sw::world(), {path}, sw::llm::ByteTokenizer(), {.piece = 42, .shuffle = false});
  if (is_last) apart.seek({42, 1, 0});
  CHECK_THROWS_WITH(apart.fetch(steps_of(apart.size()), 1),
                    (begin_of_last + "begins with token 42, rank 0: begins with token 0").c_str());
  apart.seek({});
  CHECK(tokens_of(apart, 0, 40) == std::vector<std::int32_t>(40 * 42, 'a'));
}

TEST_CASE("a rank that cannot start its thread fails all, and a later fetch has the same tokens") {
  const ScratchFolder folder;
  const auto path = folder.file("a", lines(50, 3));
  TokenStream stream(sw::world(), {path}, sw::llm::ByteTokenizer(), {.piece = 42, .shuffle = false});
  const int last = sw::world().size() - 1;
  pthread_attr_t before, huge;
  pthread_getattr_default_np(&before);
  pthread_attr_init(&huge);
  pthread_attr_setstacksize(&huge, std::size_t{1} << 50);  // more than addresses
  if (sw::world().rank() == last) pthread_setattr_default_np(&huge);
  const std::string error = error_of([&] { tokens_of(stream, 0, 1); });
  pthread_setattr_default_np(&before);
  CHECK(has(error, "TokenStream: a thread that tokenizes: a thread cannot be started"));
  CHECK(has(error, "(rank " + std::to_string(last) + ")"));
  const auto right = sw::llm::ByteTokenizer().encode(lines(50, 3));
  CHECK(tokens_of(stream, 0, 20) == std::vector<std::int32_t>(right.begin(), right.begin() + 20 * 42));
}

TEST_CASE("an encoder may make no tokens of a piece, or throw anything") {
  const ScratchFolder folder;
  folder.file("a", std::string(420, 'a'));
  const auto b = folder.file("b", std::string(4200, 'b'));
  const sw::llm::StreamOptions in_order{.piece = 42, .shuffle = false};
  TokenStream stream(sw::world(), {folder.path()}, Odd(), in_order);
  tokens_of(stream, 0, 1);
  std::this_thread::sleep_for(std::chrono::milliseconds(100));  // in which it would go on
  CHECK(Odd::calls <= 200);  // it does not go through the text again and again
  CHECK(tokens_of(stream, 1, 30) == std::vector<std::int32_t>(30 * 42, 'a'));
  TokenStream none(sw::world(), {b}, Odd(), in_order);
  for (int i = 0; i < 2; ++i) {
    CHECK(error_of([&] { tokens_of(none, 0, 1); }) ==
          "TokenStream: the tokenizer makes no tokens of the text that begins with " + b.string() +
              " (pieces: 100)");
    none.seek({});
  }
  folder.file("c", "c");
  TokenStream thrown(sw::world(), {folder / "c"}, Odd(), in_order);
  CHECK(has(error_of([&] { tokens_of(thrown, 0, 1); }),
            "TokenStream: the tokenizer threw another type than std::exception"));
}

TEST_CASE("a stream takes little memory") {
  const ScratchFolder folder;
  std::string part;
  while (part.size() < 1 << 20) part += lines(100, static_cast<int>(part.size()));
  constexpr Index parts = 32;
  if (sw::world().rank() == 0) {
    std::ofstream out(folder / "a", std::ios::binary);
    for (Index i = 0; i < parts; ++i) out << part;
  }
  sw::world().barrier();
  const Index before = resident_bytes();
  Index most = 0;
  TokenStream stream(sw::world(), {folder / "a"}, sw::llm::ByteTokenizer(), {.piece = 1 << 14});
  const BatchSampler sampler = steps_of(stream.size(), 1024, 64);
  for (Index step = 0; stream.position().piece < stream.pieces(); ++step) {
    stream.fetch(sampler, step);
    most = std::max(most, resident_bytes() - before);
  }
  CHECK(stream.position().token > parts << 20);
  CHECK(most < 8 << 20);
}
