// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// shardwise-consolidate and shardwise-inspect on checkpoints that jobs write on several meshes.

#include <doctest/doctest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <map>
#include <shardwise/checkpoint/reader.hpp>
#include <shardwise/checkpoint/save.hpp>
#include <string>
#include <thread>
#include <vector>

namespace {

namespace sw = shardwise;
namespace fs = std::filesystem;
using sw::Index;
using sw::Json;

/// A folder of this process.
class Scratch {
 public:
  Scratch() : path_(fs::temp_directory_path() / ("shardwise tools " + std::to_string(::getpid()))) {
    fs::remove_all(path_);
    fs::create_directories(path_);
  }
  ~Scratch() { fs::remove_all(path_); }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  std::string operator/(const std::string& name) const { return (path_ / name).string(); }
  /// What lies in it.
  std::vector<std::string> names() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(path_)) names.push_back(entry.path().filename().string());
    std::sort(names.begin(), names.end());
    return names;
  }

 private:
  fs::path path_;
};

std::string bytes_of(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  REQUIRE(in);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}
void write_bytes(const fs::path& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}
/// The files of a folder, by their names.
std::map<std::string, std::string> contents_of(const fs::path& folder) {
  std::map<std::string, std::string> files;
  for (const auto& entry : fs::directory_iterator(folder)) {
    files.emplace(entry.path().filename().string(), bytes_of(entry.path()));
  }
  return files;
}
bool has(const std::string& text, const std::string& part) { return text.find(part) != text.npos; }

struct Ended {
  int code = 0;
  std::string out, text;  // what it printed; and with what it said on the standard error behind
  long peak_kib = 0;
};

/// Runs a program. A negative code is a signal that ended it.
Ended run(std::vector<std::string> words, rlim_t most_file_bytes = RLIM_INFINITY,
          const fs::path& kill_when = {}) {
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  int ends[2];
  REQUIRE(::pipe(ends) == 0);
  FILE* errors = std::tmpfile();
  REQUIRE(errors != nullptr);
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    ::dup2(ends[1], STDOUT_FILENO);
    ::dup2(::fileno(errors), STDERR_FILENO);
    ::close(ends[0]);
    ::close(ends[1]);
    const rlimit limit{most_file_bytes, RLIM_INFINITY};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    ::execvp(arguments[0], arguments.data());
    ::_exit(127);
  }
  ::close(ends[1]);
  if (!kill_when.empty()) {  // when there is an entry that begins with that name
    auto begun = [&] {
      for (const auto& entry : fs::directory_iterator(kill_when.parent_path())) {
        if (entry.path().string().starts_with(kill_when.string())) return true;
      }
      return false;
    };
    auto catches = [&] {  // before that, the signal would only end it
      std::ifstream status("/proc/" + std::to_string(child) + "/status");
      for (std::string line; std::getline(status, line);) {
        if (line.starts_with("SigCgt:"))
          return (std::stoull(line.substr(7), nullptr, 16) >> (SIGTERM - 1)) % 2 == 1;
      }
      return false;
    };
    auto ended = [&] {
      siginfo_t about{};
      return ::waitid(P_PID, static_cast<id_t>(child), &about, WEXITED | WNOHANG | WNOWAIT) != 0 ||
             about.si_pid != 0;
    };
    while (!(begun() && catches()) && !ended()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    ::kill(child, SIGTERM);
  }
  Ended ended;
  std::array<char, 4096> part;
  for (ssize_t count = 0; (count = ::read(ends[0], part.data(), part.size())) > 0;) {
    ended.out.append(part.data(), static_cast<std::size_t>(count));
  }
  ::close(ends[0]);
  int status = 0;
  rusage use{};
  REQUIRE(::wait4(child, &status, 0, &use) == child);
  ended.code = WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  ended.peak_kib = use.ru_maxrss;
  ended.text = ended.out;
  std::rewind(errors);
  while (const std::size_t count = std::fread(part.data(), 1, part.size(), errors))
    ended.text.append(part.data(), count);
  std::fclose(errors);
  return ended;
}
Ended run(std::string program, const std::vector<std::string>& options) {
  std::vector<std::string> words{std::move(program)};
  words.insert(words.end(), options.begin(), options.end());
  return run(std::move(words));
}
Ended consolidate(const std::vector<std::string>& options) { return run(CONSOLIDATE, options); }
Ended inspect(const std::vector<std::string>& options) { return run(INSPECT, options); }
/// It must succeed.
void consolidated(const std::vector<std::string>& options) {
  const Ended ended = consolidate(options);
  INFO(ended.text);
  REQUIRE(ended.code == 0);
}
/// What the program prints, which must succeed.
std::string inspected(const std::vector<std::string>& options) {
  const Ended ended = inspect(options);
  INFO(ended.text);
  REQUIRE(ended.code == 0);
  return ended.out;
}

void job(int ranks, const std::vector<std::string>& options) {
  std::vector<std::string> words{MPIEXEC, MPIEXEC_RANKS, std::to_string(ranks), JOB};
  words.insert(words.end(), options.begin(), options.end());
  ::unsetenv("OMPI_MCA_pml");
  const Ended ended = run(std::move(words));
  ::setenv("OMPI_MCA_pml", "none_of_them", 1);  // the programs are no jobs: one would fail to start
  INFO(ended.text);
  REQUIRE(ended.code == 0);
}

