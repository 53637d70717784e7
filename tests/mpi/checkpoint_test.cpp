// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// Checkpoints: from any mesh to any other, bit by bit, each byte read once; damage is found; a save that fails leaves
/// the one before whole.

#include <doctest/doctest.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <shardwise/checkpoint/checkpointer.hpp>
#include <shardwise/llm/models/llama/model.hpp>
#include <shardwise/mesh/mesh.hpp>
#include <shardwise/nn/cross_entropy_loss.hpp>
#include <shardwise/tensor/distribute.hpp>
#include <shardwise/train/adamw.hpp>

#include <csignal>
#include <fstream>

#include "outcome.hpp"
#include "scratch_folder.hpp"

namespace sw = shardwise;
using sw::dp;
using sw::Index;
using sw::Replicate;
using sw::Shard;
using sw::tp;

namespace {

using Mesh = sw::Mesh<dp, tp>;
using Whole = sw::llm::LlamaTensorParallel<>;
using Sharded = sw::PlanWith<Whole, sw::FullyShard<dp>>;

constexpr sw::llm::LlamaConfig config{
    .vocabulary = 29, .features = 16, .layers = 2, .heads = 4, .kv_heads = 4, .hidden = 10, .context = 8};

/// How a model lies.
struct Kind {
  const char* name;
  int groups, splits;
  bool sharded;
};
constexpr Kind kinds[] = {{"1", 1, 1, false},     {"tp 2", 1, 2, false},        {"dp 2", 2, 1, false},
                          {"tp 4", 1, 4, false},  {"dp 2 x tp 2", 2, 2, false}, {"dp 4", 4, 1, false},
                          {"FSDP 2", 2, 1, true}, {"FSDP 3", 3, 1, true},       {"FSDP 4", 4, 1, true}};

/// The first ranks of the job; nothing on the others.
std::optional<Mesh> mesh_of(const Kind& kind) {
  std::vector<int> ranks;
  for (int r = 0; r < kind.groups * kind.splits; ++r) ranks.push_back(r);
  if (sw::world().rank() >= static_cast<int>(ranks.size())) return std::nullopt;
  return Mesh(sw::world().subgroup(ranks), {kind.groups, kind.splits});
}

/// A model, its optimizer, and how many steps they made.
template <class PlanType, class T = float>
struct Run {
  explicit Run(const Mesh& mesh) : model(mesh, config), contents(mesh) {
    contents.add("model", model);
    contents.add("optimizer", adamw, model);
    contents.add("step", step);
  }
  void train(int steps) {
    const Mesh mesh = contents_mesh();
    for (int i = 0; i < steps; ++i, ++step) {
      sw::Tape tape;
      sw::Tensor<std::int32_t, 2, Mesh, Shard<0>, Replicate> ids(mesh, {12, 8});
      for (Index j = 0; j < ids.view().elements(); ++j) {
        ids.writable().data[j] = static_cast<std::int32_t>((ids.box().begin[0] * 8 + j * 7 + step) % 29);
      }
      auto loss = sw::CrossEntropyLoss()(model(tape.constant(ids)), ids);
      sw::backward_and_reduce(loss, model);
      adamw.step(model);
    }
  }
  Mesh contents_mesh() { return model.norm->weight.mesh(); }

  /// Everything, whole, by its name.
  sw::testing::Outcome values() {
    sw::testing::Outcome all = sw::testing::values_of(model);
    auto add_state = [&](const std::string& name, const sw::detail::AnyTensor& state) {
      REQUIRE(state.type == sw::DataType::f32);
      all[name] = sw::testing::whole(state);
    };
    adamw.for_each_state(model, add_state, [&](const std::string& name, std::int64_t n) {
      all[name] = {static_cast<double>(n)};
    });
    all["step"] = {static_cast<double>(step)};
    return all;
  }

