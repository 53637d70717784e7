// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// Files that are made to do harm: they are refused, and take no more memory or time than what they hold. Much of
/// it was found by the programs in tests/fuzz/. (Those of tokenizers are in tokenizer_test.cpp.)

#include <doctest/doctest.h>
#include <fcntl.h>
#include <malloc.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <string_view>

#include <shardwise/checkpoint/manifest_file.hpp>
#include <shardwise/io/mapped_file.hpp>
#include <shardwise/io/new_folder.hpp>
#include <shardwise/llm/data/token_corpus.hpp>
#include <shardwise/llm/models/llama/config_file.hpp>
#include <shardwise/weights/weights.hpp>

namespace shardwise::testing::damaged_files {
namespace {

/// What the file system refuses, by the numbers of the errors; 0: nothing.
struct Refused {
  int fsync_of_folders = 0, fchmod = 0, shared_mmap = 0, mmap = 0;
} refusing;

int refuse(int code) {
  errno = code;
  return -1;
}

}  // namespace
}  // namespace shardwise::testing::damaged_files

// These are called instead of the C library's.
extern "C" int fsync(int descriptor) {
  using shardwise::testing::damaged_files::refusing;
  struct stat about {};
  if (refusing.fsync_of_folders != 0 && ::fstat(descriptor, &about) == 0 && S_ISDIR(about.st_mode))
    return shardwise::testing::damaged_files::refuse(refusing.fsync_of_folders);
  return static_cast<int>(::syscall(SYS_fsync, descriptor));
}
extern "C" int fchmod(int descriptor, ::mode_t mode) noexcept {
  using shardwise::testing::damaged_files::refusing;
  if (refusing.fchmod != 0) return shardwise::testing::damaged_files::refuse(refusing.fchmod);
  return static_cast<int>(::syscall(SYS_fchmod, descriptor, mode));
}
extern "C" void* mmap(void* where, std::size_t bytes, int protection, int flags, int descriptor,
                      ::off_t offset) noexcept {
  using shardwise::testing::damaged_files::refusing;
  const int code = descriptor < 0                                    ? 0
                   : (flags & MAP_SHARED) != 0 && refusing.mmap == 0 ? refusing.shared_mmap
                                                                     : refusing.mmap;
  if (code != 0) {
    errno = code;
    return MAP_FAILED;
  }
  return reinterpret_cast<void*>(::syscall(SYS_mmap, where, bytes, protection, flags, descriptor, offset));
}

namespace shardwise::testing::damaged_files {
namespace {

using namespace shardwise;
namespace fs = std::filesystem;

class Folder {
 public:
  Folder() { fs::create_directories(path_); }
  ~Folder() { fs::remove_all(path_); }
  Folder(const Folder&) = delete;
  fs::path operator/(const std::string& name) const { return path_ / name; }
  const fs::path& path() const { return path_; }
  fs::path file(const std::string& name, std::string_view bytes) const {
    std::ofstream(path_ / name, std::ios::binary) << bytes;
    return path_ / name;
  }