struct MeshCase {
  int ranks;
  const char* kind;
  int dp;
};
constexpr std::array meshes{MeshCase{1, "tensor", 1},  MeshCase{2, "tensor", 1},  MeshCase{2, "tensor", 2},
                            MeshCase{4, "tensor", 1},  MeshCase{4, "tensor", 2},  MeshCase{2, "sharded", 2},
                            MeshCase{3, "sharded", 3}, MeshCase{4, "sharded", 4}, MeshCase{4, "sharded", 2}};

std::string write_checkpoint(const Scratch& scratch, const std::string& model, const MeshCase& mesh) {
  std::string folder =
      scratch / (model + " " + mesh.kind + std::to_string(mesh.ranks) + std::to_string(mesh.dp));
  job(mesh.ranks, {"write", model, mesh.kind, std::to_string(mesh.dp), folder});
  return folder;
}

/// Changes a byte.
void damage(const fs::path& path, std::size_t place) {
  std::string bytes = bytes_of(path);
  REQUIRE(place < bytes.size());
  bytes[place] = static_cast<char>(bytes[place] ^ 16);
  write_bytes(path, bytes);
}

}  // namespace

TEST_CASE("a checkpoint of any mesh becomes the same folder, and comes back") {
  const Scratch scratch;
  for (const std::string model : {"small", "tied"}) {
    CAPTURE(model);
    std::map<std::string, std::string> expected;
    for (const MeshCase& mesh : meshes) {
      CAPTURE(mesh.ranks);
      CAPTURE(mesh.kind);
      CAPTURE(mesh.dp);
      const std::string checkpoint = write_checkpoint(scratch, model, mesh);
      write_bytes(checkpoint + "-tokenizer.json", "{\"model\":{\"vocab\":{}}}\n");
      const std::string folder = checkpoint + " folder";
      consolidated({checkpoint, folder, "--max-file-bytes", "50kB"});
      const auto files = contents_of(folder);
      CHECK(files.at("tokenizer.json") == "{\"model\":{\"vocab\":{}}}\n");
      if (expected.empty()) {
        expected = files;
        CHECK(files.size() >=
              3 + 5);  // config.json, tokenizer.json, the index, and five files of 50 kB at least
        CHECK(files.count("model.safetensors.index.json") == 1);
      }
      CHECK(files == expected);
      CHECK(has(inspected({checkpoint, "--verify"}), "all checksums are right"));
    }

    // What the checkpoint calls a tokenizer, and is none, stays where it is.
    const std::string named = scratch / (model + " tensor11");
    write_bytes(named + "-tokenizer.json", "root:x:0:0:root\n");
    CHECK(has(consolidate({named, named + " without"}).text,
              "WARNING: no tokenizer.json: the checkpoint names "));
    CHECK(contents_of(named + " without").count("tokenizer.json") == 0);

    // There and back; each file holds the tensors that it held, though they now come from one file.
    const std::string folder = scratch / (model + " tensor11 folder"), back = scratch / (model + " back");
    consolidated({"--to-checkpoint", folder, back});
    consolidated({back, back + " folder", "--max-file-bytes", "50kB"});
    CHECK(contents_of(back + " folder") == expected);
    const Json json = Json::parse(inspected({back, "--verify", "--json"}));
    CHECK(json.at("verified") == true);
    CHECK(json.at("files").size() == 1);
    CHECK(json.at("groups").size() == 1);
    for (const Json& tensor : json.at("tensors")) CHECK(tensor.at("pieces") == 1);
    const Json before = Json::parse(inspected({scratch / (model + " tensor11"), "--json"}));
    CHECK(json.at("groups").at("model") == before.at("groups").at("model"));

    // The logits of the checkpoint, of the folder, and of the checkpoint that was made of the folder.
    const std::string sharded = scratch / (model + " sharded33"), logits = scratch / "logits";
    for (int ranks : {1, 2}) {
      CAPTURE(ranks);
      job(ranks, {"checkpoint", model, "1", sharded, logits + "0.safetensors"});
      job(ranks, {"folder", model, "1", folder, logits + "1.safetensors"});
      job(ranks, {"checkpoint", model, "1", back, logits + "2.safetensors"});
      const std::string first = bytes_of(logits + "0.safetensors");
      CHECK(first.find_last_not_of('\0') > 300);
      CHECK(bytes_of(logits + "1.safetensors") == first);
      CHECK(bytes_of(logits + "2.safetensors") == first);
    }
  }
}

