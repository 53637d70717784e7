// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// Models into files and back: on any mesh, from one file or several, all or nothing, and one rank's failure
/// is every rank's.

#include <doctest/doctest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <shardwise/mesh/mesh.hpp>
#include <shardwise/tensor/distribute.hpp>
#include <shardwise/weights/load_weights.hpp>
#include <shardwise/weights/save_weights.hpp>
#include "support/gpt.hpp"

#include <csignal>
#include <cstdlib>

#include "scratch_folder.hpp"

namespace shardwise::testing::weights {
namespace sw = shardwise;
using sw::dp;
using sw::Index;
using sw::Replicate;
using sw::Shard;
using sw::StoredType;
using sw::tp;

namespace {

using Line = sw::Mesh<tp>;
using Grid = sw::Mesh<dp, tp>;

Line line() { return Line(sw::world(), {sw::any}); }
Line alone() { return Line(sw::self(), {1}); }
Grid grid() { return Grid(sw::world(), {sw::any, sw::world().size() % 2 == 0 ? 2 : 1}); }

constexpr GptConfig config{
    .vocabulary = 13, .context = 4, .features = 12, .heads = 4, .hidden = 10, .layers = 2};

Index over_all_ranks(Index mine) {
  Index all = 0;
  sw::world().all_reduce(&mine, &all, 1, sw::data_type<Index>, sw::ReduceOp::sum);
  return all;
}

/// Every parameter, whole, in one vector.
std::vector<float> values_of(auto& module) {
  std::vector<float> values;
  sw::for_each_parameter(module, [&](auto& parameter) {
    const auto whole = sw::full_tensor(parameter.value());
    values.insert(values.end(), whole.data(), whole.data() + whole.size());
  });
  return values;
}

/// A module of matrices, some of them cut into blocks and some on every rank.
template <class MeshType>
struct Matrices {
  using Rows = sw::Tensor<float, 2, MeshType, Shard<0>>;
  using Columns = sw::Tensor<float, 3, MeshType, Shard<2>>;
  explicit Matrices(const MeshType& mesh, Index rows = 5)
      : a(mesh, {rows, 6}, sw::Init::normal(1)), b(mesh, {2, 3, 7}, sw::Init::normal(1)) {}
  void visit(auto&& f) {
    f("a", a);
    f("b", b);
  }
  sw::Parameter<Rows> a;
  sw::Parameter<Columns> b;
};

/// Two names for one parameter.
template <class MeshType>
struct Tied {
  explicit Tied(const MeshType& mesh) : first(mesh, {5, 6}, sw::Init::normal(1)), second(first.tied()) {}
  void visit(auto&& f) {
    f("first", first);
    f("second", second);
  }
  sw::Parameter<typename Matrices<MeshType>::Rows> first, second;
};

struct Empty {
  void visit(auto&&) {}
};

std::vector<std::string> names_in(const std::filesystem::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    names.push_back(entry.path().filename());
  std::sort(names.begin(), names.end());
  return names;
}

/// Runs f() while this process cannot make a file longer than so many bytes: a disk that is full.
template <class F>
auto with_file_limit(bool limited, rlim_t bytes, F f) {
  std::signal(SIGXFSZ, SIG_IGN);
  rlimit before{};
  ::getrlimit(RLIMIT_FSIZE, &before);
  const rlimit tight{bytes, before.rlim_max};
  if (limited) ::setrlimit(RLIMIT_FSIZE, &tight);
  const auto result = f();
  ::setrlimit(RLIMIT_FSIZE, &before);
  return result;
}

}  // namespace

TEST_CASE("a model saved on one mesh is the same model on any other") {
  const ScratchFolder folder;
  Gpt<Line> model(line(), config);
  sw::initialize(model, 3);
  const auto expected = values_of(model);
  const Index bytes = sw::parameter_count(model) * 4;
  CHECK(over_all_ranks(sw::save_weights(model, folder / "model")) == bytes);  // each byte once
  CHECK(names_in(folder / "model") == std::vector<std::string>{"model.safetensors"});

  Gpt<Grid> on_grid(grid(), config);
  sw::load_weights(on_grid, folder / "model");
  CHECK(values_of(on_grid) == expected);
  Gpt<Line> single(alone(), config);
  CHECK(sw::load_weights(single, folder / "model" / "model.safetensors") == bytes);
  CHECK(values_of(single) == expected);

  // In several files: none longer than the limit, unless one tensor is.
  CHECK(over_all_ranks(sw::save_weights(on_grid, folder / "several", {.max_file_bytes = 2000})) == bytes);
  const auto names = names_in(folder / "several");
  REQUIRE(names.size() > 4);
  CHECK(names.back() == "model.safetensors.index.json");
  const sw::Json index = sw::read_json(folder / "several" / names.back());
  CHECK(index.at("metadata").at("total_size") == bytes);
  CHECK(has(index.at("weight_map").at("blocks.1.mlp.down.weight").get<std::string>(), "model-0000"));
  const sw::Weights weights(folder / "several");
  CHECK(weights.files().size() == names.size() - 1);
  for (const sw::SafetensorsFile& file : weights.files()) {
    Index elements = 0;
    for (const sw::StoredTensor& tensor : file.tensors()) elements += tensor.bytes;
    CHECK((elements <= 2000 || file.tensors().size() == 1));
  }
  Gpt<Line> again(line(), config);
  sw::load_weights(again, folder / "several");
  CHECK(values_of(again) == expected);
  CHECK(sw::full_tensor(sw::read_tensor<float, 2, Shard<1>>(line(), folder / "several", "positions")) ==
        sw::full_tensor(model.positions.table.value()));

  // One file over several, and back: what is loaded is what was saved last, and only that is listed.
  sw::initialize(model, 4);
  sw::save_weights(model, folder / "several");
  sw::load_weights(again, folder / "several");
  CHECK(values_of(again) == values_of(model));
  CHECK(values_of(again) != expected);
  sw::save_weights(on_grid, folder / "several", {.max_file_bytes = 3000});
  CHECK(!std::filesystem::exists(folder / "several" / "model.safetensors"));
  sw::load_weights(again, folder / "several");
  CHECK(values_of(again) == expected);
}

TEST_CASE("sharded parameters are read once, by all ranks together") {
  const ScratchFolder folder;
  Matrices<Line> module(line());
  sw::initialize(module, 1);
  sw::save_weights(module, folder / "x.safetensors", {.type = StoredType::f64});
  Matrices<Line> loaded(line());
  const Index mine = sw::load_weights(loaded, folder / "x.safetensors");
  CHECK(mine == 8 * (loaded.a.value().view().elements() + loaded.b.value().view().elements()));
  CHECK(over_all_ranks(mine) == 8 * (5 * 6 + 2 * 3 * 7));
  CHECK(values_of(loaded) == values_of(module));
}

TEST_CASE("other names, other types, merged dimensions, tied weights, surplus tensors") {
  const ScratchFolder folder;
  const Line mesh = line();
  const auto path = folder / "renamed.safetensors";
  Matrices<Line> module(mesh);
  sw::initialize(module, 1);
  const auto prefixed = [](std::string_view name) { return "model." + std::string(name); };
  sw::save_weights(module, path, {.name_of = prefixed, .type = StoredType::bf16, .metadata = {{"k", "v"}}});
  {
    const sw::Weights file(path);
    CHECK(file.files()[0].metadata().at("k") == "v");
    CHECK(file.tensor("model.b").shape == std::vector<Index>{2, 3, 7});
    CHECK(file.tensor("model.a").type == StoredType::bf16);
  }
  Matrices<Line> loaded(mesh);
  sw::load_weights(loaded, path, {.name_of = prefixed});
  sw::initialize(loaded, 9);
  sw::load_weights(loaded, path, {.name_of = prefixed});
  const auto exact = values_of(module), rounded = values_of(loaded);
  for (std::size_t i = 0; i < exact.size(); ++i) {
    CHECK(rounded[i] == static_cast<float>(static_cast<Eigen::bfloat16>(exact[i])));
  }

  const auto a = sw::full<float, Replicate>(mesh, {5, 6}, 2.0F);
  const auto b = sw::randn<float, Replicate>(mesh, {6, 7}, 5);  // [2 * 3, 7]
  const auto inv_freq = sw::full<float, Replicate>(mesh, {3}, 1.0F);
  sw::write_tensors(path, {{"a", a}, {"b", b}, {"layers.0.inv_freq", inv_freq}});
  sw::load_weights(loaded, path, {.may_be_surplus = [](auto name) { return name.ends_with("inv_freq"); }});
  const auto flat = values_of(loaded);
  CHECK(std::equal(flat.begin() + 30, flat.end(), sw::full_tensor(b).data()));
  CHECK(flat[0] == 2.0F);

  Tied<Line> tied(mesh);
  sw::load_weights(tied, path,
                   {.name_of = [](auto) { return "a"; }, .may_be_surplus = [](auto) { return true; }});
  CHECK(values_of(tied) == std::vector<float>(60, 2.0F));
}

/// Of a list of three layers the last two, and a head that may be missing.
struct LastLayers : sw::Module<LastLayers> {
  sw::ModulesOf<sw::Linear<Line, sw::NoParallel>> layers;
  std::optional<sw::Linear<Line, sw::NoParallel>> head;

