// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// Tokens in files: made once, made anew when they must be, and never trusted when they are not whole.

#include <doctest/doctest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include <shardwise/llm/data/open_token_corpus.hpp>
#include <shardwise/llm/text/byte_tokenizer.hpp>

namespace shardwise::testing::token_corpus {
namespace {

using namespace shardwise;
namespace fs = std::filesystem;

class Folder {
 public:
  Folder() { fs::create_directories(path_); }
  ~Folder() { fs::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  fs::path operator/(const std::string& name) const { return path_ / name; }
  const fs::path& path() const { return path_; }

 private:
  fs::path path_ = fs::temp_directory_path() / ("shardwise_tokens_" + std::to_string(std::random_device{}()));
};

void write(const fs::path& path, const std::string& bytes) {
  fs::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary) << bytes;
}
std::string read(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}
ino_t inode(const fs::path& path) {
  struct stat about {};
  REQUIRE(::stat(path.c_str(), &about) == 0);
  return about.st_ino;
}
std::string error_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const std::runtime_error& error) {
    return error.what();
  }
  return "no error";
}
std::size_t files_in(const fs::path& folder) {
  return static_cast<std::size_t>(std::distance(fs::directory_iterator(folder), fs::directory_iterator()));
}

/// A token for each byte, and an end token 256; counts how often it is asked.
struct CountingEncoder {
  Index words = 257;
  std::uint64_t number = 1;
  std::function<void(std::string_view)> before = [](std::string_view) {};
  mutable int calls = 0;

  std::vector<std::int32_t> encode(std::string_view text) const {
    ++calls;
    before(text);
    return llm::ByteTokenizer{}.encode(text);
  }
  Index vocabulary() const { return words; }
  std::optional<std::int32_t> end_token() const { return 256; }
  std::uint64_t fingerprint() const { return number; }
};

std::vector<std::int32_t> all_of(const llm::TokenCorpus& corpus) {
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(corpus.size()));
  corpus.copy(0, tokens);
  for (Index i = 0; i < corpus.size(); ++i) CHECK(corpus[i] == tokens[static_cast<std::size_t>(i)]);
  return tokens;
}

TEST_CASE("fingerprints are XXH64, however the bytes come") {
  CHECK(detail::fingerprint_of("") == 0xef46db3751d8e999u);
  const std::string text = "Nobody inspects the spammish repetition";
  CHECK(detail::fingerprint_of(text) == 0xfbcea83c8a378bf1u);
  const std::string longer = text + text + text + text;
  for (std::size_t cut = 0; cut <= longer.size(); ++cut) {
    Fingerprint pieces;
    pieces.add(std::string_view(longer).substr(0, cut)).add(std::string_view(longer).substr(cut));
    CHECK(pieces.value() == detail::fingerprint_of(longer));
    CHECK(pieces.add(0x0706050403020100u).value() ==
          detail::fingerprint_of(longer + std::string("\0\1\2\3\4\5\6\7", 8)));
  }
}

