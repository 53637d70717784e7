// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// Every style of every layer, on extents that the ranks do not divide: results and gradients are the dense
/// ones, and the collectives are those that the style's table says.

#include <shardwise/nn/dropout.hpp>
#include <shardwise/nn/embedding.hpp>
#include <shardwise/nn/layer_norm.hpp>
#include <shardwise/nn/linear.hpp>
#include <shardwise/nn/project.hpp>
#include <shardwise/nn/rms_norm.hpp>
#include <shardwise/ops/add.hpp>
#include <shardwise/ops/arithmetic.hpp>
#include <shardwise/train/reduce_gradients.hpp>

#include "module_check.hpp"

namespace shardwise::testing::styles {
namespace sw = shardwise;
using sw::AxisList;
using sw::ColwiseParallel;
using sw::CopyParallel;
using sw::dp;
using sw::Index;
using sw::kvr;
using sw::NoParallel;
using sw::output;
using sw::Partial;
using sw::Reduced;
using sw::Replicate;
using sw::RowwiseParallel;
using sw::SequenceParallel;
using sw::Shard;
using sw::Styles;
using sw::tp;

namespace {

using Line = sw::Mesh<tp>;

Line line() { return Line(sw::world(), {sw::any}); }

/// What is expected on a mesh of several ranks; one rank never communicates.
std::string expect(const char* text) { return sw::world().size() > 1 ? text : " / "; }

template <class Style>
struct MakeLinear {
  Index in, out;
  template <class MeshType>
  auto operator()(const MeshType& mesh) const {
    return sw::Linear<MeshType, Style, double>(mesh, in, out);
  }
};
template <class Style>
struct MakeEmbedding {
  template <class MeshType>
  auto operator()(const MeshType& mesh) const {
    return sw::Embedding<MeshType, Style, double>(mesh, 13, 7);
  }
};
template <class Style>
struct MakeLayerNorm {
  template <class MeshType>
  auto operator()(const MeshType& mesh) const {
    return sw::LayerNorm<MeshType, Style, double>(mesh, 12);
  }
};
template <class Style>
struct MakeRmsNorm {
  template <class MeshType>
  auto operator()(const MeshType& mesh) const {
    return sw::RMSNorm<MeshType, Style, double>(mesh, 12);
  }
};
/// Three projections of one input.
template <class MeshType, class Style>
struct Projections {
  using Layer = sw::Linear<MeshType, Style, double>;

  explicit Projections(const MeshType& mesh) : q(mesh, 12, 9), k(mesh, 12, 9), v(mesh, 12, 9) {}
  template <class X>
  auto operator()(const X& x) const {
    auto [a, b, c] = sw::project(x, q, k, v);
    return sw::add(sw::mul(a, b), c);
  }
  void visit(auto&& f) {
    f("q", q);
    f("k", k);
    f("v", v);
  }

