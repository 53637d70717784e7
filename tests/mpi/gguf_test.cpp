// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// GGUF files: a Llama from one computes what it computes from Hugging Face's files, on every mesh; blocks are read as
/// they are; and damaged files are refused.

#include <doctest/doctest.h>
#include <shardwise/llm/decoding/quantized.hpp>
#include <shardwise/llm/models/llama/files.hpp>

#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "llama_support.hpp"
#include "scratch_folder.hpp"
#include "support/gguf.hpp"

namespace shardwise::testing::gguf_files {
namespace {

constexpr llm::LlamaConfig config{.vocabulary = 41,
                                  .features = 64,
                                  .layers = 2,
                                  .heads = 4,
                                  .kv_heads = 4,
                                  .head_dim = 32,
                                  .hidden = 7 * 32,
                                  .deviation = 0.2};

llm::LlamaConfig interleaved(llm::LlamaConfig changed = config) {
  changed.interleaved = true;
  return changed;
}

using Floats = llm::Llama<LlamaMesh, TensorPlan>;
template <class Block>
using Quantised = llm::Llama<LlamaMesh, llm::LlamaQuantized<TensorPlan, Block>>;

/// "blk.0.attn_q.weight" for "model.layers.0.self_attn.q_proj.weight".
std::string gguf_name(std::string name) {
  const auto replace = [&](const char* part, const char* other) {
    if (const auto at = name.find(part); at != name.npos) name.replace(at, std::strlen(part), other);
  };
  replace("model.embed_tokens", "token_embd");
  replace("lm_head", "output");
  replace("model.norm", "output_norm");
  replace("model.layers", "blk");
  replace("self_attn.o_proj", "attn_output");
  replace("self_attn.", "attn_");
  replace("mlp.", "ffn_");
  replace("_proj", "");
  replace("input_layernorm", "attn_norm");
  replace("post_attention_layernorm", "ffn_norm");
  return name;
}

struct Whole {
  std::vector<std::uint64_t> shape;
  std::vector<float> numbers;
};
/// The tensors of a folder, by their names there.
std::map<std::string, Whole> tensors_of(const std::filesystem::path& folder) {
  const Weights weights(folder);
  std::map<std::string, Whole> all;
  for (const StoredTensor& tensor : weights.files()[0].tensors()) {
    const Index count = tensor.bytes / 4;
    Whole& whole = all[tensor.name];
    whole.shape.assign(tensor.shape.begin(), tensor.shape.end());
    whole.numbers.resize(static_cast<std::size_t>(count));
    weights.read_block(tensor.name, View<float, 1>{whole.numbers.data(), {count}, {0}, {count}});
  }
  return all;
}
/// The rows of each head as llama.cpp has them: row i of its first half is 2i, row i of its second 2i + 1.
void interleave_rows(Whole& whole, const llm::LlamaConfig& of) {
  const std::size_t row = whole.numbers.size() / whole.shape[0],
                    head = static_cast<std::size_t>(of.head_size());
  const std::vector<float> old = whole.numbers;
  for (std::size_t from = 0; from < whole.shape[0]; ++from) {
    const std::size_t in = from % head, to = from - in + in % (head / 2) * 2 + in / (head / 2);
    std::copy_n(old.begin() + static_cast<Index>(from * row), row,
                whole.numbers.begin() + static_cast<Index>(to * row));
  }
}

template <class T>
std::string as_bytes(const std::vector<T>& numbers) {
  return {reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(T)};
}

gguf::Writer writer_of(const char* architecture) {
  gguf::Writer file;
  file.words("general.architecture", architecture);
  file.list("tokenizer.ggml.tokens", std::vector<std::string>{"a", "b"});
  return file;
}

/// Relative to the largest number of b.
double difference(const Numbers& a, const Numbers& b) {
  double most = 0, largest = 0;
  REQUIRE(a.size() == b.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double off = std::abs(a[i] - b[i]);
    if (!(off <= most)) most = off;  // also NaN
    largest = std::max(largest, std::abs(b[i]));
  }
  return most / largest;
}
template <class Model>
Numbers logits_of(const Model& model, const LlamaMesh& mesh) {
  const std::vector<std::int32_t> ids{3, 1, 4, 1, 5, 9, 2, 6};
  return whole(model(distribute<Replicate, Replicate, Replicate>(mesh, Shape<2>{1, 8}, ids)));
}
/// The logits after a prompt and two more tokens, with a cache.
template <class Model>
Numbers next_logits_of(const Model& model, const LlamaMesh& mesh) {
  const auto ids = [&](std::vector<std::int32_t> numbers) {
    return distribute<Replicate, Replicate, Replicate>(mesh, Shape<2>{1, std::ssize(numbers)}, numbers);
  };
  auto cache = model.make_cache(ids({3, 1, 4, 1, 5}), 16);
  static_cast<void>(model.next(ids({3, 1, 4, 1, 5}), cache));
  static_cast<void>(model.next(ids({9}), cache));
  return whole(model.next(ids({2}), cache));
}

/// Files of one model.
struct Files {
  ScratchFolder folder;
  std::filesystem::path hugging = folder / "model";
  std::map<std::string, Whole> tensors;