  sw::llm::Llama<Mesh, PlanType, T> model;
  sw::AdamW adamw;
  std::int64_t step = 0;
  sw::CheckpointContents contents;
};

template <class F>
void with_run(const Kind& kind, F f) {
  if (auto mesh = mesh_of(kind)) {
    if (kind.sharded) {
      Run<Sharded> run(*mesh);
      f(run);
    } else {
      Run<Whole> run(*mesh);
      f(run);
    }
  }
  sw::world().barrier();
}

Mesh line() { return Mesh(sw::world(), {sw::world().size(), 1}); }

Index sum_over(const sw::Communicator& ranks, Index mine) {
  Index all = 0;
  ranks.all_reduce(&mine, &all, 1, sw::data_type<Index>, sw::ReduceOp::sum);
  return all;
}

void change_byte(const std::filesystem::path& file, Index at) {
  std::fstream stream(file, std::ios::in | std::ios::out | std::ios::binary);
  stream.seekg(at);
  const char byte = static_cast<char>(stream.get() ^ 1);
  stream.seekp(at);
  stream.put(byte);
}

std::vector<std::string> names_in(const std::filesystem::path& folder) {
  std::vector<std::string> names;
  if (!std::filesystem::exists(folder)) return names;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    names.push_back(entry.path().filename());
  std::sort(names.begin(), names.end());
  return names;
}

/// A folder on a disk that is full when it has two checkpoints.
std::filesystem::path disk_for_two;

/// Does `f` on the first rank alone, and lets the others wait.
template <class F>
void on_first(F f) {
  if (sw::world().rank() == 0) f();
  sw::world().barrier();
}

}  // namespace

extern "C" ssize_t pwrite(int file, const void* from, size_t bytes, off_t at) {
  if (!disk_for_two.empty()) {
    std::ptrdiff_t whole = 0;
    for (const std::string& name : names_in(disk_for_two)) whole += name.size() == 13;
    if (whole >= 2) return errno = ENOSPC, -1;
  }
  return ::syscall(SYS_pwrite64, file, from, bytes, at);
}

TEST_CASE("what one mesh writes any other reads, bit by bit, and each byte once") {
  if (sw::world().size() > 7) return;  // of more ranks, too, four would do it
  const ScratchFolder scratch;
  for (const Kind& from : kinds) {
    if (from.groups * from.splits > sw::world().size()) continue;
    const auto folder = scratch.path() / "run";
    sw::testing::Outcome saved;
    Index bytes = 0;
    with_run(from, [&](auto& run) {
      sw::initialize(run.model, 3);
      run.train(2);
      const Index own = sw::save_checkpoint(folder, run.contents, {{"kind", from.name}});
      CHECK(own == sw::checkpoint_bytes(run.model) + sw::checkpoint_bytes(run.adamw, run.model));
      bytes = sum_over(run.contents.ranks(), own);
      saved = run.values();
    });
    for (const Kind& to : kinds) {
      if (to.groups * to.splits > sw::world().size()) continue;
      INFO(from.name << " to " << to.name);
      with_run(to, [&](auto& run) {
        const auto loaded = sw::load_checkpoint(folder, run.contents);
        CHECK(loaded.notes["kind"] == from.name);
        const Index read = sum_over(run.contents.ranks(), loaded.bytes_read);
        const auto values = run.values();
        if (sw::world().rank() != 0) return;
        CHECK(read == bytes);
        CHECK(values == saved);
        CHECK(run.step == 2);
      });
    }
  }
}

/// What /proc/self/status says, in KiB.
Index kibibytes(const std::string& name) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with(name)) return std::atol(line.c_str() + name.size());
  }
  FAIL("/proc/self/status has no " << name);
  return 0;
}

sw::llm::LlamaConfig large_config() {
  sw::llm::LlamaConfig large = config;
  large.vocabulary = 100'000;
  large.features = 256;  // 205 MB
  return large;
}

/// As the values of the parameters: to draw them would be most of a test's time.
void take_what_memory_holds(auto& model) {
  for (const auto& parameter : sw::detail::named_parameters_of(model)) parameter.cell->writable();
}