TEST_CASE("files are documents that end with the end token, in memory and in a cache") {
  const Folder folder;
  write(folder / "text/b.txt", "xyz");
  write(folder / "text/a/1", "ab");
  write(folder / "text/empty", "");
  write(folder / "text/.hidden", "never");
  write(folder / "last", "q");
  const std::vector<std::int32_t> expected{'a', 'b', 256, 'x', 'y', 'z', 256, 'q', 256};
  const std::vector<fs::path> paths{folder / "text", folder / "last"};
  const CountingEncoder encoder;
  const llm::TokenCorpus memory = llm::open_token_corpus(paths, encoder);
  const llm::TokenCorpus made = llm::open_token_corpus(paths, encoder, folder / "cache");
  const llm::TokenCorpus opened = llm::open_token_corpus(paths, encoder, folder / "cache");
  const llm::TokenCorpus alone = llm::TokenCorpus::from_file(folder / "cache");
  for (const llm::TokenCorpus& corpus : {memory, made, opened, alone}) {
    CHECK(all_of(corpus) == expected);
    CHECK(corpus.vocabulary() == 257);
    CHECK(corpus.fingerprint() == memory.fingerprint());
    CHECK(all_of(corpus.part(2, 5).part(1, 3)) == std::vector<std::int32_t>{'x', 'y', 'z'});
    CHECK(corpus.part(9, 0).size() == 0);
    CHECK(corpus.part(0, 9).fingerprint() == corpus.fingerprint());
    CHECK(corpus.part(0, 8).fingerprint() != corpus.fingerprint());
    CHECK(corpus.part(0, 8).fingerprint() != corpus.part(1, 8).fingerprint());
    CHECK_THROWS_WITH_AS(corpus.part(2, 8), "TokenCorpus: tokens 2 to 10 of 9", std::out_of_range);
  }
  // Bytes have no end token; nor does a tokenizer that has added its own get a second one.
  CHECK(all_of(llm::open_token_corpus(paths, llm::ByteTokenizer{})).size() == 6);
  struct Ends : CountingEncoder {
    std::vector<std::int32_t> encode(std::string_view) const { return {1, 256}; }
  };
  CHECK(all_of(llm::open_token_corpus({folder / "last"}, Ends{})) == std::vector<std::int32_t>{1, 256});

  std::vector<std::int32_t> some(3);
  opened.copy(2, some);
  CHECK(some == std::vector<std::int32_t>{256, 'x', 'y'});
  opened.copy(9, std::span<std::int32_t>());
  CHECK_THROWS_WITH_AS(opened.copy(7, some), "TokenCorpus: tokens 7 to 10 of 9", std::out_of_range);
  CHECK_THROWS_AS(opened.copy(-1, some), std::out_of_range);
}

TEST_CASE("a token takes two bytes if the vocabulary fits, else four") {
  const Folder folder;
  write(folder / "text", "abc");
  struct Wide : CountingEncoder {
    std::vector<std::int32_t> encode(std::string_view) const {
      return {0, static_cast<std::int32_t>(words) - 1, 40000};
    }
  };
  for (const Index words : {Index{0x10000}, Index{0x10001}, Index{0x7fffffff}}) {
    Wide encoder;
    encoder.words = words;
    const llm::TokenCorpus corpus = llm::open_token_corpus({folder / "text"}, encoder, folder / "cache");
    CHECK(all_of(corpus) == std::vector<std::int32_t>{0, static_cast<std::int32_t>(words) - 1, 40000, 256});
    CHECK(fs::file_size(folder / "cache") == 72 + 4 * (words == 0x10000 ? 2 : 4));
    CHECK(corpus.fingerprint() == llm::open_token_corpus({folder / "text"}, encoder).fingerprint());
  }
}

TEST_CASE("a cache is made once, and anew when the text or the tokenizer is another") {
  const Folder folder;
  write(folder / "text/a", "first");
  write(folder / "text/b", "second");
  const fs::path cache = folder / "cache";
  CountingEncoder encoder;
  auto open = [&](const std::string& name = "text") {
    encoder.calls = 0;
    return llm::open_token_corpus({folder / name}, encoder, cache);
  };
  open();
  CHECK(encoder.calls == 2);
  auto before = inode(cache);
  auto unchanged = [&] { return encoder.calls == 0 && inode(cache) == before; };
  auto anew = [&] {
    const bool changed = encoder.calls > 0 && inode(cache) != before;
    before = inode(cache);
    return changed;
  };
  open();
  CHECK(unchanged());

  const auto time = fs::last_write_time(folder / "text/a");
  const llm::TokenCorpus old = open();
  write(folder / "text/a", "First");  // as long, and as old
  fs::last_write_time(folder / "text/a", time);
  CHECK(open()[0] == 'F');
  CHECK(anew());
  CHECK(old[0] == 'f');  // who has the old file keeps it

  fs::last_write_time(folder / "text/a", time + std::chrono::hours(1));
  open();
  CHECK(unchanged());  // as the bytes are
  write(folder / "text/c", "third");
  CHECK(open().size() == 6 + 7 + 6);
  CHECK(anew());
  fs::rename(folder / "text/a", folder / "text/z");
  CHECK(open()[0] == 's');
  CHECK(anew());
  fs::rename(folder / "text", folder / "moved");
  open("moved");
  CHECK(unchanged());
  encoder.number = 2;
  open("moved");
  CHECK(anew());
  encoder.words = 300;
  CHECK(open("moved").vocabulary() == 300);
  CHECK(anew());
  open("moved");
  CHECK(unchanged());
  CHECK(files_in(folder.path()) == 2);
}

