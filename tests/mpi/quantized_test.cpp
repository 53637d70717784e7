// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// Weights in blocks of 16, 8 and 4 bits: products, tables and Llamas, on every mesh.

#include <doctest/doctest.h>
#include <shardwise/llm/decoding/quantized.hpp>
#include <shardwise/llm/models/llama/files.hpp>
#include <shardwise/module/copy_parameters.hpp>
#include <shardwise/ops/operators.hpp>
#include <shardwise/ops/reduction.hpp>
#include <shardwise/parallel/zero.hpp>
#include <shardwise/train/loss_and_gradients.hpp>
#include <shardwise/train/unit.hpp>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "llama_support.hpp"
#include "scratch_folder.hpp"

namespace shardwise::testing::quantized {
namespace {

/// The numbers of a block, or of a tensor of blocks that every rank has whole.
template <class Block, int Rank, class MeshType, class... Placements>
auto numbers_of(const Tensor<Block, Rank, MeshType, Placements...>& blocks) {
  Shape<Rank> shape = blocks.shape();
  shape[Rank - 1] *= 32;
  Tensor<float, Rank, MeshType, Placements...> numbers(blocks.mesh(), shape);
  const auto view = blocks.view();
  llm::kernel::dequantise(view.elements(), view.data, numbers.writable().data);
  return numbers;
}

double largest(const Numbers& x) {
  double most = 0;
  for (const double number : x) most = std::max(most, std::abs(number));
  return most;
}
/// Relative to the largest number of b.
double difference(const Numbers& a, const Numbers& b) {
  double most = 0;
  REQUIRE(a.size() == b.size());
  for (std::size_t i = 0; i < a.size(); ++i) most = std::max(most, std::abs(a[i] - b[i]));
  return most / largest(b);
}

using OneAxis = Mesh<tp>;

template <class Block, class Style, int Out, int In>
using Layer = Linear<OneAxis, Styles<Style, llm::Quantized<Block>>, float, Out, In>;

TEST_CASE_TEMPLATE("a layer multiplies by the numbers of its blocks", Block, llm::Block16, llm::Block8,
                   llm::Block4) {
  const OneAxis mesh(world(), {world().size()}), alone(self(), {1});
  Layer<Block, ColwiseParallel<tp>, 1, 1> wide(mesh, {96}, {41}), wide_alone(alone, {96}, {41});
  Layer<Block, RowwiseParallel<tp>, 1, 2> narrow(mesh, {5, 32}, {7}), narrow_alone(alone, {5, 32}, {7});
  for (auto* layer : {&wide, &wide_alone}) initialize(*layer, 3);
  for (auto* layer : {&narrow, &narrow_alone}) initialize(*layer, 4);
  const auto x = randn<float, Replicate>(mesh, {2, 3, 96}, 5);
  const auto z = randn<float, Replicate>(mesh, {2, 3, 5, 32}, 6);
  const auto x_alone = randn<float, Replicate>(alone, {2, 3, 96}, 5);
  const auto z_alone = randn<float, Replicate>(alone, {2, 3, 5, 32}, 6);

  // Columns are independent, so that a layer has the same bits on any number of ranks; sums over ranks are rounded.
  CHECK(whole(wide(x)) == whole(wide_alone(x_alone)));
  CHECK(difference(whole(narrow(z)), whole(narrow_alone(z_alone))) < 2e-6);

  const auto exact = [](const auto& layer, const auto& in, auto contracted) {
    const auto numbers = redistribute<Replicate>(numbers_of(layer.weight.stored()));
    return linear<contracted()>(in, numbers, redistribute<Replicate>(layer.bias.stored()));
  };
  CHECK(difference(whole(wide_alone(x_alone)),
                   whole(exact(wide_alone, x_alone, std::integral_constant<int, 1>()))) <
        0.01);  // x is rounded to 8 bits
  CHECK(difference(whole(narrow_alone(z_alone)),
                   whole(exact(narrow_alone, z_alone, std::integral_constant<int, 2>()))) < 0.01);
}

TEST_CASE_TEMPLATE("the gradient of the input is the product with the numbers", Block, llm::Block16,
                   llm::Block8, llm::Block4) {
  const OneAxis mesh(world(), {world().size()});
  Layer<Block, ColwiseParallel<tp>, 2, 1> up(mesh, {64}, {5, 32});
  Layer<Block, RowwiseParallel<tp>, 1, 2> down(mesh, {5, 32}, {64});
  initialize(up, 3);
  initialize(down, 4);
  Linear<OneAxis, ColwiseParallel<tp>, float, 2, 1> up_of_numbers(mesh, {64}, {5, 32});
  Linear<OneAxis, RowwiseParallel<tp>, float, 1, 2> down_of_numbers(mesh, {5, 32}, {64});
  initialize(up_of_numbers, 3);
  initialize(down_of_numbers, 4);
  up_of_numbers.weight.assign(numbers_of(up.weight.stored()));
  down_of_numbers.weight.assign(numbers_of(down.weight.stored()));
  const auto x = randn<float, Replicate>(mesh, {3, 64}, 5), dy = randn<float, Replicate>(mesh, {3, 64}, 6);
  const auto gradient = [&](const auto& wide, const auto& narrow) {
    Linear<OneAxis> first(mesh, 64, 64);
    initialize(first, 2);
    Tape tape;
    backward_and_reduce(sum(narrow(wide(first(tape.constant(x)))) * tape.constant(dy)), first);
    return whole(first.weight.finished_gradient());
  };
  CHECK(difference(gradient(up, down), gradient(up_of_numbers, down_of_numbers)) < 1e-5);
}

TEST_CASE("redistribution moves whole blocks") {
  const OneAxis mesh(world(), {world().size()}), alone(self(), {1});
  Layer<llm::Block4, ColwiseParallel<tp>, 1, 1> layer(mesh, {64}, {41}), layer_alone(alone, {64}, {41});
  initialize(layer, 3);
  initialize(layer_alone, 3);
  const auto gathered = redistribute<Replicate>(layer.weight.stored());
  const auto bytes = [](const auto& x) {
    return std::string(reinterpret_cast<const char*>(x.data()), static_cast<std::size_t>(x.view().bytes()));
  };
  CHECK(bytes(gathered) == bytes(layer_alone.weight.stored()));
  CHECK(bytes(redistribute<Shard<1>>(layer.weight.stored())) == bytes(redistribute<Shard<1>>(gathered)));
}

template <class Style>
struct Pair : Module<Pair<Style>> {
  using Part = Linear<OneAxis, Styles<Style, llm::Quantized<llm::Block8>>, float, 1, 1, false>;