TEST_CASE("without any of our code the folder is the same; types") {
  const Scratch scratch;
  for (const std::string model : {"small", "tied"}) {
    const std::string checkpoint = write_checkpoint(scratch, model, {4, "sharded", 2}),
                      logits = scratch / "l.safetensors";
    job(1, {"checkpoint", model, "1", checkpoint, logits});
    std::vector<std::string> words{PYTHON, PYTHON_TEST, checkpoint, logits};
    for (const std::string type : {"F32", "BF16", "F16"}) {
      words.push_back(checkpoint + type);
      consolidated({checkpoint, words.back(), "--weights-dtype", type, "--max-file-bytes", "100kB"});
    }
    const Ended ended = run(words);
    INFO(ended.text);
    CHECK(ended.code == 0);
    CHECK(has(ended.text, "F16: "));
    MESSAGE(ended.text);
  }

  const std::string half = write_checkpoint(scratch, "small", {2, "bfloat16", 2});
  consolidated({half, half + " keep"});
  const std::string found = inspected({half + " keep", "--tensors"});
  CHECK(has(found, "model.layers.10.self_attn.o_proj.weight "));
  CHECK(has(found, " BF16 [22 x 48] "));
  CHECK_FALSE(has(found, "F32"));
  CHECK(Json::parse(bytes_of(half + " keep/config.json")).at("torch_dtype") == "bfloat16");
  consolidated({half, half + " wide", "--weights-dtype", "F32"});
  consolidated({half + " wide", half + " narrow", "--to-checkpoint", "--weights-dtype", "BF16"});
  consolidated({half + " narrow", half + " again"});
  CHECK(contents_of(half + " again") == contents_of(half + " keep"));
}

TEST_CASE("what is in it") {
  const Scratch scratch;
  const std::string folder = write_checkpoint(scratch, "small", {4, "sharded", 2});
  const std::string text = inspected({folder, "--tensors"});
  CHECK(has(text, ": checkpoint on dp 2 x tp 2\n"));
  CHECK(has(text, "  step = 12\n"));
  CHECK(has(text, "  notes: llama_config, tokenizer\n"));
  CHECK(has(text, "  model        102 tensors          56584 elements    226.34 kB  F32\n"));
  CHECK(has(text, "  in 4 files, "));
  CHECK(has(text, " F32  [8 x 6 x 22]            4.22 kB  dp Shard<2>, tp Shard<0> in 4 pieces\n"));
  CHECK(has(text, "  optimizer.norm.weight.steps = 0\n"));
  CHECK(has(inspected({folder}), "  optimizer: 103 numbers = 0\n  step = 12\n"));

  const Json json = Json::parse(inspected({folder, "--json"}));
  CHECK(json.at("kind") == "checkpoint");
  CHECK(json.at("mesh") == Json::parse(R"([{"axis":"dp","size":2},{"axis":"tp","size":2}])"));
  CHECK(json.at("numbers").at("step") == 12);
  CHECK(json.at("notes").at("llama_config").at("hidden_size") == 22);
  CHECK(json.at("groups").at("optimizer").at("bytes") ==
        2 * json.at("groups").at("model").at("bytes").get<Index>());
  CHECK(json.at("problems").empty());
  Index bytes = 0;
  for (const Json& tensor : json.at("tensors")) bytes += tensor.at("bytes").get<Index>();
  CHECK(json.at("bytes") == bytes);

  consolidated({folder, scratch / "f"});
  const std::string weights = inspected({scratch / "f", "--verify"});
  CHECK(has(weights, "/f: folder in Hugging Face's format\n"));
  CHECK(has(weights, "  in model.safetensors, "));
  CHECK(has(weights, "the format has no checksums"));
  CHECK(has(inspected({scratch / "f/model.safetensors"}),
            "model.safetensors: safetensors file\n  all          102 tensors"));

  // Checkpoints of a run. One is damaged, and one was never finished.
  const fs::path runs = scratch / "run";
  fs::create_directories(runs / "step-00000020.tmp-sw7");
  fs::copy(folder, runs / "step-00000010");
  fs::copy(folder, runs / "step-00000005");
  const std::string listed = inspected({runs, "--verify"});
  CHECK(listed.find("step-00000005: checkpoint on") < listed.find("step-00000010: checkpoint on"));
  CHECK(has(listed, "step-00000020.tmp-sw7: not finished"));
  fs::remove(runs / "step-00000005" / "rank-00002.bin");
  const Ended ended = inspect({runs, "--json"});
  CHECK(ended.code == 1);
  const Json list = Json::parse(ended.out);
  CHECK(list.at("checkpoints").at(0).at("kind") == "damaged");
  CHECK(list.at("checkpoints").at(1).at("kind") == "checkpoint");
  CHECK(list.at("problems").size() == 1);
  CHECK(has(list.at("problems").at(0).get<std::string>(), "step-00000005/rank-00002.bin: cannot be opened"));

  CHECK(has(inspected({"--help"}), "Usage: shardwise-inspect"));
}