/// Does something else while the cache is looked at.
struct MeanwhileEncoder : llm::ByteTokenizer {
  std::function<void()> meanwhile;

  Index vocabulary() const {
    if (meanwhile) meanwhile();
    return llm::ByteTokenizer::vocabulary();
  }
};

TEST_CASE("a cache that another run replaces, once it was found to be right, is an error") {
  const Folder folder;
  write(folder / "text", "mine");
  write(folder / "other", "that of another");
  const fs::path cache = folder / "cache";
  llm::open_token_corpus({folder / "text"}, llm::ByteTokenizer(), cache);
  MeanwhileEncoder encoder;
  encoder.meanwhile = [&] { llm::open_token_corpus({folder / "other"}, llm::ByteTokenizer(), cache); };
  const std::string message =
      cache.string() +
      ": another run has replaced it, just now, by one of other text or of another tokenizer; "
      "give each run a cache of its own";
  CHECK_THROWS_WITH_AS(llm::open_token_corpus({folder / "text"}, encoder, cache), message.c_str(),
                       std::runtime_error);
}

TEST_CASE("a cache that another user may change is refused") {
  const Folder folder;
  write(folder / "text", "a b c");
  const fs::path place = folder / "place", cache = place / "cache";
  fs::create_directory(place);
  const auto open = [&] {
    return error_of([&] { llm::open_token_corpus({folder / "text"}, llm::ByteTokenizer(), cache); });
  };
  CHECK(open() == "no error");
  REQUIRE(::chmod(place.c_str(), 0777) == 0);
  CHECK(open().find(place.string() + ": belongs to user " + std::to_string(::geteuid())) == 0);
  CHECK(open().find(", and all users may write to it: keep the cache where only user ") != std::string::npos);
  REQUIRE(::chmod(place.c_str(), 01777) == 0);  // as /tmp
  CHECK(open() == "no error");
  REQUIRE(::chmod(cache.c_str(), 0666) == 0);
  CHECK(open().find(cache.string() + ": belongs to user ") == 0);
  REQUIRE(::chmod(cache.c_str(), 0644) == 0);
  if (::geteuid() != 0) return;  // cannot give files away
  const std::string who =
      ": belongs to user 65534 nobody, who could put other tokens there: keep the cache where only user 0";
  REQUIRE(::chown(cache.c_str(), 65534, 0) == 0);
  CHECK(open().find(cache.string() + who) == 0);
  fs::remove(cache);
  CHECK(open() == "no error");
  REQUIRE(::chown(place.c_str(), 65534, 0) == 0);
  CHECK(open().find(place.string() + who) == 0);
  fs::remove(cache);
  CHECK(open().find(place.string() + who) == 0);
  CHECK_FALSE(fs::exists(cache));
}