  explicit Pair(const OneAxis& mesh)
      : first(mesh, Shape<1>{32}, Shape<1>{6}), second(mesh, Shape<1>{32}, Shape<1>{6}) {}
  constexpr auto forward(const auto& x) const { return first(x); }
  constexpr void visit(auto&& f) {
    f("first", first);
    f("second", second);
  }
  Part first, second;
};

TEST_CASE("copies between meshes move whole blocks") {  // 6 · 34 bytes are not a multiple of 8
  const OneAxis mesh(world(), {world().size()});
  Pair<ColwiseParallel<tp>> from(mesh);
  Pair<NoParallel> to(mesh), expected(mesh);
  initialize(from, 3);
  initialize(to, 4);
  initialize(expected, 3);
  copy_parameters(from, to);
  CHECK(whole(numbers_of(to.first.weight.stored())) == whole(numbers_of(expected.first.weight.stored())));
  CHECK(whole(numbers_of(to.second.weight.stored())) == whole(numbers_of(expected.second.weight.stored())));
  CHECK(parameter_count(to) == 2 * 6 * 32);  // numbers, not blocks
}

TEST_CASE("blocks are gathered as they are, whatever type messages have") {
  const Mesh<dp> mesh(world(), {world().size()});
  Linear<Mesh<dp>, Styles<FullyShard<dp>, llm::Quantized<llm::Block8>>, float, 1, 1, false> layer(
      mesh, Shape<1>{64}, Shape<1>{6});
  initialize(layer, 3);
  const Unit unit(layer);
  const auto y = [&] {
    return whole(unit(full<float, Shard<0>>(mesh, {3, 64}, 1.F), [&](const auto& x) { return layer(x); }));
  };
  const Numbers before = y();
  set_communication(layer, DataType::bf16, DataType::bf16);
  layer.weight.cell()->writable();  // so that it is gathered again
  CHECK(y() == before);
}

constexpr llm::LlamaConfig config{.vocabulary = 41,
                                  .features = 64,
                                  .layers = 2,
                                  .heads = 8,
                                  .kv_heads = 8,
                                  .head_dim = 32,
                                  .hidden = 7 * 32,
                                  .deviation = 0.2};

template <class Block>
using QuantizedLlama = llm::Llama<LlamaMesh, llm::LlamaQuantized<TensorPlan, Block>>;
template <class Block>
using Colwise = llm::Llama<LlamaMesh, llm::LlamaQuantized<llm::LlamaColwiseParallel<Split>, Block>>;
template <class Block>
using Sharded = llm::Llama<LlamaMesh, PlanWith<llm::LlamaQuantized<TensorPlan, Block>, FullyShard<dp>>>;

/// Of two sequences of so many tokens.
template <class Model>
Numbers logits_of(const Model& model, const LlamaMesh& mesh, Index tokens = 4) {
  std::vector<std::int32_t> ids{3, 1, 4, 1, 5, 9, 2, 6};
  for (std::int32_t id = 0; std::ssize(ids) < 2 * tokens; ++id) ids.push_back(id * id % 11);
  return whole(model(distribute<Replicate, Replicate, Replicate>(mesh, Shape<2>{2, tokens}, ids)));
}
/// The tokens of largest logits after a prompt, drawn one by one.
template <class Model>
std::vector<Index> tokens_of(const Model& model, const LlamaMesh& mesh) {
  std::vector<std::int32_t> ids{3, 1, 4};
  const auto tensor = [&] {
    return distribute<Replicate, Replicate, Replicate>(mesh, Shape<2>{1, std::ssize(ids)}, ids);
  };
  auto cache = model.make_cache(tensor(), 64);
  std::vector<Index> tokens;
  for (int i = 0; i < 24; ++i) {
    const Numbers logits = whole(model.next(tensor(), cache));
    tokens.push_back(std::max_element(logits.begin(), logits.end()) - logits.begin());
    ids = {static_cast<std::int32_t>(tokens.back())};
  }
  return tokens;
}

template <class Block>
void check_llama(const llm::LlamaConfig& settings) {
  const ScratchFolder folder;
  const LlamaMesh alone = llama_alone();
  llm::Llama<LlamaMesh, TensorPlan> floats(alone, settings);
  initialize(floats, 1);
  if (world().rank() == 0) llm::save_llama(floats, folder.path() / "model");
  world().barrier();

  QuantizedLlama<Block> reference(alone, settings);
  llm::load_llama(reference, folder.path() / "model");
  const Numbers logits = logits_of(reference, alone);
  const double loss = difference(logits, logits_of(floats, alone));
  CHECK(loss < (std::is_same_v<Block, llm::Block4> ? 0.5 : 0.03));
  CHECK(loss > 1e-4);
  const Numbers of_many = logits_of(reference, alone, 20);
  const std::vector<Index> tokens = tokens_of(reference, alone);
  for (const LlamaMesh& mesh : llama_meshes(settings)) {
    INFO("dp ", mesh.size<dp>(), " tp ", mesh.size<tp>(), " kvr ", mesh.size<kvr>());
    QuantizedLlama<Block> model(mesh, settings);
    const Index bytes = llm::load_llama(model, folder.path() / "model");
    CHECK(bytes > 0);
    CHECK(difference(logits_of(model, mesh), logits) < 0.02);
    CHECK(tokens_of(model, mesh) == tokens);
    Colwise<Block> colwise(mesh, settings);
    llm::load_llama(colwise, folder.path() / "model");
    CHECK(logits_of(colwise, mesh, 20) == of_many);  // bit for bit, on any number of ranks
    CHECK(tokens_of(colwise, mesh) == tokens);
    Sharded<Block> sharded(mesh, settings);
    llm::load_llama(sharded, folder.path() / "model");
    CHECK(difference(logits_of(sharded, mesh), logits) < 0.02);
  }
}

TEST_CASE_TEMPLATE("a Llama reads its blocks, and writes the same tokens on every mesh", Block, llm::Block16,
                   llm::Block8, llm::Block4) {
  check_llama<Block>(config);
}
TEST_CASE_TEMPLATE("a head that is the table of tokens", Block, llm::Block16, llm::Block8, llm::Block4) {
  llm::LlamaConfig tied = config;
  tied.tied = true;
  tied.qkv_bias = true;
  check_llama<Block>(tied);
}

TEST_CASE_TEMPLATE("queries that share keys have the same bits on every mesh", Block, llm::Block16,
                   llm::Block8, llm::Block4) {
  llm::LlamaConfig few = config;
  few.kv_heads = 2;
  const LlamaMesh alone = llama_alone();
  Colwise<Block> reference(alone, few);
  initialize(reference, 1);
  const Numbers expected = logits_of(reference, alone, 20);
  for (const LlamaMesh& mesh : llama_meshes(few)) {
    INFO("dp ", mesh.size<dp>(), " tp ", mesh.size<tp>(), " kvr ", mesh.size<kvr>());
    Colwise<Block> model(mesh, few);
    initialize(model, 1);
    CHECK(logits_of(model, mesh, 20) == expected);
  }
}

TEST_CASE("errors name what does not fit blocks") {
  const OneAxis mesh(world(), {world().size()});
  using L = Layer<llm::Block8, ColwiseParallel<tp>, 1, 1>;
  CHECK_THROWS_WITH_AS(
      L(mesh, {40}, {8}),
      "Linear: the last of the extents [8 x 40] is not a multiple of the 32 numbers of a block",
      std::invalid_argument);
  L layer(mesh, {64}, {8});
  initialize(layer, 1);
  CHECK_THROWS_WITH_AS(layer(full<float, Replicate>(mesh, {2, 32}, 1.F)),
                       "linear: the operand [2 x 32] does not fit the weight [8 x 2] of blocks of 32 numbers",
                       std::invalid_argument);
  llm::LlamaConfig odd = config;
  odd.hidden = 100;
  CHECK_THROWS_WITH_AS(QuantizedLlama<llm::Block8>(llama_alone(), odd),
                       "Llama: 100 hidden features are not a multiple of the 32 numbers of a block",
                       std::invalid_argument);

  const ScratchFolder folder;
  llm::Llama<LlamaMesh, TensorPlan> floats(llama_alone(), config);
  initialize(floats, 1);
  if (world().rank() == 0) {
    floats.layers[1].mlp->down.weight.writable().data[70] = std::numeric_limits<float>::quiet_NaN();
    llm::save_llama(floats, folder.path() / "model", {});
  }
  world().barrier();
  const LlamaMesh all(world(), LlamaMesh::SizesOf{1, world().size(), 1});
  QuantizedLlama<llm::Block4> model(all, config);
  CHECK_THROWS_WITH_AS(llm::load_llama(model, folder.path() / "model"),
                       doctest::Contains("a number is nan, expected one to quantise, of at most 520000"),
                       std::runtime_error);
  world().barrier();
  if (world().rank() == 0) {
    floats.layers[1].mlp->down.weight.writable().data[70] = -6e5F;
    llm::save_llama(floats, folder.path() / "model", {});
  }
  world().barrier();
  CHECK_THROWS_WITH_AS(llm::load_llama(model, folder.path() / "model"), doctest::Contains("a number is -6"),
                       std::runtime_error);
  initialize(model, 1);
  CHECK_THROWS_WITH_AS(llm::save_llama(model, folder.path() / "other"),
                       doctest::Contains("quantised weights (q4) are not saved"), std::runtime_error);
}

}  // namespace
}  // namespace shardwise::testing::quantized