TEST_CASE("what is damaged is named, and nothing is left") {
  const Scratch scratch;
  const std::string good = write_checkpoint(scratch, "small", {2, "tensor", 1}), bad = scratch / "bad",
                    out = scratch / "out";
  /// The message of both programs about a copy that is changed; `word` for word in both.
  auto check = [&](auto change, const std::vector<std::string>& words) {
    fs::remove_all(bad);
    fs::copy(good, bad);
    change(fs::path(bad));
    const auto before = scratch.names();
    for (const Ended& ended : {consolidate({bad, out}), inspect({bad, "--verify"})}) {
      INFO(ended.text);
      CHECK(ended.code == 1);
      for (const std::string& word : words) {
        CAPTURE(word);
        CHECK(has(ended.text, word));
      }
    }
    CHECK(scratch.names() == before);
  };
  check([](const fs::path& path) { damage(path / "rank-00001.bin", 700); },
        {"bad/rank-00001.bin: tensor \"model.tokens.weight\": the checksum of rows 19 to 37 is wrong"});
  check([](const fs::path& path) { fs::resize_file(path / "rank-00000.bin", 1000); },
        {"bad/rank-00000.bin: it has 1000 bytes, expected "});
  check([](const fs::path& path) { fs::remove(path / "rank-00000.bin"); },
        {"bad/rank-00000.bin: cannot be opened: No such file or directory"});
  check([](const fs::path& path) { damage(path / "manifest.json", 1000); },
        {"bad/manifest.json: its checksum is wrong: it was changed, or damaged"});
  check([](const fs::path& path) { fs::resize_file(path / "manifest.json", 1000); },
        {"bad/manifest.json: no manifest of a checkpoint, or it is truncated"});
  check([](const fs::path& path) { fs::remove_all(path); }, {"bad", "o such file or "});
  check([](const fs::path& path) { fs::remove(path / "manifest.json"); }, {"bad", ": "});

  // Of many that are damaged, each piece is told.
  fs::remove_all(bad);
  fs::copy(good, bad);
  damage(fs::path(bad) / "rank-00000.bin", 0);
  damage(fs::path(bad) / "rank-00000.bin", bytes_of(bad + "/rank-00000.bin").size() - 1);
  damage(fs::path(bad) / "rank-00001.bin", 0);
  const Ended ended = inspect({bad, "--verify", "--json"});
  CHECK(ended.code == 1);
  const Json json = Json::parse(ended.out);
  CHECK(json.at("problems").size() == 3);
  CHECK(json.at("verified") == false);

  // A whole checkpoint of something else.
  auto rewritten = [&](auto change, const std::string& word) {
    fs::remove_all(bad);
    fs::copy(good, bad);
    sw::CheckpointManifest manifest = sw::read_manifest(bad);
    change(manifest);
    write_bytes(bad + "/manifest.json", sw::detail::manifest_text(manifest));
    CHECK(inspect({bad, "--verify"}).code == 0);
    const auto before = scratch.names();
    const Ended refused = consolidate({bad, out});
    CAPTURE(refused.text);
    CHECK(refused.code == 1);
    CHECK(has(refused.text, "shardwise-consolidate: " + bad + "/manifest.json: " + word));
    CHECK(scratch.names() == before);
  };
  rewritten([](auto& m) { m.notes = nullptr; }, "the notes have no \"llama_config\"");
  rewritten([](auto& m) { m.notes["llama_config"] = 7; },
            "\"llama_config\" in the notes: it is 7, expected an object");
  rewritten([](auto& m) { m.notes["llama_config"]["hidden_size"] = -7; },
            "\"llama_config\" in the notes: hidden_size: it is -7, expected an integer, 1 or more");
  rewritten([](auto& m) { m.notes["llama_config"]["hidden_size"] = 44; },
            "tensor \"model.tokens.weight\": expected the shape [37 x 44], found [37 x 22]");
  rewritten([](auto& m) { m.notes["llama_config"]["num_hidden_layers"] = 12; },
            "tensor \"model.layers.11.attention_norm.weight\": there is no such tensor");
  rewritten([](auto& m) { m.notes["llama_config"]["tie_word_embeddings"] = true; },
            "tensor \"model.head.weight\" does not belong to this model");
  rewritten([](auto& m) { m.tensors[0].type = sw::StoredType::i32; },
            "tensor \"model.tokens.weight\": expected the type F64, F32 or BF16, found I32");
}

TEST_CASE("a folder is made a checkpoint only if it has the model of its config.json") {
  const Scratch scratch;
  const std::string good = write_checkpoint(scratch, "small", {1, "tensor", 1}), folder = scratch / "folder",
                    out = scratch / "out";
  auto check = [&](auto change, const std::string& word, const std::vector<std::string>& options = {}) {
    fs::remove_all(folder);
    consolidated({good, folder});
    change(fs::path(folder));
    const auto before = scratch.names();
    std::vector<std::string> words{"--to-checkpoint", folder, out};
    words.insert(words.end(), options.begin(), options.end());
    const Ended ended = consolidate(words);
    CAPTURE(ended.text);
    CHECK(ended.code == 1);
    CHECK(has(ended.text, "shardwise-consolidate: " + folder + word));
    CHECK(scratch.names() == before);
  };
  auto configure = [](const char* key, const Json& value) {
    return [=](const fs::path& path) {
      Json config = Json::parse(bytes_of(path / "config.json"));
      config[key] = value;
      write_bytes(path / "config.json", config.dump());
    };
  };
  check([](const fs::path& path) { fs::remove(path / "config.json"); }, "/config.json: cannot be opened");
  check([](const fs::path& path) { fs::remove(path / "model.safetensors"); }, ": neither model.safetensors");
  check([](const fs::path& path) { fs::resize_file(path / "model.safetensors", 100000); },
        "/model.safetensors: ");
  check(configure("num_hidden_layers", 12),
        ": tensor \"model.layers.11.input_layernorm.weight\": there is no such tensor");
  check(
      configure("num_hidden_layers", 10),
      "/model.safetensors: tensor \"model.layers.10.input_layernorm.weight\" does not belong to this model");
  check(configure("num_key_value_heads", 2),
        "/model.safetensors: tensor \"model.layers.0.self_attn.k_proj.weight\": expected the shape "
        "[12 x 22], found [24 x 22]");
  check(configure("model_type", "gpt2"), "/config.json: model_type: it is \"gpt2\"");
  check(configure("tie_word_embeddings", true),
        "/model.safetensors: tensor \"lm_head.weight\" differs from \"model.embed_tokens.weight\" in row 0");
  check(configure("logit_scale", 0.5), "/config.json: logit_scale: it is 0.5, expected no such key");
  check([](const fs::path&) {},
        "/model.safetensors: tensor \"model.embed_tokens.weight\" would be F16 in the checkpoint",
        {"--weights-dtype", "F16"});
}

