// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// Styles for modules that are made of others: arguments and results are redistributed, the module is what it
/// was.

#include <shardwise/llm/models/llama/model.hpp>
#include <shardwise/nn/linear.hpp>
#include <shardwise/ops/add.hpp>
#include <shardwise/ops/arithmetic.hpp>
#include <shardwise/parallel/prepare_module.hpp>
#include "support/gpt.hpp"

#include <algorithm>
#include <tuple>

#include "module_check.hpp"

namespace shardwise::testing::prepared {
namespace sw = shardwise;
using sw::arguments;
using sw::AxisList;
using sw::Collective;
using sw::dp;
using sw::Index;
using sw::kvr;
using sw::NoParallel;
using sw::PrepareModuleInput;
using sw::PrepareModuleInputOutput;
using sw::PrepareModuleOutput;
using sw::Reduced;
using sw::Replicate;
using sw::results;
using sw::Shard;
using sw::tp;
using sw::Unchanged;

namespace {

using Line = sw::Mesh<tp>;

Line line() { return Line(sw::world(), {sw::any}); }
std::string expect(const char* text) { return sw::world().size() > 1 ? text : " / "; }

/// factor · w(x) and w(x)², where `factor` is no tensor.
template <class MeshType>
struct Pair {
  explicit Pair(const MeshType& mesh) : w(mesh, 12, 9) {}
  template <class X>
  auto operator()(double factor, const X& x) const {
    auto y = w(x);
    return std::make_tuple(sw::scale(y, factor), sw::mul(y, y));
  }
  void visit(auto&& f) { f("w", w); }
  sw::Linear<MeshType, NoParallel, double> w;
};

/// Calls a `Pair` behind a style, and makes one result of the two: the first redistributed to the second.
template <class MeshType, class Style>
struct Caller {
  explicit Caller(const MeshType& mesh) : pair(mesh) {}
  template <class X>
  auto operator()(const X& x) const {
    auto [scaled, squared] = pair(3.0, x);
    using Y = sw::tensor_of<decltype(squared)>;
    return sw::add(sw::redistribute_to<Y>(std::move(scaled)), squared);
  }
  void visit(auto&& f) { f("pair", pair); }
  sw::styled<Pair<MeshType>, Style> pair;
};
template <class Style>
struct MakeCaller {
  template <class MeshType>
  auto operator()(const MeshType& mesh) const {
    return Caller<MeshType, Style>(mesh);
  }
};

template <class Style>
struct MakeBlock {
  template <class MeshType>
  auto operator()(const MeshType& mesh) const {
    return sw::styled<GptBlock<MeshType, double>, Style>(mesh, 12, 4, 10);
  }
};

constexpr sw::Shape<3> uneven{5, 13, 12};

template <class Style, class... In>
std::string pair(const auto& mesh) {
  return traffic(check_module(mesh, MakeCaller<Style>{}, Normal<In...>{uneven}, MakeCaller<NoParallel>{},
                              Normal<Replicate>{uneven}));
}
template <class Style, class In>
std::string block(const auto& mesh) {
  return traffic(check_module(mesh, MakeBlock<Style>{}, Normal<In>{uneven}, MakeBlock<NoParallel>{},
                              Normal<Replicate>{uneven}));
}

}  // namespace

TEST_CASE("arguments are prepared by their place; what is no tensor, and what is Unchanged, passes") {
  const Line mesh = line();
  CHECK(pair<NoParallel, Replicate>(mesh) == " / ");
  CHECK(pair<PrepareModuleInput<tp, Unchanged, Replicate>, Shard<2>>(mesh) == expect("all_gather 1 / "));
  CHECK(pair<PrepareModuleInput<tp, Unchanged, Unchanged>, Replicate>(mesh) == " / ");
  CHECK(pair<PrepareModuleInput<tp>, Replicate>(mesh) == " / ");
}

TEST_CASE("a tuple's elements are prepared one by one") {
  const Line mesh = line();
  // Slices, which are free; their gradients are gathered one by one.
  CHECK(pair<PrepareModuleOutput<tp, Shard<2>, Shard<2>>, Replicate>(mesh) == expect(" / all_gather 2"));
  // The caller slices the first, which is Unchanged.
  CHECK(pair<PrepareModuleOutput<tp, Unchanged, Shard<0>>, Replicate>(mesh) == expect(" / all_gather 2"));
  using Both = PrepareModuleInputOutput<tp, arguments<Unchanged, Replicate>, results<Shard<1>, Shard<0>>>;
  CHECK(pair<Both, Shard<1>>(mesh) == expect("all_gather 1, all_to_all 1 / all_gather 2, all_to_all 1"));
}

TEST_CASE("along several axes at once") {
  using Both = AxisList<tp, kvr>;
  using Style = PrepareModuleInputOutput<Both, arguments<Unchanged, Replicate>, results<Shard<1>, Shard<1>>>;
  for (const auto& mesh : all_meshes<tp, kvr>()) {
    CHECK(pair<Style, Shard<2>, Shard<2>>(mesh) == expect("all_gather 1 / all_gather 2"));
    // One axis of two: the other keeps its layout.
    using OneAxis = PrepareModuleInput<kvr, Unchanged, Replicate>;
    const bool on_kvr = mesh.template size<kvr>() > 1;
    CHECK(pair<OneAxis, Replicate, Shard<2>>(mesh) == (on_kvr ? "all_gather 1 / " : " / "));
  }
}

TEST_CASE("a transformer block between sharded sequences") {
  if (sw::world().size() > 4) return;  // which are its heads
  const Line mesh = line();
  CHECK(block<NoParallel, Replicate>(mesh) == expect("all_reduce 2 / all_reduce 2"));
  using Between = PrepareModuleInputOutput<tp, arguments<Replicate>, results<Shard<1>>>;
  CHECK(block<Between, Shard<1>>(mesh) == expect("all_reduce 2, all_gather 1 / all_reduce 2, all_gather 1"));
  using X = sw::Tensor<double, 3, Line, Shard<1>>;
  using Styled = sw::styled<GptBlock<Line, double>, Between>;
  static_assert(std::is_same_v<decltype(std::declval<const Styled&>()(std::declval<X>())), X>);
}

namespace {

/// A layer of a sequence parallel Llama, with its attention as it is or behind a style.
using Split = AxisList<tp, kvr>;
using Sequence = sw::llm::LlamaSequenceParallel<Split>;
template <class>
struct WithAttention;
template <class... Uses>
struct WithAttention<sw::Plan<Uses...>> {
  template <class Style>
  using As = sw::Plan<Uses..., sw::Use<"layers.*.attention", Style>>;
};

using Alone = sw::Plan<sw::Use<"layers.*.attention_norm", NoParallel>,
                       sw::Use<"layers.*.mlp_norm", NoParallel>, sw::Use<"layers.*.*.*", NoParallel>>;

template <class PlanType>
struct MakeLayer {
  template <class MeshType>
  auto operator()(const MeshType& mesh) const {
    const int heads = std::max(4, sw::world().size());  // at least one for each rank
    const sw::llm::LlamaConfig config{
        .features = 12, .heads = heads, .kv_heads = heads, .head_dim = 4, .hidden = 10, .deviation = 0.3};
    return sw::llm::LlamaLayer<MeshType, sw::PlanBelow<PlanType, "layers.*">, double>(mesh, config);
  }
};

}  // namespace

TEST_CASE("a Llama's attention behind a style that a plan gives it") {
  using Prepared = WithAttention<Sequence>::As<PrepareModuleInput<Split, Reduced>>;
  for (const auto& mesh : all_meshes<tp, kvr>()) {
    auto layer = [&](auto make) {
      return check_module(mesh, make, Normal<Shard<1>, Shard<1>>{uneven}, MakeLayer<Alone>{},
                          Normal<Replicate>{uneven});
    };
    const auto plain = layer(MakeLayer<Sequence>{}), prepared = layer(MakeLayer<Prepared>{});
    // The style gathers what the projections would have gathered.
    CHECK(traffic(prepared) == expect("all_gather 2, reduce_scatter 2 / all_gather 2, reduce_scatter 2"));
    CHECK(same_communication(plain, prepared));
    using Attention = sw::llm::Llama<sw::Mesh<tp, kvr>, Prepared>::Layer::Attention;
    using Taken = decltype(sw::detail::taken_by(
        std::declval<const Attention&>(),
        std::declval<sw::Tensor<float, 3, sw::Mesh<tp, kvr>, Shard<1>, Shard<1>>>()));
    static_assert(std::is_same_v<Taken, sw::Tensor<float, 3, sw::Mesh<tp, kvr>, Reduced, Reduced>>);
  }
}

}  // namespace shardwise::testing::prepared