TEST_CASE("a load takes at most 64 MiB beside the blocks" * doctest::test_suite("MPI")) {
  const ScratchFolder scratch;
  const sw::llm::LlamaConfig large = large_config();
  {
    sw::llm::Llama<Mesh, Sharded> model(line(), large);
    take_what_memory_holds(model);
    sw::CheckpointContents contents(line());
    contents.add("model", model);
    sw::save_checkpoint(scratch.path() / "c", contents);
  }
  auto load = [&](const Mesh& mesh) {
    sw::llm::Llama<Mesh, Whole> model(mesh, large);
    sw::CheckpointContents contents(mesh);
    contents.add("model", model);
    sw::load_checkpoint(scratch.path() / "c", contents);  // from now on the blocks' memory is in use
    REQUIRE((std::ofstream("/proc/self/clear_refs") << "5").flush());  // the peak begins anew
    const Index before = kibibytes("VmRSS:");
    const auto loaded = sw::load_checkpoint(scratch.path() / "c", contents);
    CHECK(kibibytes("VmHWM:") - before < 64 << 10);
    const Index bytes = sw::parameter_count(model) * 4;
    CHECK(sum_over(sw::world(), loaded.bytes_read) == bytes);
  };
  load(line());
  load(Mesh(sw::world(), {1, sw::world().size()}));
}

TEST_CASE("what ranks have added unlike is an error when it is saved") {
  if (sw::world().size() == 1) return;
  const ScratchFolder scratch;
  std::int64_t step = 3 + sw::world().rank();
  sw::CheckpointContents numbers(line());
  numbers.add("step", step);
  const std::string unlike = error_of([&] { sw::save_checkpoint(scratch.path() / "c", numbers); });
  CHECK_MESSAGE(has(unlike, "other numbers than on rank 0: here \"step\" 4"), unlike);

  Run<Sharded, float> run(line());
  sw::initialize(run.model, 3);
  sw::CheckpointContents of_one(line());
  if (sw::world().rank() == 0) of_one.add("model", run.model);
  const std::string missing = error_of([&] { sw::save_checkpoint(scratch.path() / "c", of_one); });
  CHECK_MESSAGE(has(missing, "a piece is missing"), missing);
  CHECK_FALSE(std::filesystem::exists(scratch.path() / "c"));
}

TEST_CASE("a run goes on after loading as if nothing had been") {
  const ScratchFolder scratch;
  Run<Sharded, Eigen::bfloat16> straight(line());
  sw::initialize(straight.model, 3);
  straight.train(3);
  sw::save_checkpoint(scratch.path() / "run", straight.contents);
  straight.train(3);
  Run<Sharded, Eigen::bfloat16> resumed(line());
  sw::load_checkpoint(scratch.path() / "run", resumed.contents);
  CHECK(resumed.adamw.steps() == 3);
  resumed.train(3);
  CHECK(resumed.values() == straight.values());
}