 private:
  fs::path path_ =
      fs::temp_directory_path() / ("shardwise_damaged_" + std::to_string(std::random_device{}()));
};

/// The message of the `std::runtime_error` that f throws, behind what begins it.
template <class F>
std::string error_of(const std::string& source, F f) {
  try {
    f();
  } catch (const std::runtime_error& error) {
    const std::string message = error.what();
    REQUIRE(message.starts_with(source + ": "));
    return message.substr(source.size() + 2);
  }
  return "no error";
}
std::string json_error(std::string_view text) {
  return error_of("j", [&] { parse_json(text, "j"); });
}
std::string repeated(std::string_view part, std::size_t times) {
  std::string text;
  for (std::size_t i = 0; i < times; ++i) text += part;
  return text;
}

::mode_t mode_of(const fs::path& path) { return detail::status_of(path)->st_mode & 07777u; }

TEST_CASE("a file system that cannot flush folders, set modes or map files serves as any other") {
  const Folder folder;
  const auto file = folder.file("a", "old");
  fs::permissions(file, fs::perms(0640));
  for (const int flush : {EINVAL, EOPNOTSUPP, ENOSYS}) {
    refusing = {.fsync_of_folders = flush};
    write_file_atomically(file, "new" + std::to_string(flush));
    CHECK(read_text(file) == "new" + std::to_string(flush));
    CHECK(mode_of(file) == 0640);
  }
  for (const int mode : {ENOSYS, EPERM, EOPNOTSUPP}) {
    refusing = {.fchmod = mode};
    const auto fresh = folder.file("fresh", "old");
    fs::permissions(fresh, fs::perms(0640));
    write_file_atomically(fresh, "new");  // is made with less
    CHECK(read_text(fresh) == "new");
    CHECK(mode_of(fresh) == 0600);
    write_file_atomically(fresh, "newer");  // which is then its mode
    fs::remove(fresh);

    const auto private_folder = folder / "folder";
    fs::create_directory(private_folder);
    std::ofstream(private_folder / "a") << "old";
    fs::permissions(private_folder / "a", fs::perms(0600));
    const auto replace = [&] {
      detail::NewFolder made(private_folder, 1, [](const fs::path&) {});
      detail::write_new_file(made.path() / "a", "new");
      made.commit();
    };
    CHECK_THROWS_WITH_AS(replace(), doctest::Contains("cannot have the mode of what it replaces"),
                         std::runtime_error);
    CHECK(read_text(private_folder / "a") == "old");  // others could have read the new one
    fs::remove_all(private_folder);
  }
  for (const Refused& each : {Refused{.shared_mmap = ENODEV}, Refused{.shared_mmap = ENODEV, .mmap = ENODEV},
                              Refused{.shared_mmap = EOPNOTSUPP, .mmap = ENOSYS}}) {
    refusing = each;
    detail::MappedFile opened(file);
    const detail::MappedFile mapped(std::move(opened));
    mapped.will_need(0, mapped.size());
    mapped.release(0, mapped.size());  // what is read again, or stays
    CHECK(mapped.bytes() == read_text(file));
    CHECK(detail::MappedFile(folder.file("empty", "")).size() == 0);
  }
  refusing = {};
}

TEST_CASE("a failure of the device is one") {
  const Folder folder;
  const auto file = folder.file("a", "old");
  refusing = {.fsync_of_folders = EIO};
  CHECK_THROWS_WITH_AS(write_file_atomically(file, "new"),
                       doctest::Contains("cannot be flushed to the device: Input/output"),
                       std::runtime_error);
  refusing = {.fchmod = EIO};
  fs::permissions(file, fs::perms(0640));
  CHECK_THROWS_WITH_AS(write_file_atomically(file, "new"), doctest::Contains("cannot have the mode"),
                       std::runtime_error);
  refusing = {.shared_mmap = EACCES, .mmap = EACCES};
  CHECK_THROWS_WITH_AS(detail::MappedFile{file}, doctest::Contains("cannot be mapped: Permission denied"),
                       std::runtime_error);
  refusing = {};
}

TEST_CASE("JSON that nests a million deep") {
  const std::string deep = "lists and objects nest deeper than 100";
  CHECK(json_error(repeated("[", 1'000'000)) == deep);
  CHECK(json_error(repeated("[", 1'000'000) + repeated("]", 1'000'000)) == deep);
  CHECK(json_error(repeated(R"({"a":)", 1'000'000)) == deep);
  CHECK(json_error(repeated("[", 101) + repeated("]", 101)) == deep);
  CHECK(json_error(repeated("[", 100) + repeated("]", 100)) == "no error");
}

TEST_CASE("a JSON list takes no more memory than its text and 16 MiB") {
  CHECK(json_error("[" + repeated("0,", 500'000) + "0]") == "no error");
  CHECK(json_error("[" + repeated("0,", 2'000'000) + "0]") ==
        "a list of more than 649288 values in a text of this size");
}

TEST_CASE("JSON is what nlohmann reads, but for keys that are there twice") {
  for (const std::string text :
       {R"({"a":[1,-2,3.5,"x",true,false,null,{},[]],"b":{"a":{"c":[[{"d":1}]]},"e":18446744073709551615}})",
        "[]", "7", "\"x\"", "null", R"([{"a":1},{"a":2}])", R"({"a":{"a":1},"b":{"a":2}})"}) {
    CHECK(parse_json(text, "j") == Json::parse(text));
  }
  CHECK(json_error(R"({"a":1,"a":2})") == "the key \"a\" is there twice in one object");
  CHECK(json_error(R"({"b":[{"a":{},"c":1,"a":2}]})") == "the key \"a\" is there twice in one object");
  for (const std::string text : {"", "{", "[1,]", "{} {}", "1e999", "\"\xff\"", R"("\ud800")"}) {
    CHECK(json_error(text).starts_with("not JSON: "));
  }
  CHECK(json_error("[" + std::string(1'000'000, 'x')).size() < 300);
  for (const std::string after : {"", "garbage [[["}) {
    CHECK(json_error(std::string("[1]") + '\0' + after) == "not JSON: byte 3 is a null character");
  }
}

TEST_CASE("NaN and Infinity, which Python writes, are read, but for no number and no text") {
  const Json json =
      parse_json(R"({"a":NaN,"b":[-Infinity,1,Infinity],"c":"NaN, \"NaN\" and Infinity\\","d":2})", "j");
  CHECK(json.at("c") == R"(NaN, "NaN" and Infinity\)");
  CHECK(json.at("d") == 2);
  CHECK(json.at("b").size() == 3);
  CHECK(json.at("b")[1] == 1);
  const JsonPart part(json);
  CHECK_THROWS_WITH_AS(part["a"].positive_number(),
                       R"(a: it is {"not a number":null}, expected a positive number)", std::runtime_error);
  CHECK_THROWS_AS(part.get<std::string>("a"), std::runtime_error);
  CHECK_THROWS_AS(part["b"].integers(9), std::runtime_error);
  CHECK(parse_json("NaN", "j").is_object());
  for (const std::string text :
       {"1NaN", "NaN1", "-NaN", "[xNaN]", "{NaN:1}", "NaNNaN", "nan", "infinity", "\"a\" NaN"})
    CHECK(json_error(text).starts_with("not JSON: "));
  const Folder folder;
  const std::string sizes =
      R"("vocab_size":8,"hidden_size":4,"num_hidden_layers":1,"num_attention_heads":2,"intermediate_size":4)";
  const auto path = folder.file("config.json", "{" + sizes + R"(,"best_loss":Infinity})");
  CHECK(llm::read_llama_config(path).vocabulary == 8);
  folder.file("config.json", "{" + sizes + R"(,"rms_norm_eps":NaN})");
  CHECK(error_of(path.string(), [&] { llm::read_llama_config(path); }).find("rms_norm_eps: it is ") == 0);
}

TEST_CASE("JSON with many objects takes no time with the square of their number") {
  const Json json = parse_json("[{}" + repeated(",{}", 300'000) + "]", "j");
  CHECK(json.size() == 300'001);
}

TEST_CASE("an error quotes the beginning of a long value") {
  CHECK(detail::excerpt(Json("short")) == "\"short\"");
  CHECK(detail::excerpt(std::string(199, 'a') + "\u00e9bc") == std::string(199, 'a') + " …");
  const Folder folder;
  const auto path = folder.file("config.json", R"({"model_type":")" + std::string(1'000'000, 'x') + "\"}");
  CHECK(error_of(path.string(), [&] { llm::read_llama_config(path); }).size() < 400);
}

TEST_CASE("an index that names what is no file beside it") {
  const Folder folder;
  const auto index = folder / "model.safetensors.index.json";
  const auto opened = [&](const std::string& name) {
    folder.file(index.filename().string(), R"({"weight_map":{"a":")" + name + "\"}}");
    try {
      Weights weights(folder.path());
    } catch (const std::runtime_error& error) {
      return std::string(error.what());
    }
    return std::string("no error");
  };
  for (const std::string name : {"", ".", "..", ".hidden", "/etc/passwd", "../a", "a/b", "a\\u0000b"}) {
    CHECK(opened(name) ==
          index.string() + ": weight_map, \"a\": it is \"" + name + "\", expected a name in the same folder");
  }
  REQUIRE(::mkfifo((folder / "pipe").c_str(), 0600) == 0);
  CHECK(opened("pipe") ==
        (folder / "pipe").string() + ": not a regular file");  // and does not wait for a writer
  fs::create_symlink("loop", folder / "loop");
  CHECK(opened("loop").starts_with((folder / "loop").string() + ": cannot be opened: "));
}

/// A manifest with its checksum, of what stands under "files" and "tensors".
std::string manifest_error(const std::string& files, const std::string& tensors,
                           const std::string& numbers = "{}") {
  const std::string text = R"({"format":"shardwise checkpoint","version":1,"mesh":[],"numbers":)" + numbers +
                           R"(,"files":)" + files + R"(,"tensors":)" + tensors + "}";
  const std::uint64_t checksum = detail::fingerprint_of(text);
  const std::string whole =
      "{\"checksum\":\"" + detail::hex_of({&checksum, 1}) + "\",\"manifest\":" + text + "}\n";
  return error_of("m", [&] { detail::parse_manifest(whole, "m"); });
}
std::string tensor_named(const std::string& name, const std::string& shape, const std::string& pieces,
                         const std::string& group_rows = "1") {
  return R"({"name":")" + name + R"(","type":"U8","layout":"","shape":)" + shape + R"(,"group_rows":)" +
         group_rows + R"(,"pieces":)" + pieces + "}";
}

TEST_CASE("a manifest whose sums overflow") {
  const std::string sum = R"("0000000000000000")", huge = "72057594037927936", most = "2305843009213693952";
  const std::string whole = "[0,0,[0],[" + huge + "]," + sum + "]";  // the whole tensor, again and again
  const std::string again = manifest_error(
      R"([["a",)" + most + "]]",
      "[" + tensor_named("x", "[" + huge + "]", "[" + whole + repeated("," + whole, 200) + "]", huge) + "]");
  CHECK(again ==
        "tensor \"x\": a piece is missing, or there twice: the pieces have 144115188075855872 elements or "
        "more, expected 72057594037927936");
  CHECK(manifest_error(R"([["a",)" + most + R"(],["b",1]])", "[]")
            .starts_with("files[1][1]: it is 1, expected an integer from 0 to 0"));
  const std::string five = "[[0,0,[0],[5]," + sum + "]]";
  CHECK(manifest_error(R"([["a",5]])", "[" + tensor_named("x", "[5]", five, "5") + "]") == "no error");
  CHECK(manifest_error(R"([["a",9]])", "[" + tensor_named("x", "[5]", five, "5") + "," +
                                           tensor_named("y", "[5]", five, "5") + "]") ==
        "tensor \"y\": overlaps tensor \"x\": it begins at byte 0 of a, that one ends at 5");
  // As many bytes as the file has, but not each once.
  const std::string shifted = "[[0,4,[0],[5]," + sum + "]]", behind = "[[0,5,[0],[5]," + sum + "]]";
  const auto two = [&](const std::string& second) {
    return manifest_error(R"([["a",10]])", "[" + tensor_named("x", "[5]", five, "5") + "," +
                                               tensor_named("y", "[5]", second, "5") + "]");
  };
  CHECK(two(behind) == "no error");
  CHECK(two(five) == "tensor \"y\": overlaps tensor \"x\": it begins at byte 0 of a, that one ends at 5");
  CHECK(two(shifted) == "tensor \"y\": overlaps tensor \"x\": it begins at byte 4 of a, that one ends at 5");
  CHECK(manifest_error(R"([["a",4]])", "[" + tensor_named("x", "[5]", five, "5") + "]") ==
        "tensor \"x\": ends at byte 5 of a, but the file has 4: is it truncated?");
  // As many elements as there are, but not each once.
  const std::string parts =
      "[[0,0,[0,0],[2,3]," + sum + "],[0,6,[0,3],[2,1]," + sum + "],[0,8,[0,2],[2,2]," + sum + "]]";
  CHECK(manifest_error(R"([["a",12]])", "[" + tensor_named("x", "[2,6]", parts, "2") + "]") ==
        "tensor \"x\": a piece is missing, and another there twice");
  CHECK(manifest_error("[]", "[]", R"({"step":18446744073709551615})") ==
        "numbers, \"step\": it is 18446744073709551615, expected an integer, -9223372036854775808 or more");
  CHECK(manifest_error("[]", "[]", R"({"step":-9223372036854775808})") == "no error");
}

TEST_CASE("a tensor of very many pieces takes a time that does not grow with the square of their number") {
  std::string pieces;
  constexpr int columns = 300'000;
  for (int i = 0; i < columns; ++i) {
    const std::string number = std::to_string(i);
    pieces += (i > 0 ? ",[0," : "[0,") + number + ",[0," + number + R"(],[1,1],"0000000000000000"])";
  }
  const std::string files = R"([["a",)" + std::to_string(columns) + "]]";
  const std::string shape = "[1," + std::to_string(columns) + "]";
  CHECK(manifest_error(files, "[" + tensor_named("x", shape, "[" + pieces + "]") + "]") == "no error");
  pieces.replace(pieces.rfind("[0,299999]"), 10, "[0,299998]");
  CHECK(manifest_error(files, "[" + tensor_named("x", shape, "[" + pieces + "]") + "]") ==
        "tensor \"x\": a piece is missing, and another there twice");
}

TEST_CASE("a header of very many tensors takes a few times the memory of its text") {
  std::string text = "{";
  for (int i = 0; text.size() < 20'000'000; ++i) {
    text += "\"" + std::to_string(i) + R"(":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},)";
  }
  text.back() = '}';
  const auto length = std::bit_cast<std::array<char, 8>>(static_cast<std::uint64_t>(text.size()));
  text.insert(text.begin(), length.begin(), length.end());
  const pid_t child = ::fork();  // whose memory is measured
  if (child == 0) {
    ::malloc_trim(0);
    rusage before{}, after{};
    ::getrusage(RUSAGE_SELF, &before);
    const std::size_t tensors = detail::read_safetensors_header(text).tensors.size();
    ::getrusage(RUSAGE_SELF, &after);
    ::_exit(tensors > 300'000 && after.ru_maxrss - before.ru_maxrss < 200 << 10 ? 0 : 1);
  }
  int status = -1;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(status == 0);
}

TEST_CASE("what killed processes left is removed, and nothing else") {
  const Folder folder;
  const auto target = folder / "text";
  for (const std::string name :
       {"text.tmp-sw7", "text.tmp-mine", "text.tmp-sw7x", "text.tmp-sw", "other.tmp-sw7"})
    folder.file(name, "x");
  const TemporaryFile under_way(target, {}, 8);
  write_file_atomically(target, "y");
  std::vector<std::string> left;
  for (const auto& entry : fs::directory_iterator(folder.path()))
    left.push_back(entry.path().filename().string());
  std::sort(left.begin(), left.end());
  CHECK(left == std::vector<std::string>{"other.tmp-sw7", "text", "text.tmp-mine", "text.tmp-sw",
                                         "text.tmp-sw7x", "text.tmp-sw8"});
}

TEST_CASE("what replaces a file keeps its mode and its owner") {
  const Folder folder;
  const auto target = folder / "text";
  const auto mode = [](const fs::path& path) { return detail::status_of(path)->st_mode & 07777; };
  for (const ::mode_t wanted : {0600u, 0640u, 0400u, 0604u}) {
    write_file_atomically(target, "old");
    REQUIRE(::chmod(target.c_str(), wanted) == 0);
    write_file_atomically(target, "new");
    CHECK(mode(target) == wanted);
    CHECK(read_text(target) == "new");
  }
  if (::geteuid() == 0) {
    REQUIRE(::chown(target.c_str(), 1234, 4321) == 0);
    write_file_atomically(target, "newer");
    CHECK(detail::status_of(target)->st_uid == 1234);
    CHECK(detail::status_of(target)->st_gid == 4321);
    CHECK(mode(target) == 0604);
  }
  {  // nobody else reads what is under way
    const TemporaryFile next(target, {}, 7);
    CHECK(mode(next.file().path()) == 0600);
  }
  write_file_atomically(folder / "fresh", "x");
  const ::mode_t mask = ::umask(0);
  ::umask(mask);
  CHECK(mode(folder / "fresh") == (0666 & ~mask));
}

TEST_CASE("a folder of checkpoints is not one") {
  const Folder folder;
  fs::create_directories(folder / "step-1");
  fs::create_directories(folder / "step-2");
  for (const char* name : {"step-1/manifest.json", "step-2/manifest.json"})
    folder.file(name, detail::manifest_text(CheckpointManifest()));
  CHECK(error_of(folder.path().string(), [&] { read_manifest(folder.path()); }) ==
        "not a checkpoint, but a folder of some: name one, such as " + (folder / "step-2").string());
}

TEST_CASE("a manifest whose groups are longer than any tensor") {
  // Rows of a group times bytes of a row were 2^64: zero, by which a reader divided.
  const std::string text =
      R"({"format":"shardwise checkpoint","version":1,"mesh":[],"numbers":{},"files":[["a",16]],"tensors":[)" +
      tensor_named("x", "[2,8]", R"([[0,0,[0,0],[2,8],"0000000000000000"]])", "2305843009213693952") + "]}";
  const std::uint64_t checksum = detail::fingerprint_of(text);
  const auto manifest = detail::parse_manifest(
      "{\"checksum\":\"" + detail::hex_of({&checksum, 1}) + "\",\"manifest\":" + text + "}\n", "m");
  CHECK(manifest.tensors.at(0).group_rows == 2);
}

TEST_CASE("a manifest with other files and pieces than it may have") {
  for (const std::string name : {"", ".", "..", ".a", "/a", "../a", "a/b", "a\\u0000"}) {
    CHECK(manifest_error(R"([[")" + name + R"(",1]])", "[]").ends_with("does not lie in the folder"));
  }
  CHECK(manifest_error(R"([["a",1],["a",1]])", "[]") == "the file \"a\" is there twice");
  // A long name was copied for each of any number of empty pieces.
  const std::string empty = R"([0,0,[0],[0],""])";
  CHECK(manifest_error(R"([["a",1]])", "[" +
                                           tensor_named(std::string(100'000, 'n'), "[0]",
                                                        "[" + empty + repeated("," + empty, 100'000) + "]") +
                                           "]") ==
        "tensor \"" + std::string(200, 'n') + " …\": a piece has no elements");
}

TEST_CASE("notes that could not be read again are not written") {
  CheckpointManifest manifest;
  manifest.notes = Json::parse(repeated("[", 99) + repeated("]", 99));
  CHECK(detail::parse_manifest(detail::manifest_text(manifest), "m").notes == manifest.notes);
  manifest.notes = Json::array({manifest.notes});
  CHECK_THROWS_WITH_AS(detail::manifest_text(manifest),
                       "the notes of a checkpoint nest deeper than 99 lists and objects",
                       std::invalid_argument);
}

TEST_CASE("tokens beyond the vocabulary, with checksums that are right") {
  const Folder folder;
  const auto refused = [&](std::uint64_t vocabulary, std::uint32_t token_bytes, std::string_view tokens) {
    llm::detail::TokenFileHeader header;
    header.token_bytes = token_bytes;
    header.count = tokens.size() / token_bytes;
    header.vocabulary = vocabulary;
    header.token_checksum = detail::fingerprint_of(tokens);
    header.header_checksum = header.computed();
    const auto path = folder.file(
        "tokens", std::string(reinterpret_cast<const char*>(&header), sizeof header).append(tokens));
    return error_of(path.string(), [&] { llm::TokenCorpus::from_file(path); });
  };
  using namespace std::string_view_literals;
  const std::string cure = "; remove it, and it is rebuilt";
  CHECK(refused(3, 2, "\2\0\1\0"sv) == "no error");
  CHECK(refused(2, 2, "\2\0\1\0"sv) == "token 2 is there, but the vocabulary has 2 tokens" + cure);
  CHECK(refused(70000, 4, "\0\0\0\0\xff\xff\xff\xff"sv) ==
        "token 4294967295 is there, but the vocabulary has 70000 tokens" + cure);
  const std::string damaged = "its header is damaged" + cure;
  CHECK(refused(70000, 2, "\2\0"sv) == damaged);
  CHECK(refused(3, 4, "\2\0\0\0"sv) == damaged);
  CHECK(refused(std::uint64_t{1} << 63, 4, "\2\0\0\0"sv) == damaged);
}

}  // namespace

}  // namespace shardwise::testing::damaged_files