TEST_CASE("what is not just as it was written is refused, and stays") {
  const Folder folder;
  write(folder / "text", "some text, long enough");
  const fs::path cache = folder / "cache";
  const CountingEncoder encoder;
  llm::open_token_corpus({folder / "text"}, encoder, cache);
  const std::string good = read(cache);
  REQUIRE(good.size() == 72 + 2 * 23);
  const std::string cure = "; remove it, and it is rebuilt";
  auto refused = [&](const std::string& bytes) {
    write(cache, bytes);
    const std::string error = error_of([&] { llm::open_token_corpus({folder / "text"}, encoder, cache); });
    CHECK(read(cache) == bytes);
    CHECK(files_in(folder.path()) == 2);
    CHECK(error == error_of([&] { llm::TokenCorpus::from_file(cache); }));
    REQUIRE(error.starts_with(cache.string() + ": "));
    return error.substr(cache.string().size() + 2);
  };
  auto changed = [&](std::size_t at, int by) {
    std::string bytes = good;
    bytes[at] = static_cast<char>(bytes[at] ^ by);
    return bytes;
  };

  CHECK(refused("") == "not a file of tokens");
  CHECK(refused("my only copy of something") == "not a file of tokens");
  CHECK(refused(good.substr(0, 5)) == "truncated: it has 5 bytes, but the header alone 72" + cure);
  CHECK(refused(good.substr(0, 71)) == "truncated: it has 71 bytes, but the header alone 72" + cure);
  CHECK(refused(good.substr(0, 72)) ==
        "truncated: 0 bytes of tokens, where 23 tokens of 2 bytes are expected" + cure);
  CHECK(refused(good.substr(0, good.size() - 1)) ==
        "truncated: 45 bytes of tokens, where 23 tokens of 2 bytes are expected" + cure);
  CHECK(refused(good + "x") ==
        "too long: 47 bytes of tokens, where 23 tokens of 2 bytes are expected" + cure);
  CHECK(refused(changed(12, 3)) == "of version 2, but this program reads version 1" + cure);
  std::string swapped = good;
  std::reverse(swapped.begin() + 8, swapped.begin() + 12);
  CHECK(refused(swapped) == "written in another byte order, or damaged" + cure);
  for (std::size_t at = 0; at < 72; ++at) {
    for (const int by : {1, 0x80, 0xff}) {
      const std::string why = refused(changed(at, by));
      if (at >= 16) CHECK(why == "its header is damaged" + cure);
    }
  }
  for (std::size_t at = 72; at < good.size(); ++at)
    CHECK(refused(changed(at, 1)) == "its tokens are damaged" + cure);

  write(cache, good);
  llm::open_token_corpus({folder / "text"}, encoder, cache);
  CHECK(encoder.calls == 1);
  fs::remove(cache);
  fs::create_directory(cache);
  CHECK(error_of([&] { llm::open_token_corpus({folder / "text"}, encoder, cache); }) ==
        cache.string() + ": not a regular file");
  CHECK(error_of([&] { llm::TokenCorpus::from_file(folder / "none"); }) ==
        (folder / "none").string() + ": cannot be opened: No such file or directory");
}

/// Opens in a child process that is killed when it comes to the document "second".
void killed_half_way(const std::vector<fs::path>& paths, CountingEncoder encoder, const fs::path& cache) {
  encoder.before = [](std::string_view text) {
    if (text.starts_with("second")) ::kill(::getpid(), SIGKILL);
  };
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    try {
      llm::open_token_corpus(paths, encoder, cache);
    } catch (...) {
    }
    ::_exit(0);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  REQUIRE(WIFSIGNALED(status));
}

TEST_CASE("a cache that is a symbolic link, or is named as a folder, is refused, and stays") {
  const Folder folder;
  write(folder / "text", "a b c");
  const fs::path cache = folder / "cache", link = folder / "link";
  llm::open_token_corpus({folder / "text"}, llm::ByteTokenizer(), cache);
  const std::string good = read(cache),
                    expected = ": a folder or a symbolic link, expected the name of the file itself";
  const auto error = [&](const fs::path& place) {
    return error_of([&] { llm::open_token_corpus({folder / "text"}, llm::ByteTokenizer(), place); });
  };
  for (const fs::path& to : {cache, folder / "none"}) {
    fs::create_symlink(to, link);
    CHECK(error(link) == link.string() + expected);
    CHECK(fs::read_symlink(link) == to);
    fs::remove(link);
  }
  CHECK(read(cache) == good);
  for (const char* place : {"./", "none/"})
    CHECK(error(folder / place) == (folder / place).string() + expected);
  CHECK(files_in(folder.path()) == 2);
}