TEST_CASE("damage is found on every rank, with file and tensor") {
  const ScratchFolder scratch;
  const auto folder = scratch.path() / "run";
  Run<Sharded> run(line());
  sw::initialize(run.model, 3);
  bool damage_found = false;  // by the type of the error
  auto error = [&] {
    return error_of([&] {
      try {
        damage_found = false;
        sw::load_checkpoint(folder, run.contents);
      } catch (const sw::DamagedCheckpoint&) {
        damage_found = true;
        throw;
      }
    });
  };
  auto save = [&] {
    on_first([&] { std::filesystem::remove_all(folder); });  // without a whole manifest it is no checkpoint
    sw::save_checkpoint(folder, run.contents);
  };
  auto damaged = [&](auto damage) {
    save();
    on_first(damage);
    return error();
  };
  const auto data = folder / "rank-00000.bin", manifest = folder / "manifest.json";

  const std::string flipped = damaged([&] { change_byte(data, 17); });
  CHECK_MESSAGE(has(flipped, "rank-00000.bin: tensor \"model.tokens.weight\": the checksum of rows"),
                flipped);
  CHECK(damage_found);
  const std::string truncated = damaged([&] { std::filesystem::resize_file(data, 100); });
  CHECK_MESSAGE(has(truncated, "rank-00000.bin: it has 100 bytes, expected"), truncated);
  CHECK_MESSAGE(has(truncated, ": tensor \"model.tokens.weight\" is not whole"), truncated);
  CHECK(damage_found);
  const std::string gone = damaged([&] { std::filesystem::remove(data); });
  CHECK_MESSAGE(has(gone, "rank-00000.bin: cannot be opened"), gone);
  CHECK(damage_found);
  for (Index at : {0, 20, 60, 500}) {
    const std::string text = damaged([&] { change_byte(manifest, at); });
    CHECK_MESSAGE(has(text, "manifest.json: "), text);
    CHECK(damage_found);
  }
  for (const auto& file : {data, manifest}) {  // that cannot be read now is no damage
    const std::string unread = damaged([&] {
      std::filesystem::remove(file);
      std::filesystem::create_symlink(file, file);
    });
    CHECK_MESSAGE(has(unread, std::strerror(ELOOP)), unread);
    CHECK_FALSE(damage_found);
  }
  save();
  for (const auto& file : {data, manifest}) {  // whichever it is: every byte has a checksum
    const auto size = static_cast<Index>(std::filesystem::file_size(file));
    for (int i = 0; i < 60; ++i) {
      const Index at = (i * 7919) % size;
      on_first([&] { change_byte(file, at); });
      CHECK_MESSAGE(error() != "no error", file.string() << ", byte " << at);
      on_first([&] { change_byte(file, at); });
    }
  }
  CHECK(error() == "no error");
  const std::string half = damaged([&] { std::filesystem::resize_file(manifest, 300); });
  CHECK_MESSAGE(has(half, "manifest.json: no manifest of a checkpoint, or it is truncated"), half);
  CHECK(damage_found);

  auto with_manifest = [&](auto change) {
    return damaged([&] {
      auto json = sw::read_json(manifest)["manifest"];
      change(json);
      const std::string text = json.dump();
      const std::uint64_t sum = sw::detail::fingerprint_of(text);
      std::ofstream(manifest) << "{\"checksum\":\"" << sw::detail::hex_of({&sum, 1})
                              << "\",\"manifest\":" << text << "}\n";
    });
  };
  CHECK(has(with_manifest([](auto& json) { json["version"] = 2; }), "newer than the 1 that is known here"));
  CHECK_FALSE(damage_found);  // and a save does not take it for damage either
  CHECK(has(error_of([&] { sw::save_checkpoint(folder, run.contents); }), "newer than the 1 that is known"));
  CHECK(has(with_manifest([](auto& json) { json["tensors"][0]["pieces"].erase(0); }), "a piece is missing"));
  CHECK(damage_found);
  CHECK(has(with_manifest([](auto& json) { json["files"][0][0] = "../rank-00000.bin"; }),
            "does not lie in the folder"));
  CHECK(has(with_manifest([](auto& json) { json["tensors"][0]["name"] = "other"; }),
            "not there: \"model.tokens.weight\"; not wanted: \"other\""));
  CHECK_FALSE(damage_found);
  CHECK(has(with_manifest([](auto& json) { json["tensors"][0]["type"] = "F16"; }),
            " of rank-00000.bin, expected "));
  CHECK(has(with_manifest([](auto& json) { json["tensors"][0]["type"] = "I32"; }),
            "tensor \"model.tokens.weight\": expected the type F32, found I32"));
}

