// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// `SameBits`: the logits of a text are the same bits in a training pass, in prompts of any length, in decoding, in any
/// batch and on every mesh. `whole` gives numbers as doubles, which are equal if and only if the numbers are.

#include <doctest/doctest.h>
#include <shardwise/llm/decoding/quantized.hpp>
#include <shardwise/parallel/zero.hpp>

#include <algorithm>
#include <initializer_list>
#include <utility>

#include "llama_support.hpp"

namespace shardwise::testing::llama_same_bits {
namespace {

using namespace shardwise::llm;

using Colwise = LlamaColwiseParallel<Split>;
using Same = PlanWith<Colwise, SameBits>;

static_assert(same_bits<Same>);
static_assert(!same_bits<Colwise>);                         // kernels choose by the number of rows
static_assert(!same_bits<PlanWith<TensorPlan, SameBits>>);  // sums over ranks
static_assert(same_bits<LlamaAdapted<Same, 4>>);
static_assert(same_bits<PlanWith<LlamaQuantized<Colwise, Block8>, SameBits>>);
static_assert(same_bits<PlanWith<Same, Zero<3, dp>>>);
static_assert(
    !same_bits<PlanWith<LlamaColwiseParallel<Split, KeyValueParallel<Split>, communicate_as<Eigen::bfloat16>>,
                        SameBits>>);  // blocks of other ranks are rounded
static_assert(!same_bits<PlanAnd<Same, Use<"layers.*.attention.inner_attention", GatherKeys<dp>>>>);
static_assert(!same_bits<PlanAnd<Same, Use<"layers.[:2].attention.inner_attention", GatherKeys<dp>>>>);
static_assert(!same_bits<PlanWith<Colwise, SameBits, "layers.[:1]", "head">>);
static_assert(
    !same_bits<PlanWith<Colwise, SameBits, "layers.[:1]", "norm", "head">>);  // nor layers 1 to the last
static_assert(same_bits<PlanWith<Colwise, SameBits, "layers.[:1]", "layers.[1:]", "norm", "head">>);
static_assert(!same_bits<PlanWith<Colwise, SameBits, "layers.*.attention.w*", "layers.*.mlp.*", "norm",
                                  "head">>);  // projections to latents have the norm's style

/// Extents that fill no register, and more numbers in a row than a block of the sum has.
constexpr LlamaConfig config{.vocabulary = 61,
                             .features = 52,
                             .layers = 2,
                             .heads = 6,
                             .kv_heads = 6,
                             .head_dim = 10,
                             .hidden = 1604,
                             .deviation = 0.2};
constexpr Index length = 300;

std::vector<std::int32_t> text(Index begin = 0, Index count = length) {
  std::vector<std::int32_t> ids;
  for (Index i = begin; i < begin + count; ++i)
    ids.push_back(static_cast<std::int32_t>((i * i * 7 + i * 3 + i % 5) % 61));
  return ids;
}

auto batch_of(const LlamaMesh& mesh, Index rows, std::vector<std::int32_t> ids) {
  return distribute<Replicate, Replicate, Replicate>(mesh, Shape<2>{rows, std::ssize(ids) / rows}, ids);
}

/// These tokens of the text in the middle one of three rows; in the others are other tokens.
std::vector<std::int32_t> among_others(Index begin, Index count) {
  std::vector<std::int32_t> ids;
  for (Index row = 0; row < 3; ++row) {
    for (const std::int32_t id : text(begin, count))
      ids.push_back(row == 1 ? id : static_cast<std::int32_t>((id * 5 + row) % 61));
  }
  return ids;
}

/// The logits of `count` tokens from `first` on.
Numbers part(const Numbers& all, Index first, Index count) {
  const auto begin = all.begin() + first * config.vocabulary;
  return Numbers(begin, begin + count * config.vocabulary);
}

/// The logits of all tokens of the text in a training pass, on a tape.
template <class Model>
Numbers in_training(const Model& model, const LlamaMesh& mesh) {
  Tape tape;
  return whole(model(tape.constant(batch_of(mesh, 1, text()))).value());
}
/// Those after a prompt of so many tokens in one call, and after each token of the next, alone or beside others.
template <class Model>
Numbers in_decoding(const Model& model, const LlamaMesh& mesh, Index prompt, Index tokens, bool alone) {
  const Index rows = alone ? 1 : 3;
  auto cache = model.make_cache(batch_of(mesh, rows, text(0, rows)), length);
  Numbers all;
  for (Index i = 0, count = prompt; i < prompt + tokens; i += count, count = 1) {
    const Numbers last =
        whole(model.next(batch_of(mesh, rows, alone ? text(i, count) : among_others(i, count)), cache));
    const Numbers own = part(last, rows / 2, 1);
    all.insert(all.end(), own.begin(), own.end());
  }
  return all;
}

template <class PlanType, class T = float>
void check(LlamaConfig settings, std::initializer_list<Index> counts) {
  const LlamaMesh alone = llama_alone();
  Llama<LlamaMesh, PlanType, T> reference(alone, settings);
  initialize(reference, 1);
  const Numbers expected = in_training(reference, alone);
  for (const LlamaMesh& mesh : llama_meshes(settings)) {
    INFO("dp ", mesh.size<dp>(), " tp ", mesh.size<tp>(), " kvr ", mesh.size<kvr>());
    Llama<LlamaMesh, PlanType, T> model(mesh, settings);
    initialize(model, 1);
    CHECK(in_training(model, mesh) == expected);
    CHECK(part(whole(model(batch_of(mesh, 3, among_others(0, length)))), length, length) == expected);
    for (const Index count : counts) {
      INFO("of ", count, " tokens");
      CHECK(whole(model(batch_of(mesh, 1, text(0, count)))) == part(expected, 0, count));
      for (const bool by_itself : {true, false}) {
        CHECK(in_decoding(model, mesh, count, 8, by_itself) == part(expected, count - 1, 9));
      }
    }
  }
}

TEST_CASE_TEMPLATE("training, prompts and decoding have the same bits", T, float, Eigen::bfloat16) {
  check<Same, T>(config, {1, 9, 33, 257});
}
TEST_CASE("with windows, capped scores, biases and a head that is the table") {
  LlamaConfig settings = config;
  settings.kv_heads = 3;
  settings.window = 150;  // more than a block of keys
  settings.attention_softcap = 20;
  settings.qkv_bias = true;
  settings.tied = true;
  check<Same>(settings, {1, 190});
}
TEST_CASE("with adapters and sharded weights") {
  LlamaConfig settings = config;
  settings.lora = {.rank = 3, .alpha = 5};
  check<PlanWith<LlamaAdapted<Same, 4>, FullyShard<dp>>>(settings, {40});
}
TEST_CASE("with weights of 8 bits") {
  LlamaConfig settings = config;
  settings.features = 64;
  settings.head_dim = 32;
  settings.hidden = 1600;
  check<PlanWith<LlamaQuantized<Colwise, Block8>, SameBits>>(settings, {1, 100});
}

TEST_CASE("a document has the same bits alone and packed behind others") {
  for (const std::optional<Index> window : {std::optional<Index>(), std::optional<Index>(150)}) {
    LlamaConfig settings = config;
    settings.window = window;
    const LlamaMesh mesh = llama_alone();
    Llama<LlamaMesh, Same> model(mesh, settings);
    initialize(model, 1);
    const Index count = 200;
    const Numbers expected = whole(model(batch_of(mesh, 1, text(0, count))));
    for (const auto& [first, second] : {std::pair<Index, Index>{1, 4}, {5, 125}, {32, 129}}) {
      std::vector<std::int32_t> ids = text(0, first + second + count), numbers(ids.size(), 2);
      std::fill_n(numbers.begin(), first + second, 1);
      std::fill_n(numbers.begin(), first, 0);
      const std::vector<std::int32_t> own = text(0, count);
      std::copy(own.begin(), own.end(), ids.begin() + first + second);
      ids.push_back(9);
      numbers.push_back(3);
      CHECK(part(whole(model(batch_of(mesh, 1, ids), batch_of(mesh, 1, numbers))), first + second, count) ==
            expected);
    }
  }
}

}  // namespace
}  // namespace shardwise::testing::llama_same_bits