TEST_CASE("what is there is replaced on request only, and whole") {
  const Scratch scratch;
  const std::string checkpoint = write_checkpoint(scratch, "small", {2, "tensor", 1}), out = scratch / "out";
  auto refused = [&](const std::vector<std::string>& options, const std::string& word) {
    const auto before = scratch.names();
    const Ended ended = consolidate(options);
    CAPTURE(ended.text);
    CHECK(ended.code == 1);
    CHECK(has(ended.text, word));
    CHECK(scratch.names() == before);
  };
  fs::create_directory(out);
  consolidated({checkpoint, out + "/"});  // empty
  const auto made = contents_of(out);
  CHECK(made.count("config.json") == 1);
  refused({checkpoint, out}, "out: there already, and not empty");
  write_bytes(out + "/more", "more");
  consolidated({checkpoint, out, "--force"});
  CHECK(contents_of(out) == made);
  fs::create_directory_symlink(out, scratch / "link");
  consolidated({checkpoint, scratch / "link", "--force", "--weights-dtype", "BF16"});
  CHECK(fs::is_symlink(scratch / "link"));
  CHECK(contents_of(out) != made);
  consolidated({checkpoint, scratch / "new/folders/out"});
  CHECK(contents_of(scratch / "new/folders/out") == made);

  fs::create_directory(scratch / "home");
  write_bytes(scratch / "home/letter", "dear");
  refused({checkpoint, scratch / "home", "--force"},
          "home: is not replaced, for it holds neither a model nor a checkpoint");
  refused({checkpoint, scratch / "home/letter", "--force"}, "home/letter: there already, and no folder");
  refused({checkpoint, checkpoint, "--force"}, "cannot be replaced, for ");
  write_bytes(scratch / "config.json", "{}");
  refused({checkpoint, scratch / "", "--force"}, "cannot be replaced, for ");
  CHECK(bytes_of(scratch / "home/letter") == "dear");

  // A limit on the size of files stands for a disk that is full.
  const auto before = scratch.names();
  const Ended full = run({CONSOLIDATE, checkpoint, scratch / "full/out"}, 200'000);
  CAPTURE(full.text);
  CHECK(full.code == 1);
  CHECK(has(full.text, "model.safetensors: cannot have 236728 bytes: File too large"));
  CHECK(scratch.names() == before);
  const Ended back =
      run({CONSOLIDATE, "--to-checkpoint", scratch / "new/folders/out", scratch / "full"}, 200'000);
  CAPTURE(back.text);
  CHECK(back.code == 1);
  CHECK(has(back.text, "rank-00000.bin: cannot have "));
  CHECK(scratch.names() == before);
}

TEST_CASE("what belongs to the text goes along, and the last whole checkpoint of a folder is taken") {
  const Scratch scratch;
  const std::string written = write_checkpoint(scratch, "small", {1, "tensor", 1}), runs = scratch / "runs",
                    base = scratch / "base";
  const std::map<std::string, std::string> texts{{"tokenizer_config.json", R"({"chat_template":"{{ x }}"})"},
                                                 {"special_tokens_map.json", R"({"eos_token":"</s>"})"},
                                                 {"generation_config.json", R"({"eos_token_id":[2,3]})"},
                                                 {"chat_template.jinja", "{% for m in messages %}"},
                                                 {"tokenizer.model", "\n\x0e\n\x05<unk>"}};
  const auto noted = [&](const std::string& name, auto note) {
    const std::string path = runs + "/" + name;
    fs::create_directories(runs);
    fs::copy(written, path);
    sw::CheckpointManifest manifest = sw::read_manifest(path);
    note(manifest.notes);
    write_bytes(path + "/manifest.json", sw::detail::manifest_text(manifest));
    return path;
  };
  const auto check_texts = [&](const std::string& folder) {
    const auto files = contents_of(folder);
    for (const auto& each : texts) {
      CAPTURE(each.first);
      REQUIRE(files.count(each.first) == 1);
      CHECK(files.at(each.first) == each.second);
    }
  };
  fs::create_directory(base);
  for (const auto& [name, text] : texts) write_bytes(base + "/" + name, text);
  write_bytes(base + "/tokenizer.json", "{\"model\":{\"vocab\":{}}}\n");
  const std::string last = noted("step-00000200", [&](Json& notes) { notes["from"] = base; });
  noted("step-00000100", [&](Json& notes) { notes["tokenizer"] = base + "/tokenizer.json"; });
  fs::create_directory(runs + "/step-00000300.tmp-sw7");
  fs::copy(last, runs + "/step-00000300.damaged");  // as a run has set it aside
  noted("step-00000400", [](Json&) {});
  fs::remove(runs + "/step-00000400/rank-00000.bin");

  const Ended ended = consolidate({runs, scratch / "out"});
  CAPTURE(ended.text);
  CHECK(ended.code == 0);
  CHECK(has(ended.text, "note: using the checkpoint before it: "));
  CHECK(has(ended.text, "runs/step-00000200 is the last checkpoint"));
  check_texts(scratch / "out");
  consolidated({last, scratch / "same"});
  CHECK(contents_of(scratch / "same") == contents_of(scratch / "out"));

  // Beside the tokenizer, and there and back; what is of a model alone is not a tokenizer's.
  consolidated({runs + "/step-00000100", scratch / "beside"});
  CHECK(contents_of(scratch / "beside").count("chat_template.jinja") == 1);
  CHECK(contents_of(scratch / "beside").count("generation_config.json") == 0);
  write_bytes(scratch / "out/tokenizer.json", "{\"model\":{\"vocab\":{}}}\n");
  consolidated({"--to-checkpoint", scratch / "out", scratch / "back"});
  consolidated({scratch / "back", scratch / "again"});
  check_texts(scratch / "again");
  // A template that the run was given comes before the model's; and what is not what its name says stays away.
  const std::string own = noted("step-00000150", [&](Json& notes) {
    notes["from"] = base;
    notes["chat_template"] = "{{ own }}";
  });
  write_bytes(base + "/tokenizer_config.json", "root:x:0:0:root");
  consolidated({own, scratch / "own"});
  CHECK(bytes_of(scratch / "own/chat_template.jinja") == "{{ own }}");
  CHECK(contents_of(scratch / "own").count("tokenizer_config.json") == 0);
  // A checkpoint that has them needs no other folder; of one that has none, what is missing is named.
  const auto lonely = [&](const std::string& name) {
    return noted(name, [&](Json& notes) {
      notes["from"] = scratch / "gone";
      notes["tokenizer"] = scratch / "gone/tokenizer.json";
    });
  };
  const std::string holds = lonely("step-00000160");
  for (const auto& [name, text] : texts) write_bytes(holds + "/" + name, text);
  write_bytes(holds + "/tokenizer.json", "{\"model\":{\"vocab\":{}}}\n");
  const Ended whole = consolidate({holds, scratch / "whole"});
  CHECK(!has(whole.text, "WARNING"));
  check_texts(scratch / "whole");
  CHECK(contents_of(scratch / "whole").count("tokenizer.json") == 1);
  const Ended without = consolidate({lonely("step-00000161"), scratch / "lacks"});
  CHECK(without.code == 0);
  CHECK(has(without.text, "WARNING: " + (scratch / "gone") + ", which the checkpoint names, is not there"));
  CHECK(has(without.text, "WARNING: no tokenizer.json: the checkpoint names "));
  const Ended none = consolidate({scratch / "base", scratch / "none"});
  CHECK(none.code == 1);
  CHECK(has(none.text, "base/manifest.json: "));

  // A newer format is not passed over as if it were damaged.
  const std::string newer = noted("step-00000500", [](Json&) {});
  Json manifest = sw::detail::json_of(sw::read_manifest(newer));
  manifest["version"] = 2;
  write_bytes(newer + "/manifest.json", sw::detail::framed_text(manifest));
  const Ended refused = consolidate({runs, scratch / "newer"});
  CHECK(refused.code == 1);
  CHECK(has(refused.text, "step-00000500/manifest.json: the version of the format is 2, newer than the 1"));

  // One file as PyTorch has it, whatever the option is called.
  for (const char* option : {"-f", "--format", "--output_format"}) {
    const std::string folder = scratch / (std::string("pytorch") + option);
    consolidated({last, folder, option, "pytorch"});
    const auto files = contents_of(folder);
    CHECK(files.count("model.safetensors") == 0);
    REQUIRE(files.count("pytorch_model.bin") == 1);
    CHECK(files.at("pytorch_model.bin").starts_with("PK"));
    CHECK(files.at("pytorch_model.bin").size() > 226'000);
    CHECK(has(consolidate({last, folder, "--force", option, "pytorch"}).text, "pytorch"));
  }
  CHECK(has(consolidate({last, scratch / "x", "-f", "gguf"}).text,
            "gguf, expected one of safetensors, pytorch"));
}

TEST_CASE("a folder that replaces another is open to nobody else") {
  const Scratch scratch;
  const std::string checkpoint = write_checkpoint(scratch, "small", {1, "tensor", 1}), out = scratch / "out";
  const auto mode = [](const fs::path& path) { return sw::detail::status_of(path)->st_mode & 0777u; };
  consolidated({checkpoint, out});
  for (const auto& entry : fs::directory_iterator(out)) REQUIRE(::chmod(entry.path().c_str(), 0600) == 0);
  REQUIRE(::chmod(out.c_str(), 0700) == 0);
  for (const std::vector<std::string>& options : {std::vector<std::string>{},
                                                  {"--max-file-bytes", "50kB"},
                                                  {"-f", "pytorch"},
                                                  {"--weights-dtype", "BF16"}}) {
    std::vector<std::string> words{checkpoint, out, "--force"};
    words.insert(words.end(), options.begin(), options.end());
    consolidated(words);
    CHECK(mode(out) == 0700);
    for (const auto& entry : fs::directory_iterator(out)) {
      CAPTURE(entry.path());
      CHECK(mode(entry.path()) == 0600);
    }
  }
  REQUIRE(::chmod((out + "/config.json").c_str(), 0644) == 0);
  if (::geteuid() == 0) REQUIRE(::chown(out.c_str(), 1234, 4321) == 0);
  consolidated({checkpoint, out, "--force"});
  CHECK(mode(out + "/config.json") == 0644);
  CHECK(mode(out + "/model.safetensors") == 0600);
  if (::geteuid() == 0) CHECK(sw::detail::status_of(out)->st_uid == 1234);
  // An empty one, and a checkpoint.
  fs::create_directory(scratch / "empty");
  REQUIRE(::chmod((scratch / "empty").c_str(), 0750) == 0);
  consolidated({checkpoint, scratch / "empty"});
  CHECK(mode(scratch / "empty") == 0750);
  REQUIRE(::chmod(checkpoint.c_str(), 0700) == 0);
  job(2, {"write", "small", "tensor", "1", checkpoint});
  CHECK(mode(checkpoint) == 0700);
}

TEST_CASE("a large model takes little memory, and a signal leaves nothing") {
  const Scratch scratch;
  const std::string checkpoint = write_checkpoint(scratch, "large", {4, "sharded", 2}), out = scratch / "out";
  const Index bytes = sw::read_manifest(checkpoint).bytes();
  REQUIRE(bytes > 300'000'000);
  const Ended help = consolidate({"--help"});
  REQUIRE(has(help.text, "Usage: shardwise-consolidate"));
  const long start = help.peak_kib;
  auto check = [&](const std::string& what, const Ended& ended) {
    CAPTURE(ended.text);
    CHECK(ended.code == 0);
    const long more = ended.peak_kib - start;
    MESSAGE(what << " of " << bytes / 1'000'000 << " MB: a peak of " << more / 1024 << " MiB over the "
                 << start / 1024 << " MiB at the start");
    CHECK(more < 64 * 1024);
  };
  check("verifying", inspect({checkpoint, "--verify"}));
  check("consolidating", consolidate({checkpoint, out}));
  check("converting",
        consolidate({checkpoint, out + "16", "--weights-dtype", "BF16", "--max-file-bytes", "100MB"}));
  check("importing", consolidate({"--to-checkpoint", out + "16", out + "32", "--weights-dtype", "F32"}));
  fs::remove_all(out + "16");
  fs::remove_all(out + "32");

  const auto before = scratch.names();
  const Ended ended =
      run({CONSOLIDATE, checkpoint, scratch / "never"}, RLIM_INFINITY, scratch / "never.tmp-");
  CAPTURE(ended.text);
  CHECK(ended.code == 128 + SIGTERM);
  CHECK(has(ended.text, "interrupted"));
  CHECK(scratch.names() == before);
}

TEST_CASE("pieces of any cut, rows longer than a slab, and more files than may be open") {
  const Scratch scratch;
  const fs::path folder = scratch / "cut";
  fs::create_directory(folder);
  sw::CheckpointManifest manifest;
  auto value = [](Index place) { return static_cast<std::uint32_t>(place * 2654435761); };
  /// Cut in `cuts` parts in each dimension, each in a file of its own.
  auto add = [&](const std::string& name, const std::vector<Index>& shape, const std::vector<int>& cuts,
                 Index group) {
    sw::CheckpointTensor tensor{name, sw::StoredType::u32, shape, "", group, {}};
    int pieces = 1;
    for (int each : cuts) pieces *= each;
    for (int number = 0; number < pieces; ++number) {
      sw::CheckpointPiece piece{manifest.files.size(), 0, {}, {}, {}};
      int rest = number;
      for (std::size_t dim = 0; dim < shape.size(); ++dim) {
        const sw::Range range = sw::balanced_block(shape[dim], cuts[dim], rest % cuts[dim]);
        rest /= cuts[dim];
        piece.begin.push_back(range.begin);
        piece.size.push_back(range.size);
      }
      std::string bytes;
      std::vector<std::string> groups;
      std::vector<Index> index = piece.begin;
      const sw::Range rows = sw::detail::rows_of(piece);
      const Index first = rows.begin / group;
      for (bool more = true; more;) {
        Index place = 0;
        for (std::size_t dim = 0; dim < shape.size(); ++dim) place = place * shape[dim] + index[dim];
        const std::uint32_t element = value(place);
        const auto in = static_cast<std::size_t>((shape.empty() ? 0 : index[0]) / group - first);
        if (groups.size() <= in) groups.resize(in + 1);
        groups[in].append(reinterpret_cast<const char*>(&element), 4);
        more = false;
        for (std::size_t dim = shape.size(); dim-- > 0 && !more;) {
          more = ++index[dim] < piece.begin[dim] + piece.size[dim];
          if (!more) index[dim] = piece.begin[dim];
        }
      }
      for (const std::string& each : groups) {
        bytes += each;
        piece.checksums.push_back(sw::detail::fingerprint_of(each));
      }
      manifest.files.push_back(
          {"file" + std::to_string(manifest.files.size()), static_cast<Index>(bytes.size())});
      write_bytes(folder / manifest.files.back().name, bytes);
      tensor.pieces.push_back(std::move(piece));
    }
    manifest.tensors.push_back(std::move(tensor));
  };
  add("scalar", {}, {}, 1);
  add("vector", {1000}, {3}, 7);
  add("matrix", {13, 11}, {4, 3}, 3);
  add("cube", {7, 6, 5}, {7, 2, 5}, 2);
  add("wide", {3, 3 << 20}, {2, 3}, 1);             // a row is 12 MiB
  add("wide cube", {2, 1001, 2999}, {1, 7, 3}, 1);  // and cut in short runs
  add("one group", {5000, 700}, {5, 2}, 1 << 30);
  const rlim_t most = 100;  // files that this process may have open
  REQUIRE(manifest.files.size() > most);
  write_bytes(folder / "manifest.json", sw::detail::manifest_text(manifest));

  rlimit before{};
  REQUIRE(::getrlimit(RLIMIT_NOFILE, &before) == 0);
  const rlimit few{most, before.rlim_max};
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &few) == 0);
  const sw::CheckpointManifest found = sw::read_manifest(folder);
  sw::detail::CheckpointReader reader(folder, found);
  for (const sw::CheckpointTensor& tensor : found.tensors) {
    CAPTURE(tensor.name);
    std::vector<std::uint32_t> elements(static_cast<std::size_t>(tensor.elements()), 0), wanted = elements;
    for (std::size_t i = 0; i < wanted.size(); ++i) wanted[i] = value(static_cast<Index>(i));
    Index count = 0;
    const Index all = tensor.elements(), third = all / 3;
    for (const sw::Range part :
         {sw::Range{0, third}, {third, all / 2}, {third + all / 2, all - third - all / 2}}) {
      reader.for_each_slab(tensor, part, [&](Index first, const char* data, Index run) {
        REQUIRE(first >= part.begin);
        REQUIRE(first + run <= part.end());
        std::memcpy(elements.data() + first, data, static_cast<std::size_t>(4 * run));
        count += run;
      });
    }
    CHECK(count == tensor.elements());
    CHECK((elements == wanted));
  }
  CHECK(sw::verify_checkpoint(folder).empty());
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &before) == 0);

  for (const sw::CheckpointTensor& tensor : found.tensors) {
    CAPTURE(tensor.name);
    const fs::path file = folder / found.files[tensor.pieces.back().file].name;
    damage(file, fs::file_size(file) - 1);
    std::string problem;
    try {
      sw::detail::CheckpointReader damaged(folder, found);
      damaged.for_each_slab(tensor, {0, tensor.elements()}, [](Index, const char*, Index) {});
    } catch (const std::runtime_error& error) {
      problem = error.what();
    }
    CHECK(has(problem, file.string() + ": tensor \"" + tensor.name + "\": the checksum of rows "));
  }
  CHECK(sw::verify_checkpoint(folder).size() == found.tensors.size());
}