TEST_CASE("a part of a checkpoint is loaded if that is asked for, and what was left out is listed") {
  const ScratchFolder scratch;
  const auto folder = scratch.path() / "run";
  Run<Sharded> run(line());
  sw::initialize(run.model, 3);
  sw::save_checkpoint(folder, run.contents);

  Run<Whole> other(line());
  sw::CheckpointContents elsewhere(Mesh(sw::world(), {1, sw::world().size()}));
  if (sw::world().size() > 1) CHECK_THROWS_AS(elsewhere.add("model", other.model), std::invalid_argument);
  sw::CheckpointContents model_only(other.contents_mesh());
  model_only.add("model", other.model);
  CHECK(has(error_of([&] { sw::load_checkpoint(folder, model_only); }), "not wanted: \"optimizer."));
  std::int64_t fresh = 5;
  model_only.add("fresh", fresh);
  const auto loaded = sw::load_checkpoint(
      folder, model_only,
      {.partial = true, .name_of = [](std::string_view name) { return std::string(name); }});
  CHECK(loaded.missing == std::vector<std::string>{"fresh"});
  CHECK(fresh == 5);
  CHECK(std::find(loaded.surplus.begin(), loaded.surplus.end(), "step") != loaded.surplus.end());
  CHECK(sw::full_tensor(other.model.norm->weight.stored()) ==
        sw::full_tensor(run.model.norm->weight.stored()));
}

TEST_CASE("a save that fails is every rank's, leaves nothing, and the one before is whole" *
          doctest::test_suite("MPI")) {
  const ScratchFolder scratch;
  const auto folder = scratch.path() / "run";
  Run<Sharded> run(line());
  sw::initialize(run.model, 3);
  sw::save_checkpoint(folder, run.contents);
  const auto before = run.values();
  run.train(1);

  rlimit old{};
  getrlimit(RLIMIT_FSIZE, &old);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  if (sw::world().rank() == sw::world().size() - 1) {  // one rank's disk is full
    const rlimit small{1000, old.rlim_max};
    setrlimit(RLIMIT_FSIZE, &small);
  }
  const std::string text = error_of([&] { sw::save_checkpoint(folder, run.contents); });
  setrlimit(RLIMIT_FSIZE, &old);
  std::signal(SIGXFSZ, handler);
  CHECK_MESSAGE(has(text, "cannot be written: File too large"), text);
  CHECK(names_in(scratch.path()) == std::vector<std::string>{"run"});
  sw::load_checkpoint(folder, run.contents);
  CHECK(run.values() == before);
  CHECK(has(error_of([&] { sw::save_checkpoint("/proc/nowhere/run", run.contents); }), "/proc/nowhere"));
}

TEST_CASE("a model without values is neither saved nor trained, until it is loaded") {
  const ScratchFolder scratch;
  Run<Sharded> run(line()), later(line());
  sw::initialize(run.model, 3);
  sw::save_checkpoint(scratch.path() / "run", run.contents);
  const std::string text = error_of([&] { sw::save_checkpoint(scratch.path() / "later", later.contents); });
  CHECK_MESSAGE(has(text, "\"model.tokens.weight\": a parameter ["), text);
  CHECK_MESSAGE(has(text, "] is used before it has a value"), text);
  CHECK(names_in(scratch.path()) == std::vector<std::string>{"run"});
  CHECK_THROWS_AS(later.train(1), std::logic_error);
  sw::load_checkpoint(scratch.path() / "run", later.contents);
  run.train(1);
  later.train(1);
  CHECK(run.values() == later.values());
}

TEST_CASE("only checkpoints are replaced, and a slash at the end of a name is none of it") {
  const ScratchFolder scratch;
  const auto folder = scratch.path() / "run";
  Run<Sharded> run(line());
  sw::initialize(run.model, 3);
  sw::save_checkpoint(folder / "", run.contents);
  sw::save_checkpoint(folder / "", run.contents);
  CHECK(names_in(scratch.path()) == std::vector<std::string>{"run"});
  sw::load_checkpoint(folder / "", run.contents);

  const std::string text = error_of([&] { sw::save_checkpoint(scratch.path(), run.contents); });
  CHECK_MESSAGE(has(text, scratch.path().string() + ": is not replaced, for it is not a checkpoint"), text);
  on_first([&] { std::filesystem::create_directory(scratch.path() / "empty"); });
  sw::save_checkpoint(scratch.path() / "empty", run.contents);
  CHECK(names_in(scratch.path()) == std::vector<std::string>{"empty", "run"});
}