  Layer q, k, v;
};
template <class Style>
struct MakeProjections {
  template <class MeshType>
  auto operator()(const MeshType& mesh) const {
    return Projections<MeshType, Style>(mesh);
  }
};
/// A `Dropout` at step 5.
template <class Style>
struct MakeDropout {
  struct Module {
    sw::Dropout<Style> dropout{0.4, 17};
    auto operator()(const auto& x) const { return dropout(x, 5); }
    void visit(auto&& f) { f("dropout", dropout); }
  };
  auto operator()(const auto&) const { return Module(); }
};

constexpr sw::Shape<3> uneven{5, 13, 12};

template <class Style, class... In>
std::string linear(const auto& mesh) {
  return traffic(check_module(mesh, MakeLinear<Style>{12, 9}, Normal<In...>{uneven},
                              MakeLinear<NoParallel>{12, 9}, Normal<Replicate>{uneven}));
}
template <class Style, class In>
std::string projected(const auto& mesh) {
  return traffic(check_module(mesh, MakeProjections<Style>{}, Normal<In>{uneven},
                              MakeProjections<NoParallel>{}, Normal<Replicate>{uneven}));
}
template <class Style>
std::string embedding(const auto& mesh) {
  constexpr sw::Shape<2> shape{3, 11};
  return traffic(check_module(mesh, MakeEmbedding<Style>{}, Tokens<Replicate>{shape, 13},
                              MakeEmbedding<NoParallel>{}, Tokens<Replicate>{shape, 13}));
}
template <template <class> class Make, class Style, class In>
std::string per_token(const auto& mesh) {
  return traffic(
      check_module(mesh, Make<Style>{}, Normal<In>{uneven}, Make<NoParallel>{}, Normal<Replicate>{uneven}));
}

}  // namespace

TEST_CASE("sequence parallel norms and dropout work on what each rank has") {
  const Line mesh = line();
  CHECK(per_token<MakeLayerNorm, SequenceParallel<tp>, Shard<1>>(mesh) == " / ");
  CHECK(per_token<MakeRmsNorm, SequenceParallel<tp>, Shard<1>>(mesh) == " / ");
  CHECK(per_token<MakeDropout, SequenceParallel<tp>, Shard<1>>(mesh) == " / ");
  CHECK(per_token<MakeLayerNorm, SequenceParallel<tp, 0>, Shard<0>>(mesh) == " / ");
  CHECK(per_token<MakeRmsNorm, SequenceParallel<tp, 0>, Shard<0>>(mesh) == " / ");
  CHECK(per_token<MakeDropout, SequenceParallel<tp, 2>, Shard<2>>(mesh) == " / ");
}

TEST_CASE(
    "sequence parallel layers take what they find: slices are free, their gradients are gathered if need "
    "be") {
  const Line mesh = line();
  CHECK(per_token<MakeLayerNorm, SequenceParallel<tp>, Replicate>(mesh) == expect(" / all_gather 1"));
  CHECK(per_token<MakeRmsNorm, SequenceParallel<tp>, Shard<0>>(mesh) ==
        expect("all_to_all 1 / all_to_all 1"));
  CHECK(per_token<MakeDropout, SequenceParallel<tp>, Reduced>(mesh) == " / ");
}

TEST_CASE("the weights' gradients of a sequence parallel norm are pending, and reduced together") {
  for (const auto& mesh : all_meshes<dp, tp>()) {
    using Grid = sw::Mesh<dp, tp>;
    using Norm = sw::LayerNorm<Grid, SequenceParallel<tp>>;
    static_assert(std::is_same_v<Norm::Gain, sw::Tensor<float, 1, Grid, Reduced, Reduced>>);
    using Pending = std::remove_cvref_t<decltype(std::declval<Norm&>().weight.gradient())>;
    static_assert(std::is_same_v<Pending, sw::Tensor<float, 1, Grid, Partial<>, Partial<>>>);
    const auto plan = agreed_plan(mesh, [](const auto& m) {
      sw::LayerNorm<std::remove_cvref_t<decltype(m)>, SequenceParallel<tp>> norm(m, 12);
      sw::initialize(norm, 1);
      sw::Tape tape;
      auto y = norm(tape.input(sw::randn<float, Shard<0>, Shard<1>>(m, {20, 32, 12}, 2)));
      using Y = sw::tensor_of<decltype(y)>;
      arrive(tape, y, sw::cotangent_of<Y>(m, y.shape()));
      go_back(tape, m);
      sw::reduce_gradients(norm);
    });
    CHECK(calls(plan, sw::Collective::all_reduce) == (mesh.size() > 1 ? "0 / 0 / 1" : "0 / 0 / 0"));
    CHECK(plan.collectives() == plan.count(sw::Collective::all_reduce));
  }
}

TEST_CASE("column-wise layers") {
  const Line mesh = line();
  CHECK(linear<ColwiseParallel<tp>, Replicate>(mesh) == expect(" / all_reduce 1"));
  CHECK(linear<ColwiseParallel<tp>, Reduced>(mesh) == " / ");
  CHECK(linear<ColwiseParallel<tp>, Shard<1>>(mesh) == expect("all_gather 1 / reduce_scatter 1"));
  CHECK(linear<ColwiseParallel<tp>, Shard<2>>(mesh) == expect("all_gather 1 / reduce_scatter 1"));
  CHECK(linear<ColwiseParallel<tp, output<Replicate>>, Replicate>(mesh) ==
        expect("all_gather 1 / all_reduce 1"));
  CHECK(linear<ColwiseParallel<tp, output<Shard<1>>>, Reduced>(mesh) ==
        expect("all_to_all 1 / all_to_all 1"));
}

TEST_CASE("row-wise layers slice an input that is whole, for free") {
  const Line mesh = line();
  CHECK(linear<RowwiseParallel<tp>, Shard<2>>(mesh) == expect("all_reduce 1 / "));
  CHECK(linear<RowwiseParallel<tp>, Replicate>(mesh) == expect("all_reduce 1 / all_gather 1"));
  CHECK(linear<RowwiseParallel<tp, output<Shard<1>>>, Shard<2>>(mesh) ==
        expect("reduce_scatter 1 / all_gather 1"));
  CHECK(linear<RowwiseParallel<tp, output<Shard<2>>>, Shard<2>>(mesh) ==
        expect("reduce_scatter 1 / all_gather 1"));
}

TEST_CASE("layers without a style, and copies") {
  const Line mesh = line();
  CHECK(linear<NoParallel, Replicate>(mesh) == " / ");
  CHECK(linear<CopyParallel<tp>, Replicate>(mesh) == expect(" / all_reduce 1"));
  CHECK(linear<CopyParallel<tp>, Shard<0>>(mesh) == expect("all_gather 1 / reduce_scatter 1"));
}

TEST_CASE("a constant input has no gradient to communicate; each rank has its columns") {
  const Line mesh = line();
  constexpr sw::Shape<3> shape{1, 8, 16};
  const auto plan = check_module(mesh, MakeLinear<ColwiseParallel<tp>>{16, 16}, Constant<Replicate>{shape},
                                 MakeLinear<NoParallel>{16, 16}, Constant<Replicate>{shape});
  CHECK(traffic(plan) == " / ");
  auto up = MakeLinear<ColwiseParallel<tp>>{16, 16}(mesh);
  sw::initialize(up, 1);
  const auto y = up(sw::randn<double, Replicate>(mesh, {8, 16}, 1));
  static_assert(std::is_same_v<std::remove_cvref_t<decltype(y)>, sw::Tensor<double, 2, Line, Shard<1>>>);
  const Index columns = sw::balanced_block(16, mesh.size(), mesh.rank()).size;  // 4 on each of 4 ranks
  CHECK(y.local_shape() == sw::Shape<2>{8, columns});
}

TEST_CASE("embeddings") {
  const Line mesh = line();
  CHECK(embedding<ColwiseParallel<tp>>(mesh) == " / ");
  CHECK(embedding<ColwiseParallel<tp, output<Replicate>>>(mesh) == expect("all_gather 1 / "));
  CHECK(embedding<RowwiseParallel<tp>>(mesh) == expect("all_reduce 1 / "));
  CHECK(embedding<RowwiseParallel<tp, output<Shard<1>>>>(mesh) == expect("reduce_scatter 1 / all_gather 1"));
  CHECK(embedding<CopyParallel<tp>>(mesh) == " / ");
  CHECK(embedding<SequenceParallel<tp>>(mesh) == " / ");  // each rank looks up its own positions
}

TEST_CASE("one style over several axes communicates once over all of them") {
  using Both = AxisList<tp, kvr>;
  for (const auto& mesh : all_meshes<tp, kvr>()) {
    CHECK(linear<ColwiseParallel<Both>, Replicate, Replicate>(mesh) == expect(" / all_reduce 1"));
    CHECK(linear<RowwiseParallel<Both>, Shard<2>, Shard<2>>(mesh) == expect("all_reduce 1 / "));
    CHECK(linear<RowwiseParallel<Both, output<Shard<1>>>, Shard<2>, Shard<2>>(mesh) ==
          expect("reduce_scatter 1 / all_gather 1"));
    const auto norm =
        check_module(mesh, MakeRmsNorm<SequenceParallel<Both>>{}, Normal<Shard<1>, Shard<1>>{uneven},
                     MakeRmsNorm<NoParallel>{}, Normal<Replicate>{uneven});
    CHECK(traffic(norm) == " / ");
  }
}

TEST_CASE("different styles on different axes") {
  for (const auto& mesh : all_meshes<tp, kvr>()) {
    const bool on_tp = mesh.size<tp>() > 1, on_kvr = mesh.size<kvr>() > 1;
    // As key/value heads: split over tp, the same along kvr. Its input's gradient is a sum over both.
    using KeyValue = Styles<ColwiseParallel<tp>, CopyParallel<kvr>>;
    static_assert(std::is_same_v<sw::Linear<sw::Mesh<tp, kvr>, KeyValue>::Weight,
                                 sw::Tensor<float, 2, sw::Mesh<tp, kvr>, Shard<0>, Reduced>>);
    CHECK(linear<KeyValue, Replicate, Replicate>(mesh) == expect(" / all_reduce 1"));
    // A weight in two dimensions: sums along tp, blocks of features along kvr.
    using Square = Styles<RowwiseParallel<tp>, ColwiseParallel<kvr>>;
    static_assert(std::is_same_v<sw::Linear<sw::Mesh<tp, kvr>, Square>::Weight,
                                 sw::Tensor<float, 2, sw::Mesh<tp, kvr>, Shard<1>, Shard<0>>>);
    const auto plan = check_module(mesh, MakeLinear<Square>{12, 9}, Normal<Shard<2>, Replicate>{uneven},
                                   MakeLinear<NoParallel>{12, 9}, Normal<Replicate>{uneven});
    CHECK(traffic(plan) ==
          std::string(on_tp ? "all_reduce 1" : "") + " / " + std::string(on_kvr ? "all_reduce 1" : ""));
    CHECK(plan.template count<tp>(sw::Collective::all_reduce) == (on_tp ? 1 : 0));
  }
}

TEST_CASE("project redistributes its input once, and their gradients together") {
  const Line mesh = line();
  CHECK(projected<ColwiseParallel<tp>, Replicate>(mesh) == expect(" / all_reduce 1"));
  CHECK(projected<ColwiseParallel<tp>, Shard<1>>(mesh) == expect("all_gather 1 / reduce_scatter 1"));
  CHECK(projected<ColwiseParallel<tp>, Reduced>(mesh) == " / ");
}

}  // namespace shardwise::testing::styles