TEST_CASE("files that are made to do harm") {
  const Scratch scratch;
  const std::string folder = scratch / "harm";
  fs::create_directories(folder);
  const std::string evil = "model.\x1b]0;x\a\xc2\x9b" + std::string(5'000'000, 'x');
  constexpr Index terabyte = Index{1} << 40;
  sw::CheckpointManifest manifest;
  manifest.mesh = {{evil, 2}};
  manifest.numbers = {{evil, 1}};
  manifest.notes[evil] = 1;
  manifest.files = {{"a", terabyte}};
  manifest.tensors = {{evil, sw::StoredType::u8, {terabyte}, evil, terabyte, {{0, 0, {0}, {terabyte}, {7}}}}};
  write_bytes(folder + "/manifest.json", sw::detail::manifest_text(manifest));
  write_bytes(folder + "/a", "");
  fs::resize_file(folder + "/a", terabyte);  // without blocks on the device

  const auto harmless = [](const Ended& ended) {
    return !has(ended.text, "\x1b") && !has(ended.text, "\a") && !has(ended.text, "\xc2\x9b") &&
           ended.text.size() < 10'000;
  };
  CHECK(harmless(inspect({folder, "--tensors"})));
  const Ended consolidation = consolidate({folder, scratch / "out"});
  CHECK(consolidation.code == 1);
  CHECK(harmless(consolidation));
  std::thread later([&] {
    std::this_thread::sleep_for(std::chrono::seconds(1));
    write_bytes(scratch / "now", "");
  });
  const Ended verification = run({INSPECT, folder, "--verify"}, RLIM_INFINITY, scratch / "now");
  later.join();
  CHECK(verification.code == 128 + SIGTERM);
  CHECK(has(verification.text, "interrupted"));

  const Ended of_run = consolidate({scratch / "", scratch / "out"});
  CHECK(has(of_run.text, "not a checkpoint, but a folder of some: name one, such as " + folder));
  CHECK(has(inspect({"--tensor", folder}).text,
            "shardwise-inspect: --tensor is not an option; did you mean --tensors?"));
}