TEST_CASE("ranks that see other checkpoints under one name do not load any") {
  if (sw::world().size() == 1) return;
  const ScratchFolder scratch;
  Run<Sharded> run(line());
  sw::initialize(run.model, 3);
  sw::save_checkpoint(scratch.path() / "a", run.contents);
  run.train(1);
  sw::save_checkpoint(scratch.path() / "b", run.contents);
  const char* mine = sw::world().rank() == 0 ? "a" : "b";
  const std::string text = error_of([&] { sw::load_checkpoint(scratch.path() / mine, run.contents); });
  CHECK_MESSAGE(has(text, std::string(mine) + " is not the same checkpoint on all ranks"), text);
}

// AddressSanitizer ends a program that has no memory.
#if defined(__SANITIZE_ADDRESS__)
constexpr bool sanitized = true;
#else
constexpr bool sanitized = false;
#endif

TEST_CASE("a copy for which one rank has no memory stops the save on every rank, and nothing else" *
          doctest::test_suite("MPI") * doctest::skip(sanitized)) {
  const ScratchFolder scratch;
  sw::llm::Llama<Mesh, Sharded> model(line(), large_config());
  take_what_memory_holds(model);
  sw::CheckpointContents contents(line());
  contents.add("model", model);
  sw::Checkpointer checkpointer(contents.ranks(), {.folder = scratch.path()});

  rlimit old{};
  getrlimit(RLIMIT_AS, &old);
  if (sw::world().rank() == sw::world().size() - 1) {
    const rlimit small{static_cast<rlim_t>(kibibytes("VmSize:") << 10) + (16 << 20), old.rlim_max};
    setrlimit(RLIMIT_AS, &small);
  }
  const auto problem = checkpointer.save(1, contents);
  setrlimit(RLIMIT_AS, &old);
  REQUIRE(problem.has_value());
  CHECK_MESSAGE(has(*problem, "step-00000001: there is no memory to copy "), *problem);
  CHECK_FALSE(checkpointer.saving());
  CHECK(names_in(scratch.path()).empty());
  CHECK_FALSE(checkpointer.save(2, contents).has_value());
  CHECK_FALSE(checkpointer.finish().has_value());
  CHECK(names_in(scratch.path()) == std::vector<std::string>{"step-00000002"});
}

TEST_CASE("a folder that cannot be used is found before the first save") {
  const ScratchFolder scratch;
  Run<Sharded> run(line());
  on_first([&] {
    std::ofstream(scratch.path() / "file") << "x";
    std::filesystem::create_symlink("nowhere/at/all", scratch.path() / "link");
  });
  for (const std::string name : {"file", "link", "file/below", "/proc/below"}) {
    sw::Checkpointer checkpointer(run.contents.ranks(), {.folder = scratch.path() / name});
    const std::string text = error_of([&] { checkpointer.claim(); });
    CHECK_MESSAGE(has(text, "the folder of checkpoints " + (scratch.path() / name).string() + ": "), text);
  }
  sw::Checkpointer one(run.contents.ranks(), {.folder = scratch.path() / "run"});
  sw::Checkpointer other(run.contents.ranks(), {.folder = scratch.path() / "run"});
  one.claim();
  CHECK(names_in(scratch.path() / "run").empty());
  CHECK(has(error_of([&] { other.claim(); }), "another run saves its checkpoints there"));
}

TEST_CASE("on a full disk saves fail, and no checkpoint goes" * doctest::test_suite("MPI")) {
  const ScratchFolder scratch;
  Run<Sharded> run(line());
  sw::initialize(run.model, 3);
  sw::Checkpointer checkpointer(run.contents.ranks(), {.folder = scratch.path(), .keep = 3});
  disk_for_two = scratch.path();
  auto save = [&](std::int64_t step) {
    auto problem = checkpointer.save(step, run.contents);
    if (!problem) problem = checkpointer.finish();
    sw::world().barrier();
    return problem.value_or("");
  };
  CHECK(save(1).empty());
  CHECK(save(2).empty());
  for (const std::int64_t step : {3, 4, 5}) {
    const std::string text = save(step);
    CHECK_MESSAGE(has(text, "No space left on device"), text);
    CHECK(names_in(scratch.path()) == std::vector<std::string>{"step-00000001", "step-00000002"});
  }
  sw::world().barrier();
  disk_for_two.clear();
  CHECK(save(6).empty());
  CHECK(names_in(scratch.path()).size() == 3);
  CHECK_THROWS_AS(checkpointer.set_keep(1), std::invalid_argument);
  checkpointer.set_keep(2);
  CHECK(save(7).empty());
  CHECK(names_in(scratch.path()) == std::vector<std::string>{"step-00000006", "step-00000007"});
}