TEST_CASE("a file of tokens that shrinks while it is in use is an error of the next copy") {
  const Folder folder;
  write(folder / "text", std::string(100'000, 'x'));
  const fs::path cache = folder / "cache";
  const llm::TokenCorpus corpus = llm::open_token_corpus({folder / "text"}, llm::ByteTokenizer(), cache);
  std::vector<std::int32_t> tokens(10);
  corpus.copy(99'000, tokens);
  const auto size = fs::file_size(cache);
  fs::resize_file(cache, 1000);
  CHECK(error_of([&] { corpus.copy(99'000, tokens); }) ==
        cache.string() + ": in use, but cut from " + std::to_string(size) + " to 1000 bytes");
  fs::resize_file(cache, size);
  corpus.copy(99'000, tokens);  // the place is there again
}

TEST_CASE("who is killed half-way leaves nothing that is trusted") {
  const Folder folder;
  write(folder / "text/a", "first");
  write(folder / "text/b", "second");
  const fs::path cache = folder / "cache";
  const CountingEncoder encoder;
  killed_half_way({folder / "text"}, encoder, cache);
  CHECK(!fs::exists(cache));
  CHECK(files_in(folder.path()) == 2);  // the text, and what was begun
  for (const auto& entry : fs::directory_iterator(folder.path())) {
    if (!entry.is_regular_file()) continue;
    CHECK(entry.path().filename().string().starts_with("cache.tmp-"));
    CHECK(error_of([&] { llm::TokenCorpus::from_file(entry.path()); }) ==
          entry.path().string() + ": not a file of tokens");
    fs::remove(entry.path());
  }
  CHECK(llm::open_token_corpus({folder / "text"}, encoder, cache).size() == 13);

  // An old cache stays until the new one is whole, and is still out of date.
  write(folder / "text/b", "second, longer");
  killed_half_way({folder / "text"}, encoder, cache);
  CHECK(llm::TokenCorpus::from_file(cache).size() == 13);
  CHECK(llm::open_token_corpus({folder / "text"}, encoder, cache).size() == 21);
  CHECK(files_in(folder.path()) == 2);  // what was begun is gone
}

TEST_CASE("errors name the file, and leave none behind") {
  const Folder folder;
  write(folder / "text/a", "first");
  write(folder / "text/b", "second");
  const fs::path cache = folder / "cache";
  auto error = [&](const CountingEncoder& encoder, const std::vector<fs::path>& paths,
                   const fs::path& where) {
    const std::string message = error_of([&] { llm::open_token_corpus(paths, encoder, where); });
    CHECK(files_in(folder.path()) == 1);
    return message;
  };
  CountingEncoder failing;
  failing.before = [](std::string_view text) {
    if (text == "second") throw std::invalid_argument("no such character");
  };
  const std::string b = (folder / "text/b").string();
  CHECK(error(failing, {folder / "text"}, cache) == b + ": cannot be tokenised: no such character");
  CHECK(error(failing, {folder / "text"}, {}) == b + ": cannot be tokenised: no such character");
  const CountingEncoder few{.words = 116};
  CHECK(error(few, {folder / "text"}, cache) == "the tokenizer gave 116, but its vocabulary has 116 tokens");
  const CountingEncoder encoder;
  CHECK(error(encoder, {folder / "none"}, cache) == (folder / "none").string() + ": no such file or folder");
  CHECK(error(encoder, {}, cache) == "there is no text in ");
  CHECK(error(encoder, {folder / "text"}, "/dev/null/cache").find("Not a directory") != std::string::npos);
  CHECK(error(encoder, {folder / "text"}, folder / "none/cache").find("No such file or directory") !=
        std::string::npos);
  CHECK(error(encoder, {folder / "text"}, folder / "text/cache") ==
        (folder / "text/cache").string() + ": the cache would lie in " + (folder / "text").string() +
            ", whose files are the text; name another place, or a hidden file");
  CHECK(llm::open_token_corpus({folder / "text"}, encoder, folder / "text/.cache").size() == 13);
  CHECK(llm::open_token_corpus({folder / "text"}, encoder, folder / "text/.cache").size() == 13);
  write(folder / "text/b", "\xff");
  CHECK(error(encoder, {folder / "text"}, cache) == b + ": not UTF-8 text: byte 0xff at offset 0");
  write(folder / "text/a", "");
  write(folder / "text/b", "");
  CHECK(error(encoder, {folder / "text"}, cache) == "there is no text in " + (folder / "text").string());
}

}  // namespace

}  // namespace shardwise::testing::token_corpus