  LastLayers(const Line& mesh, bool has_head) {
    layers.first_number = 1;
    layers.make(2, mesh, Index{2}, Index{2});
    if (has_head) head.emplace(mesh, Index{2}, Index{3});
  }
  void visit(auto&& f) { f("layers", layers), f("head", head); }
};

TEST_CASE("a module may be without a member that its visit names") {
  const Line mesh = line();
  const auto names = [&](bool has_head) {
    LastLayers model(mesh, has_head);
    sw::initialize(model, 1);
    std::string all;
    sw::for_each_named_parameter(model, [&](std::string_view name, auto&) { (all += name) += ' '; });
    return all;
  };
  const std::string layers = "layers.1.weight layers.1.bias layers.2.weight layers.2.bias ";
  CHECK(names(false) == layers);
  CHECK(names(true) == layers + "head.weight head.bias ");
}

TEST_CASE("a parameter that has two names is one: drawn, counted and stored under the first") {
  const ScratchFolder folder;
  const Line mesh = line();
  const auto path = folder / "tied.safetensors";
  Tied<Line> tied(mesh), loaded(mesh);
  CHECK(sw::parameter_count(tied) == 30);
  sw::initialize(tied, 4);
  const auto values = values_of(tied);
  loaded.first.initialize(sw::derived_seed(4, "first"));
  CHECK(values_of(loaded) == values);

  CHECK(over_all_ranks(sw::save_weights(tied, path)) == 30 * 4);
  {
    const sw::Weights file(path);
    REQUIRE(file.files()[0].tensors().size() == 1);
    CHECK(file.files()[0].tensors()[0].name == "first");
  }
  sw::initialize(loaded, 5);
  sw::load_weights(loaded, path);
  CHECK(values_of(loaded) == values);
  // Of a file that has both, the first counts.
  const auto first = sw::full<float, Replicate>(mesh, {5, 6}, 2.0F);
  sw::write_tensors(path, {{"first", first}, {"second", sw::full<float, Replicate>(mesh, {5, 6}, 3.0F)}});
  sw::load_weights(loaded, path);
  CHECK(values_of(loaded) == std::vector<float>(60, 2.0F));
}

TEST_CASE("a module is loaded whole or not at all, and all ranks know why") {
  const ScratchFolder folder;
  const Line mesh = line();
  const int ranks = mesh.size();
  const auto path = folder / "x.safetensors";
  const std::string everybody = ranks == 1 ? " (rank 0)" : " (all ranks)";
  Matrices<Line> module(mesh);
  sw::initialize(module, 1);
  const auto before = values_of(module);
  const auto refused = [&](const sw::LoadOptions& options = {}) {
    const std::string message = error_of([&] { sw::load_weights(module, path, options); });
    CHECK(values_of(module) == before);
    return message;
  };
  const auto a = sw::zeros<float, Replicate>(mesh, {5, 6});
  const auto b = sw::zeros<float, Replicate>(mesh, {2, 3, 7});
  const std::string where = path.string() + ": tensor ";

  sw::write_tensors(path, {{"a", a}});
  CHECK(refused() == "load_weights: " + where.substr(0, where.size() - 7) +
                         "tensor \"b\": there is no such tensor" + everybody);
  CHECK(has(refused({.name_of = [](auto name) { return name == "b" ? "h.b" : std::string(name); }}),
            "tensor \"h.b\": there is no such tensor (parameter b)" + everybody));
  sw::write_tensors(path, {{"a", a}, {"b", b}, {"c", b}});
  CHECK(refused() == "load_weights: " + where + "\"c\" is not a parameter of the module" + everybody);
  sw::write_tensors(path, {{"a", a}, {"b", sw::zeros<float, Replicate>(mesh, {3, 2, 7})}});
  CHECK(refused() ==
        "load_weights: " + where + "\"b\": expected the shape [2 x 3 x 7], found [3 x 2 x 7]" + everybody);
  const auto ids = sw::zeros<std::int32_t, Replicate>(mesh, {5, 6});
  sw::write_tensors(path, {{"a", ids}, {"c", b}});
  CHECK(refused() == "load_weights: 3 problems: \n  " + where +
                         "\"a\": expected a type that can be read as F32, found I32" + everybody + "\n  " +
                         path.string() + ": tensor \"b\": there is no such tensor" + everybody + "\n  " +
                         where + "\"c\" is not a parameter of the module" + everybody);

  // A file that lacks its end, and none at all
  sw::write_tensors(path, {{"a", a}, {"b", b}});
  const std::string bytes = bytes_of_file(path);
  sw::world().barrier();
  folder.file("x.safetensors", bytes.substr(0, bytes.size() - 10));
  CHECK(has(refused(), where + "\"b\": ends at byte 288 of the data, but the file has 278: is it truncated?" +
                           everybody));
  sw::world().barrier();
  if (mesh.rank() == 0) std::filesystem::remove(path);
  sw::world().barrier();
  CHECK(refused() == "load_weights: " + path.string() + ": no such file or folder" + everybody);
  CHECK(has(error_of([&] { sw::load_weights(module, folder.path()); }), "neither model.safetensors nor"));

  // One rank alone
  sw::write_tensors(path, {{"a", a}, {"b", b}});
  const int last = ranks - 1;
  const auto failing = [&](std::string_view name) {
    if (mesh.rank() == last && name == "b") throw std::runtime_error("no name for b");
    return std::string(name);
  };
  CHECK(refused({.name_of = failing}) == "load_weights: no name for b (rank " + std::to_string(last) + ")");
  sw::load_weights(module, path);
  CHECK(values_of(module) == std::vector<float>(72, 0.0F));

  // Many problems: ten are told.
  Gpt<Line> model(mesh, config);
  const std::string many = error_of([&] { sw::load_weights(model, path); });
  Index parameters = 0;
  sw::for_each_parameter(model, [&](auto&) { ++parameters; });
  CHECK(has(many, "load_weights: " + std::to_string(parameters + 2) + " problems: "));
  CHECK(has(many, "\n  and " + std::to_string(parameters + 2 - 10) + " more"));
  CHECK(std::count(many.begin(), many.end(), '\n') == 11);

  Empty empty;
  CHECK_THROWS_WITH_AS(sw::load_weights(empty, path), "the module has no parameters", std::invalid_argument);
}

TEST_CASE("an index that does not fit its files") {
  const ScratchFolder folder;
  const Line mesh = line();
  const auto a = sw::zeros<float, Replicate>(mesh, {5, 6});
  sw::write_tensors(folder / "one.safetensors", {{"a", a}});
  sw::write_tensors(folder / "two.safetensors", {{"b", a}, {"c", a}});
  const auto index = [&](const std::string& text) {
    sw::world().barrier();
    folder.file("model.safetensors.index.json", text);
    return error_of([&] { sw::Weights weights(folder.path()); });
  };
  const std::string where = (folder / "model.safetensors.index.json").string() + ": ";
  CHECK(index(R"({"weight_map": {"a": "one.safetensors", "b": "two.safetensors"}})") == "no error");
  CHECK(sw::Weights(folder.path()).contains("c"));
  CHECK(index(R"({"weight_map": {"a": "one.safetensors", "x": "two.safetensors"}})") ==
        where + "weight_map, \"x\": the tensor must be in two.safetensors, but is not");
  CHECK(index(R"({"weight_map": {"a": "three.safetensors"}})") ==
        (folder / "three.safetensors").string() + ": cannot be opened: No such file or directory");
  CHECK(index(R"({"weight_map": {"a": "../one.safetensors"}})") ==
        where + "weight_map, \"a\": it is \"../one.safetensors\", expected a name in the same folder");
  CHECK(index(R"({"weight_map": {"a": 1}})") == where + "weight_map, \"a\": it is 1, expected a string");
  CHECK(index(R"({"weights": {}})") == where + "weight_map: it is missing, expected an object");
  CHECK(has(index(R"({"weight_map": {)"), where + "not JSON: parse error at line 1, column 17"));
  sw::write_tensors(folder / "three.safetensors", {{"a", a}});
  CHECK(index(R"({"weight_map": {"a": "one.safetensors", "c": "two.safetensors"}})") == "no error");
  sw::write_tensors(folder / "two.safetensors", {{"b", a}, {"a", a}});
  CHECK(index(R"({"weight_map": {"a": "one.safetensors", "b": "two.safetensors"}})") ==
        (folder / "two.safetensors").string() + ": tensor \"a\" is in one.safetensors too");
}

TEST_CASE("a save that fails leaves what was there, and nothing else") {
  const ScratchFolder folder;
  const Line mesh = line();
  const int last = mesh.size() - 1;
  const auto path = folder / "x.safetensors";
  const auto old = sw::full<float, Shard<0>>(mesh, {64, 64}, 1.0F);
  sw::write_tensors(path, {{"x", old}});
  const std::string before = bytes_of_file(path);
  sw::world().barrier();

  // The last rank's disk is full: it holds the end of the tensor.
  const auto fresh = sw::full<float, Shard<0>>(mesh, {64, 64}, 2.0F);
  const auto write = [&] { return error_of([&] { sw::write_tensors(path, {{"x", fresh}}); }); };
  const std::string full = with_file_limit(mesh.rank() == last, 8192, write);
  CHECK(has(full, "write_tensors: " + path.string() + ".tmp-"));
  CHECK(has(full, ": cannot be written: File too large (rank " + std::to_string(last) + ")"));
  CHECK(bytes_of_file(path) == before);
  CHECK(names_in(folder.path()) == std::vector<std::string>{"x.safetensors"});
  sw::world().barrier();
  // Rank 0 cannot even write the header.
  CHECK(has(with_file_limit(mesh.rank() == 0, 4, write), "File too large (rank 0)"));
  CHECK(bytes_of_file(path) == before);
  CHECK(names_in(folder.path()) == std::vector<std::string>{"x.safetensors"});
  CHECK(write() == "no error");
  CHECK(sw::full_tensor(sw::read_tensor<float, 2, Replicate>(mesh, path, "x"))(63, 63) == 2.0F);

  // Several files at once
  Gpt<Line> model(mesh, config);
  CHECK(has(error_of([&] { sw::save_weights(model, folder / "model"); }), " is used before it has a value"));
  CHECK(!std::filesystem::exists(folder / "model"));
  sw::initialize(model, 1);
  sw::save_weights(model, folder / "model", {.max_file_bytes = 2000});
  const auto saved = values_of(model);
  const auto names = names_in(folder / "model");
  sw::initialize(model, 2);
  CHECK(has(with_file_limit(mesh.rank() == last, 1500,
                            [&] {
                              return error_of([&] {
                                sw::save_weights(model, folder / "model", {.max_file_bytes = 2000});
                              });
                            }),
            "File too large"));
  CHECK(names_in(folder / "model") == names);
  sw::load_weights(model, folder / "model");
  CHECK(values_of(model) == saved);
  sw::world().barrier();

  // All files are written, but the index cannot be renamed: without it, none of them counts.
  const auto taken = folder / "taken" / "model.safetensors.index.json";
  if (mesh.rank() == 0) std::filesystem::create_directories(taken / "folder");
  sw::world().barrier();
  const auto over = [&] { sw::save_weights(model, folder / "taken", {.max_file_bytes = 2000}); };
  CHECK(has(error_of(over), taken.string() + ": cannot be renamed from model.safetensors.index.json.tmp-"));
  CHECK(names_in(folder / "taken") == std::vector<std::string>{"model.safetensors.index.json"});
}

TEST_CASE("several files over several: no old one is touched before the new ones count") {
  const ScratchFolder folder;
  const Line mesh = line();
  Gpt<Line> model(mesh, config);
  const auto save = [&](std::uint64_t seed, Index bytes) {
    sw::initialize(model, seed);
    sw::save_weights(model, folder.path(), {.max_file_bytes = bytes});
    const auto names = names_in(folder.path());
    sw::world().barrier();
    return names;
  };
  const auto plain = save(1, 2000);
  CHECK(plain.front() == "model-00001-of-" + plain[plain.size() - 2].substr(15, 5) + ".safetensors");
  CHECK(plain.back() == "model.safetensors.index.json");
  const auto again = save(2, 2000);
  REQUIRE(again.size() == plain.size());
  std::vector<std::string> common;
  std::set_intersection(plain.begin(), plain.end(), again.begin(), again.end(), std::back_inserter(common));
  CHECK(common == std::vector<std::string>{"model.safetensors.index.json"});
  const auto saved = values_of(model);
  sw::initialize(model, 9);
  sw::load_weights(model, folder.path());
  CHECK(values_of(model) == saved);

  // What no index lists is not ours to remove; what a damaged one lists is not known.
  sw::world().barrier();
  folder.file("mine.safetensors", "mine");
  CHECK(save(3, 0) == std::vector<std::string>{"mine.safetensors", "model.safetensors"});
  folder.file("model.safetensors.index.json",
              R"({"weight_map": {"a": "../outside.safetensors", "b": "note.txt"}})");
  folder.file("note.txt", "");
  CHECK(save(3, 0) == std::vector<std::string>{"mine.safetensors", "model.safetensors", "note.txt"});
}

TEST_CASE("files that replace others are read by nobody else") {
  const ScratchFolder folder;
  const Line mesh = line();
  const auto x = sw::zeros<float, Replicate>(mesh, {100}), y = sw::zeros<float, Replicate>(mesh, {100});
  const auto modes = [&] {
    std::set<unsigned> found;
    for (const auto& entry : std::filesystem::directory_iterator(folder / "out"))
      found.insert(detail::status_of(entry.path())->st_mode & 0777u);
    return found;
  };
  const auto write = [&](Index most) {
    sw::write_tensors(folder / "out", {{"x", x}, {"y", y}}, {.max_file_bytes = most});
    sw::world().barrier();
  };
  write(0);
  if (sw::world().rank() == 0) ::chmod((folder / "out" / "model.safetensors").c_str(), 0600);
  sw::world().barrier();
  const std::set<unsigned> own{0600};
  for (const Index most : {0, 1, 1, 0}) {  // one file, then several, others of other names, one again
    write(most);
    CHECK(modes() == own);
    sw::world().barrier();
  }
}

TEST_CASE("an element that cannot be read on one rank is an error of all") {
  const ScratchFolder folder;
  const auto path = folder / "x.safetensors";
  const Line mesh = line();
  const std::vector<std::int64_t> numbers{1, 2, 3, Index{1} << 40};
  sw::write_tensors(
      path,
      {{"x", sw::distribute<Replicate>(mesh, sw::Shape<1>{4}, std::span<const std::int64_t>(numbers))}});
  const std::string why = error_of([&] { sw::read_tensor<std::int32_t, 1, Shard<0>>(mesh, path, "x"); });
  CHECK(has(why, "does not fit an integer of 32 bits (rank " + std::to_string(mesh.size() - 1) + ")"));

  // A long message is cut, between characters.
  sw::detail::Problems problems;
  problems.add("x" + [] {
    std::string text;
    for (int i = 0; i < 1000; ++i) text += "\u00e9";
    return text;
  }());
  const std::string cut = error_of([&] { problems.throw_together(sw::world(), "task"); });
  CHECK(has(cut, "\u00e9 … ("));
  CHECK(cut.size() < 540);
}

TEST_CASE("what cannot be written") {
  const ScratchFolder folder;
  const Line mesh = line();
  const std::string everybody = mesh.size() == 1 ? " (rank 0)" : " (all ranks)";
  const auto path = folder / "x.safetensors";
  const auto x = sw::zeros<float, Replicate>(mesh, {5, 6});
  const auto refused = [&](const std::filesystem::path& where, const sw::SaveOptions& options,
                           const std::vector<sw::NamedTensor>& tensors) {
    const std::string message = error_of([&] { sw::write_tensors(where, tensors, options); });
    CHECK(names_in(folder.path()).empty());
    return message;
  };
  CHECK(refused(path, {}, {{"x", x}, {"x", x}}) == "write_tensors: two tensors are named \"x\"" + everybody);
  CHECK(refused(path, {}, {{"__metadata__", x}}) ==
        "write_tensors: no tensor may be named __metadata__" + everybody);
  CHECK(refused(path, {.type = StoredType::i32}, {{"x", x}}) ==
        "write_tensors: floating-point numbers cannot be written as I32, but as F64, F32, BF16 or F16" +
            everybody);
  CHECK(refused(path, {.max_file_bytes = -1}, {{"x", x}}) ==
        "write_tensors: max_file_bytes is -1, where 0 or more is expected" + everybody);
  CHECK(refused(path, {.max_file_bytes = 100}, {{"x", x}, {"y", x}}) ==
        "write_tensors: " + path.string() +
            ": 2 files of at most 100 bytes need a folder, not a file's name" + everybody);
  CHECK(has(refused(path, {}, {{"\xff", x}}), "invalid UTF-8 byte"));
  CHECK(has(refused(folder / "none" / "x.safetensors", {}, {{"x", x}}),
            "cannot be created: No such file or directory (rank 0)"));
  CHECK_THROWS_AS(sw::write_tensors(path, {}), std::invalid_argument);
  if (mesh.size() > 1) {
    const std::string name = mesh.rank() == 1 ? "other" : "x";
    CHECK(refused(path, {}, {{name, x}}) ==
          "write_tensors: rank 1 writes other tensors, or to another place, than rank 0");
    CHECK(has(refused(path, {}, {{mesh.rank() == 1 ? "\xff" : "x", x}}), "invalid UTF-8 byte"));
  }
  sw::world().barrier();  // all have looked
  const auto taken = folder.file("taken", "");
  CHECK(has(error_of([&] {
              sw::write_tensors(taken, {{"x", x}});
            }),
            taken.string() + ": cannot be created: Not a directory"));
}

}  // namespace shardwise::testing::weights