TEST_CASE("a folder that one rank cannot write to is found before the first save" *
          doctest::test_suite("MPI")) {
  if (sw::world().size() == 1) return;
  const ScratchFolder scratch;
  Run<Sharded> run(line());
  const bool apart = sw::world().rank() == 1;  // as on a host that does not share the file system
  const auto folder = scratch.path() / (apart ? "there" : "here");
  for (const bool exists : {false, true}) {
    if (exists && apart) std::filesystem::create_directories(folder);
    sw::Checkpointer checkpointer(run.contents.ranks(), {.folder = folder});
    for (int attempt = 0; attempt < 2; ++attempt) {
      const std::string text = error_of([&] { checkpointer.claim(); });
      CHECK_MESSAGE(has(text, "there/step-trial.tmp-sw"), text);
      CHECK_MESSAGE(has(text, "cannot be created: No such file or directory (rank 1)"), text);
    }
    on_first([&] { CHECK(names_in(scratch.path() / "here").empty()); });
  }
}

TEST_CASE("parts of a model do not replace each other") {
  const ScratchFolder scratch;
  auto x = sw::full<float, Replicate, Replicate>(line(), {3, 4}, 1);
  auto contents_of = [&](std::vector<std::string> names) {
    sw::CheckpointContents contents(x.mesh());
    for (const std::string& name : names) contents.add(name, x);
    return contents;
  };
  const auto folder = scratch.path() / "run";
  sw::save_checkpoint(folder, contents_of({"tied", "first"}));
  const std::string text = error_of([&] { sw::save_checkpoint(folder, contents_of({"tied", "second"})); });
  CHECK_MESSAGE(
      has(text, "run: is not replaced, for it is of other tensors: it has \"first\", the new one \"second\""),
      text);
  sw::save_checkpoint(folder, contents_of({"tied", "first", "second"}));
  sw::save_checkpoint(folder, contents_of({"tied"}));
}

TEST_CASE("numbers of steps that cannot be are refused") {
  Run<Whole> run(line());
  sw::initialize(run.model, 3);
  for (const std::int64_t steps : {std::numeric_limits<std::int64_t>::max(), std::int64_t{-1}}) {
    run.adamw.for_each_state(
        run.model, [](auto&&...) {}, [&](auto&&, std::int64_t& number) { number = steps; });
    CHECK_THROWS_WITH_AS(run.train(1), doctest::Contains("an optimizer cannot have made "),
                         std::invalid_argument);
  }
}