  explicit Files(const llm::LlamaConfig& of) {
    Floats model(llama_alone(), of);
    initialize(model, 1);
    if (world().rank() == 0) llm::save_llama(model, hugging);
    world().barrier();
    tensors = tensors_of(hugging);
  }
  std::filesystem::path write(const std::string& name, const gguf::Writer& file) const {
    return folder.file(name, file.bytes());
  }
};

TEST_CASE("a Llama from GGUF computes what it computes from Hugging Face's files") {
  for (const std::string architecture : {"llama", "qwen2", "qwen3"}) {
    llm::LlamaConfig of = config;
    of.tied = architecture == "llama";
    of.qkv_bias = architecture == "qwen2";
    of.head_norms = architecture == "qwen3";
    of.kv_heads = 2;
    of.hidden = 90;  // and heads of 32 numbers: a rank's part need not be whole blocks
    const bool permuted = architecture == "llama";
    if (permuted) of.scaling.emplace();
    Files files(of);
    gguf::Writer file = writer_of(architecture.c_str());
    for (auto& [name, tensor] : files.tensors) {
      Whole stored = tensor;
      if (permuted && (has(name, "q_proj") || has(name, "k_proj"))) interleave_rows(stored, of);
      file.tensor(gguf_name(name), stored.shape, gguf::f32, as_bytes(stored.numbers));
    }
    if (permuted)
      file.tensor("rope_freqs.weight", {16}, gguf::f32, std::string(64, '\0'));  // computed instead
    const auto path = files.write("model.gguf", file);
    if (permuted) {
      llm::LlamaConfig unscaled = interleaved(of);
      unscaled.scaling.reset();
      Floats other(llama_alone(), unscaled);
      CHECK(has(error_of([&] { llm::load_llama(other, path); }), "expected LlamaConfig::scaling"));
    }
    for (const LlamaMesh& mesh : llama_meshes(of)) {
      INFO("dp ", mesh.size<dp>(), " tp ", mesh.size<tp>(), " kvr ", mesh.size<kvr>());
      Floats expected(mesh, of), found(mesh, permuted ? interleaved(of) : of);
      const Index bytes = llm::load_llama(expected, files.hugging);
      CHECK(llm::load_llama(found, path) == bytes);
      const double most = permuted ? 2e-5 : 0;  // another order of a head's products
      CHECK(difference(logits_of(found, mesh), logits_of(expected, mesh)) <= most);
      CHECK(difference(next_logits_of(found, mesh), next_logits_of(expected, mesh)) <= most);
    }
  }
}

/// Any blocks, with scales of all sizes and both signs: also those that no quantising makes.
template <class Block>
std::vector<Block> blocks_of(std::size_t count, std::uint32_t seed) {
  std::vector<Block> blocks(count);
  std::uint32_t state = seed * 2654435761u + 1;
  const auto next = [&] { return (state = state * 1664525u + 1013904223u) >> 16; };
  for (Block& block : blocks) {
    auto* bytes = reinterpret_cast<unsigned char*>(&block);
    for (std::size_t i = 0; i < sizeof(Block); ++i) bytes[i] = static_cast<unsigned char>(next());
    block.scale = Eigen::half((static_cast<float>(next() % 2001) - 1000) * 1e-5F);
  }
  return blocks;
}
/// Number i of a block by the description of the format, apart from the kernels.
float number_of(const llm::Block8& block, std::size_t i) {
  return static_cast<float>(block.scale) * static_cast<float>(block.values[i]);
}
float number_of(const llm::Block4& block, std::size_t i) {
  const int pair = block.pairs[i % 16];
  return static_cast<float>(block.scale) * static_cast<float>((i < 16 ? pair % 16 : pair / 16) - 8);
}
template <class Block>
constexpr std::uint32_t type_of = std::is_same_v<Block, llm::Block8> ? gguf::q8_0 : gguf::q4_0;

/// Calls f(bytes in memory, first element in the whole tensor, count) for this rank's parts of a parameter.
void each_run(const detail::NamedParameter& parameter, auto f) {
  const detail::AnyTensor tensor = parameter.cell->writable();
  const auto block = detail::block_here(tensor, 0, 1);
  detail::for_each_run(block, [&](Index local, Index global, Index count) {
    f(block.data + local * size_of(tensor.type), global, count);
  });
}

TEST_CASE_TEMPLATE("blocks are read as they are", Block, llm::Block8, llm::Block4) {
  using Other = std::conditional_t<std::is_same_v<Block, llm::Block8>, llm::Block4, llm::Block8>;
  Files files(config);
  gguf::Writer file = writer_of("llama");
  std::map<std::string, std::vector<Block>> blocks;
  std::map<std::string, std::vector<float>> numbers;
  for (auto& [name, tensor] : files.tensors) {
    if (tensor.shape.size() == 1) {
      file.tensor(gguf_name(name), tensor.shape, gguf::f32, as_bytes(tensor.numbers));
      continue;
    }
    const auto seed = static_cast<std::uint32_t>(blocks.size());
    auto& of = blocks[name] = blocks_of<Block>(tensor.numbers.size() / 32, seed);
    for (const Block& block : of) {
      for (std::size_t i = 0; i < 32; ++i) numbers[name].push_back(number_of(block, i));
    }
    file.tensor(gguf_name(name), tensor.shape, type_of<Block>, as_bytes(of));
  }
  const auto path = files.write("model.gguf", file);
  const auto name_of = llm::hugging_face_names(config);
  for (const LlamaMesh& mesh : llama_meshes(config)) {
    INFO("dp ", mesh.size<dp>(), " tp ", mesh.size<tp>(), " kvr ", mesh.size<kvr>());
    Quantised<Block> model(mesh, interleaved());
    const Index read = llm::load_llama(model, path);
    Index bytes = 0;
    for (const detail::NamedParameter& parameter : detail::named_parameters_of(model)) {
      const std::string name = name_of(parameter.name);
      const Index size = size_of(parameter.cell->stored.type);
      each_run(parameter, [&](const char* data, Index first, Index count) {
        bytes += count * size;
        if (!blocks.contains(name)) return;
        REQUIRE(size == sizeof(Block));
        REQUIRE(first + count <= std::ssize(blocks[name]));
        const auto* expected = reinterpret_cast<const char*>(blocks[name].data() + first);
        CHECK_MESSAGE(std::string_view(data, static_cast<std::size_t>(count * size)) ==
                          std::string_view(expected, static_cast<std::size_t>(count * size)),
                      name);
      });
    }
    CHECK(read == bytes);  // each rank its own blocks

    // A model in float has their numbers, and one with other blocks quantises these.
    Floats floats(mesh, interleaved());
    llm::load_llama(floats, path);
    CHECK(difference(logits_of(model, mesh), logits_of(floats, mesh)) < 0.05);  // inputs are rounded
    for (const detail::NamedParameter& parameter : detail::named_parameters_of(floats)) {
      const std::string name = name_of(parameter.name);
      if (!numbers.contains(name)) continue;
      each_run(parameter, [&](const char* data, Index first, Index count) {
        const std::string expected = as_bytes(
            std::vector<float>(numbers[name].begin() + first, numbers[name].begin() + first + count));
        CHECK_MESSAGE(std::string_view(data, expected.size()) == expected, name);
      });
    }
    Quantised<Other> other(mesh, interleaved());
    llm::load_llama(other, path);
    for (const detail::NamedParameter& parameter : detail::named_parameters_of(other)) {
      const std::string name = name_of(parameter.name);
      if (!numbers.contains(name)) continue;
      each_run(parameter, [&](const char* data, Index first, Index count) {
        std::vector<Other> expected(static_cast<std::size_t>(count));
        llm::kernel::quantise(count, numbers[name].data() + first * 32, expected.data());
        CHECK_MESSAGE(std::string_view(data, expected.size() * sizeof(Other)) == as_bytes(expected), name);
      });
    }
  }
}

TEST_CASE("parts of blocks, and short numbers, are converted") {
  const ScratchFolder folder;
  const std::vector<llm::Block8> blocks = blocks_of<llm::Block8>(6, 5);
  const std::vector<Eigen::half> halves{Eigen::half(1.5F), Eigen::half(-0.25F)};
  const std::vector<Eigen::bfloat16> shorter{Eigen::bfloat16(2.5F), Eigen::bfloat16(-8.F)};
  gguf::Writer file;
  file.version = 2;
  file.tensor("blocks", {2, 96}, gguf::q8_0, as_bytes(blocks))
      .tensor("f16", {2}, gguf::f16, as_bytes(halves));
  file.tensor("bf16", {1, 2}, gguf::bf16, as_bytes(shorter));
  const Weights weights(folder.file("all.gguf", file.bytes()), &llm::gguf_format);
  CHECK(weights.tensor("blocks").shape == std::vector<Index>{2, 96});
  CHECK(weights.tensor("blocks").type_name() == "Q8_0");
  for (Index first = 0; first < 96; first += 7) {
    for (Index count = 1; first + count <= 96; count += 11) {
      std::vector<double> found(static_cast<std::size_t>(2 * count)), expected;
      const Index before = weights.bytes_read();
      weights.read_block("blocks", View<double, 2>{found.data(), {2, count}, {0, first}, {2, 96}});
      CHECK(weights.bytes_read() - before == 2 * 34 * ((first + count + 31) / 32 - first / 32));
      for (Index i : {first, 96 + first}) {
        for (Index end = i + count; i < end; ++i)
          expected.push_back(
              number_of(blocks[static_cast<std::size_t>(i / 32)], static_cast<std::size_t>(i % 32)));
      }
      CHECK(found == expected);
    }
  }
  std::vector<float> two(2);
  const View<float, 1> both{two.data(), {2}, {0}, {2}};
  weights.read_block("f16", both);
  CHECK(two == std::vector{1.5F, -0.25F});
  weights.read_block("bf16", both);
  CHECK(two == std::vector{2.5F, -8.F});
  std::vector<std::int32_t> whole(192);
  CHECK(has(error_of([&] {
              weights.read_block("blocks", View<std::int32_t, 1>{whole.data(), {192}, {0}, {192}});
            }),
            "all.gguf: tensor \"blocks\": expected a type that can be read as I32, found Q8_0"));
}

TEST_CASE("a model and its file agree on the order of rows, and such a model is not saved") {
  Files files(config);
  gguf::Writer file = writer_of("llama");
  for (auto& [name, tensor] : files.tensors)
    file.tensor(gguf_name(name), tensor.shape, gguf::f32, as_bytes(tensor.numbers));
  const auto path = files.write("model.gguf", file);
  const LlamaMesh mesh(world(), LlamaMesh::SizesOf{world().size(), 1, 1});
  Floats plain(mesh, config), other(mesh, interleaved());
  CHECK(has(error_of([&] { llm::load_llama(plain, path); }),
            "model.gguf: LlamaConfig::interleaved must be true"));
  CHECK(has(error_of([&] { llm::load_llama(other, files.hugging); }),
            "model: LlamaConfig::interleaved must be false"));
  llm::load_llama(other, path);
  CHECK_THROWS_WITH_AS(llm::save_llama(other, files.folder / "saved"),
                       "LlamaConfig: interleaved is true, as in GGUF, expected false for other files",
                       std::invalid_argument);
  CHECK_FALSE(std::filesystem::exists(files.folder / "saved"));
  llm::Llama<LlamaMesh, llm::LlamaAdapted<TensorPlan, 2, 4>> adapted(mesh, interleaved());
  const auto another = files.write("other.gguf", writer_of("mistral3"));
  CHECK(has(error_of([&] { llm::load_llama(plain, another); }),
            "other.gguf: general.architecture: it is \"mistral3\", expected llama, qwen2 or qwen3"));
  CHECK_THROWS_WITH_AS(llm::load_llama(adapted, path),
                       "load_llama: adapters are for Hugging Face's files, and not for GGUF",
                       std::invalid_argument);

  llm::LlamaConfig more = interleaved();
  more.layers = 3;
  Floats longer(mesh, more);
  CHECK(has(error_of([&] { llm::load_llama(longer, path); }),
            "tensor \"model.layers.2.input_layernorm.weight\": there is no such tensor"));
  file.tensor("blk.0.attn_q.bias", {128}, gguf::f32, std::string(512, '\0'));
  const auto surplus = files.write("surplus.gguf", file);
  CHECK(
      has(error_of([&] { llm::load_llama(other, surplus); }),
          "surplus.gguf: tensor \"model.layers.0.self_attn.q_proj.bias\" is not a parameter of the module"));
}

/// A small file in which each part can be spoilt.
gguf::Writer small() {
  gguf::Writer file = writer_of("llama");
  file.number("llama.block_count", 2).real("llama.rope.freq_base", 1e4F).number("general.alignment", 32);
  file.list("tokenizer.ggml.token_type", std::vector<std::int32_t>{1, 3});
  file.value("tokenizer.ggml.scores", 9,
             gguf::bytes_of(6u) + gguf::bytes_of(std::uint64_t{3}) + std::string(12, 'x'));
  for (const std::uint32_t type : {0u, 1u, 2u, 3u, 5u, 7u, 10u, 11u, 12u}) {
    constexpr std::size_t sizes[]{1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
    file.value("any." + std::to_string(type), type, std::string(sizes[type], '\1'));
  }
  file.tensor("blk.0.attn_q.weight", {2, 32}, gguf::q8_0, std::string(68, '\2'));
  file.tensor("empty", {0, 3}, gguf::f32, "");
  file.tensor("output_norm.weight", {5}, gguf::f32, std::string(20, '\3'));
  return file;
}

TEST_CASE("a truncated file is refused wherever it ends") {
  const ScratchFolder folder;
  const std::string whole = small().bytes();
  const Weights weights(folder.file("whole.gguf", whole), &llm::gguf_format);
  CHECK(weights.tensor("model.layers.0.self_attn.q_proj.weight").shape == std::vector<Index>{2, 32});
  CHECK(weights.files()[0].metadata().at("architecture") == "llama");
  if (world().rank() == 0) {
    const std::filesystem::path path = folder / "cut.gguf";
    for (std::size_t size = 0; size < whole.size() - 12; ++size) {  // the last 12 bytes are padding
      std::ofstream(path, std::ios::binary) << whole.substr(0, size);
      CAPTURE(size);
      CHECK(error_of([&] { Weights cut(path, &llm::gguf_format); }).starts_with(path.string() + ": "));
    }
    std::ofstream(path, std::ios::binary) << whole.substr(0, whole.size() - 12);
    CHECK(error_of([&] { Weights cut(path, &llm::gguf_format); }) == "no error");
  }
}

TEST_CASE("tensors lie apart, in any order, and are aligned as the file says, whatever its name is") {
  const ScratchFolder folder;
  for (const std::uint64_t alignment : {8u, 32u, 64u}) {
    gguf::Writer file;
    file.alignment = alignment;
    if (alignment != 32) file.number("general.alignment", static_cast<std::uint32_t>(alignment));
    const auto eights = [](float first) { return as_bytes(std::vector{first, 1.F}); };
    file.tensor_at("last", {2}, gguf::f32, 3 * alignment, eights(30))
        .tensor_at("empty", {0}, gguf::f32, 0, "");
    file.tensor_at("first", {2}, gguf::f32, 0, eights(10)).tensor_at("gap", {2}, gguf::f32, alignment, "");
    std::string bytes = file.bytes();
    bytes.resize(bytes.size() -
                 2 * alignment);  // the data is in the order of the calls; here, of the offsets
    bytes += eights(10) + std::string(3 * alignment - 8, '\0') + eights(30);
    for (const char* name : {"model.gguf", "sha256-0123", "model.gguf.part"}) {
      const Weights weights(folder.file(name, bytes), &llm::gguf_format);
      REQUIRE(weights.files()[0].tensors().size() == 4);
      CHECK(weights.files()[0].tensors().back().name == "last");
      std::vector<float> found(2);
      for (const auto& [tensor, number] :
           {std::pair("first", 10.F), std::pair("gap", 0.F), std::pair("last", 30.F)}) {
        weights.read_block(tensor, View<float, 1>{found.data(), {2}, {0}, {2}});
        CHECK(found[0] == number);
      }
      world().barrier();  // before the next one is written
    }
  }
}

TEST_CASE("damaged headers are refused with the value or the tensor") {
  const ScratchFolder folder;
  const auto refused_bytes = [&](const std::string& bytes, const std::string& why) {
    const auto path = folder.file("bad.gguf", bytes);
    const std::string message = error_of([&] { Weights weights(path, &llm::gguf_format); });
    CHECK_MESSAGE(has(message, why), message);
    CHECK_MESSAGE(message.starts_with(path.string() + ": "), message);
    world().barrier();  // before the next one is written
  };
  const auto refused = [&](const gguf::Writer& file, const std::string& why) {
    refused_bytes(file.bytes(), why);
  };
  constexpr std::uint64_t huge = std::numeric_limits<std::uint64_t>::max();
  const auto with = [](auto change) {
    gguf::Writer file = small();
    change(file);
    return file;
  };
  refused(with([](auto& f) { f.version = 1; }), "version 1 of GGUF, expected 2 or 3");
  refused(with([](auto& f) { f.version = 0x03000000; }),
          "version 50331648 of GGUF, expected 2 or 3, little-endian");
  refused(with([](auto& f) { f.number("llama.block_count", 3); }),
          "value \"llama.block_count\": it is there twice");
  refused(with([](auto& f) { f.number("two\nlines", 3); }),
          "the name \"two\\nlines\", expected visible ASCII");
  refused(with([](auto& f) { f.number("general.my key", 3); }),
          "the name \"general.my key\", expected visible ASCII");
  refused(with([](auto& f) { f.number("general.\u03b1", 3); }),
          "the name \"general.\u03b1\", expected visible ASCII");
  refused(with([](auto& f) { f.value("a", 13, "xxxxxxxx"); }), "value \"a\": type 13, expected 0 to 12");
  refused(with([&](auto& f) { f.value("a", 8, gguf::bytes_of(huge)); }),
          "value \"a\": expected 18446744073709551615 more bytes, found");
  for (const std::uint32_t type : {5u, 8u, 6u, 0u}) {
    const std::uint64_t most = 1 << 21;
    refused(with([&](auto& f) { f.value("a", 9, gguf::bytes_of(type) + gguf::bytes_of(huge)); }),
            "value \"a\": a list of 18446744073709551615, but all lists together may have 4194304 elements");
    refused(with([&](auto& f) { f.value("a", 9, gguf::bytes_of(type) + gguf::bytes_of(most)); }),
            "value \"a\": expected");
  }
  refused(with([&](auto& f) { f.value("a", 9, gguf::bytes_of(13u) + gguf::bytes_of(std::uint64_t{1})); }),
          "type 13, expected");
  refused(with([&](auto& f) { f.value("a", 9, gguf::bytes_of(9u) + gguf::bytes_of(huge)); }),
          "value \"a\": a list of lists is not supported");
  refused(gguf::Writer().number("general.alignment", 12),
          "general.alignment: it is 12, expected a multiple of 8");
  refused(gguf::Writer().number("general.alignment", 0), "general.alignment: it is 0, expected");
  refused(with([](auto& f) { f.number("split.count", 3); }), "split.count: it is 3, expected");
  {
    const auto path = folder.file(
        "scale.gguf",
        with([](auto& f) { f.tensor("x", {32}, gguf::q8_0, "\1\x7c" + std::string(32, '\1')); }).bytes());
    llm::Block8 block;
    CHECK(has(error_of([&] {
                Weights(path, &llm::gguf_format).read_block("x", View<llm::Block8, 1>{&block, {1}, {0}, {1}});
              }),
              "scale.gguf: tensor \"x\": the scale of block 0 is nan"));
    world().barrier();
  }
  const auto tensor = [&](const std::vector<std::uint64_t>& shape, std::uint32_t type, const std::string& why,
                          const char* name = "x", std::size_t bytes = 128) {
    refused(with([&](auto& f) { f.tensor(name, shape, type, std::string(bytes, '\4')); }),
            std::string("tensor \"") + name + "\": " + why);
  };
  tensor({4}, 14, "type 14 (Q6_K), expected F32, F16, BF16, Q8_0 or Q4_0");
  tensor({4}, 4, "type 4 (Q4_2), expected");
  tensor({4}, 31, "type 31 (unknown), expected");
  tensor({}, gguf::f32, "F32 [], expected 1 to 4 extents");
  tensor({1, 1, 1, 1, 1}, gguf::f32, "F32 [1 x 1 x 1 x 1 x 1], expected 1 to 4 extents");
  tensor({32, 33}, gguf::q4_0, "Q4_0 [32 x 33], expected 1 to 4 extents, whole blocks");
  tensor({huge, 4}, gguf::f32, "F32 [-1 x 4], expected");
  tensor({0, std::uint64_t{1} << 62, 4}, gguf::f32, "F32 [0 x 4611686018427387904 x 4], expected");
  tensor({std::uint64_t{1} << 60, 32}, gguf::q8_0, "Q8_0 [1152921504606846976 x 32], expected");
  tensor({std::uint64_t{1} << 40}, gguf::f32,
         "4398046511104 bytes at byte 128 of the data, which has 256: is");
  tensor({2, 32}, gguf::f32, "it is there twice", "blk.0.attn_q.weight");
  tensor({2, 32}, gguf::f32, "it is there twice", "model.layers.0.self_attn.q_proj.weight");
  // The other tensors have bytes 0 to 68 and 96 to 116 of the data.
  const auto at = [&](std::uint64_t offset, const std::string& why) {
    refused(with([&](auto& f) { f.tensor_at("x", {4}, gguf::f32, offset, "0123456789abcdef"); }), why);
  };
  at(64, "tensor \"x\" begins in tensor \"model.layers.0.self_attn.q_proj.weight\"");
  at(0, "tensor \"model.layers.0.self_attn.q_proj.weight\" begins in tensor \"x\"");
  at(96, "tensor \"model.norm.weight\" begins in tensor \"x\"");
  at(160, "tensor \"x\": 16 bytes at byte 160 of the data, which has 160: is the file truncated?");
  at(huge - 31, "tensor \"x\": it begins at byte -32 of the data, expected a multiple of 32");
  at(129, "tensor \"x\": it begins at byte 129 of the data, expected a multiple of 32");
  gguf::Writer none;
  CHECK(error_of([&] { Weights weights(folder.file("none.gguf", none.bytes()), &llm::gguf_format); }) ==
        "no error");
  refused_bytes("GGU", "it does not begin with GGUF");
  refused_bytes("", "it does not begin with GGUF");
  refused_bytes(safetensors_bytes("{}", ""), "it does not begin with GGUF");
  // Its first bytes count, not its name.
  CHECK(error_of([&] {
          Weights weights(folder.file("named.safetensors", small().bytes()), &llm::gguf_format);
        }) == "no error");
}

}  // namespace
}  // namespace shardwise::testing::gguf_files