TEST_CASE("a checkpointer saves what was there when it was called, and keeps the last ones") {
  const ScratchFolder scratch;
  const auto folder = scratch.path() / "run";
  on_first([&] {
    for (const char* name : {"step-00000009.tmp-sw77", "step-00000003.tmp-mine"})
      std::filesystem::create_directories(folder / name / "x");
  });
  Run<Sharded> run(line());
  sw::initialize(run.model, 3);
  for (const bool in_background : {false, true}) {
    sw::Checkpointer checkpointer(run.contents.ranks(),
                                  {.folder = folder, .keep = 2, .in_background = in_background});
    sw::testing::Outcome values;
    for (int i = 0; i < 4; ++i) {
      run.train(1);
      values = run.values();
      CHECK_FALSE(checkpointer.save(run.step, run.contents).has_value());
      run.train(1);
      CHECK_FALSE(checkpointer.progress().has_value());
    }
    CHECK_FALSE(checkpointer.finish().has_value());
    sw::world().barrier();
    const auto last = checkpointer.latest();
    REQUIRE(last.has_value());
    CHECK(last->filename() == (in_background ? "step-00000015" : "step-00000007"));
    CHECK(names_in(folder).size() == 3);
    Run<Whole> other(line());
    sw::load_checkpoint(*last, other.contents);
    CHECK(other.values() == values);
  }
  CHECK_THROWS_AS(sw::Checkpointer(sw::world(), {.folder = folder, .keep = 1}), std::invalid_argument);

  sw::Checkpointer another_run(run.contents.ranks(), {.folder = folder, .keep = 2});
  const auto refused = another_run.save(14, run.contents);
  REQUIRE(refused.has_value());
  CHECK_MESSAGE(has(*refused, "step-00000015 is there, of more steps than 14"), *refused);
  CHECK(names_in(folder).size() == 3);

  CHECK_FALSE(another_run.save(15, run.contents).has_value());
  sw::Checkpointer beside(run.contents.ranks(), {.folder = folder});
  const auto locked = beside.save(16, run.contents);
  REQUIRE(locked.has_value());
  CHECK_MESSAGE(has(*locked, "another run saves its checkpoints there"), *locked);
  CHECK_FALSE(another_run.finish().has_value());
  sw::world().barrier();
  const auto names = names_in(folder);  // two checkpoints, and what a user has put there
  CHECK((names.size() == 3 && names.front() == "step-00000003.tmp-mine" && names.back() == "step-00000015"));

  on_first([&] { std::filesystem::remove(folder / "step-00000015" / "manifest.json"); });
  const char* damaged = "step-00000015 is damaged: it has no manifest.json; remove it";
  CHECK_THROWS_WITH_AS(another_run.latest(), doctest::Contains(damaged), sw::DamagedCheckpoint);
  CHECK_FALSE(another_run.save(16, run.contents).has_value());  // a run that has the weights goes on
  CHECK_FALSE(another_run.finish().has_value());
  CHECK(another_run.latest() == folder / "step-00000016");

  // The last one is put aside while there is one before it, under a name that is free.
  CHECK_FALSE(another_run.save(17, run.contents).has_value());
  CHECK_FALSE(another_run.finish().has_value());
  Run<Whole> reader(line());
  CHECK(another_run.set_aside_damaged());
  CHECK(std::filesystem::exists(folder / "step-00000017.damaged" / "manifest.json"));
  CHECK(another_run.latest() == folder / "step-00000016");
  CHECK_FALSE(another_run.save(17, run.contents).has_value());
  CHECK_FALSE(another_run.finish().has_value());
  CHECK(another_run.set_aside_damaged());
  CHECK(std::filesystem::exists(folder / "step-00000017.damaged-2" / "manifest.json"));
  sw::world().barrier();
  on_first([&] {
    std::filesystem::remove_all(folder / "step-00000017.damaged");
    std::filesystem::remove_all(folder / "step-00000017.damaged-2");
    std::filesystem::remove_all(folder / "step-00000015");
  });
  CHECK_FALSE(another_run.set_aside_damaged());  // the only one stays

  sw::Checkpointer with_texts(run.contents.ranks(),
                              {.folder = folder / "texts", .texts = {{"tokenizer.json", "{}"}}});
  CHECK_FALSE(with_texts.save(1, run.contents).has_value());
  CHECK_FALSE(with_texts.finish().has_value());
  CHECK(sw::read_text(folder / "texts" / "step-00000001" / "tokenizer.json") == "{}");
  sw::load_checkpoint(folder / "texts" / "step-00000001", reader.contents);
  sw::world().barrier();

  const char* inside = "it is a checkpoint itself: name the folder that it is in";
  sw::Checkpointer deeper(run.contents.ranks(), {.folder = folder / "step-00000016"});
  CHECK_THROWS_WITH_AS(deeper.latest(), doctest::Contains(inside), std::runtime_error);
  const auto unsaved = deeper.save(17, run.contents);
  REQUIRE(unsaved.has_value());
  CHECK_MESSAGE(has(*unsaved, inside), *unsaved);
}
