// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// The gradient of an embedding's table from few tokens, which travels as rows, and from many, which does not: the sums
/// that one gets by hand, at every ZeRO level, however the table is cut; and what that communicates.

#include <doctest/doctest.h>
#include <shardwise/shardwise.hpp>
#include <support/plans.hpp>

#include <vector>

#include "module_check.hpp"

namespace shardwise::testing::token_rows {
namespace {

using Grid = Mesh<dp, tp>;
constexpr Index vocabulary = 151, features = 10, rows = 5, length = 3;

template <class MeshType, class Style, int Level, class T>
class Net {
 public:
  constexpr explicit Net(const MeshType& mesh) : table(mesh, vocabulary, features), unit(table) {}
  template <class Ids>
  constexpr auto operator()(const Ids& ids) const {
    return unit(ids, [&](const auto& in) { return table(in); });
  }
  constexpr void visit(auto&& f) { f("table", table); }

  using ZeroOf = Zero<Level, dp>;
  using Both = std::conditional_t<std::is_void_v<Style>, ZeroOf, Styles<Style, ZeroOf>>;
  Embedding<MeshType, Both, T> table;
  Unit unit;
};

/// Of micro-batch `number`: some tokens more than once, also on different ranks.
std::vector<std::int32_t> ids_of(int number) {
  std::vector<std::int32_t> ids;
  for (Index i = 0; i < rows * length; ++i)
    ids.push_back(static_cast<std::int32_t>((i * i + 31 * number) % 7 * 21));
  return ids;
}
template <class MeshType>
auto ids_on(const MeshType& mesh, int number) {
  return distribute<Shard<0>, Replicate>(mesh, Shape<2>{rows, length},
                                         std::span<const std::int32_t>(ids_of(number)));
}

/// Gradients of the mean of y², added up over micro-batches. `between` them, model and number are shown.
template <class MeshType, class Model>
constexpr void train(const MeshType& mesh, Model& model, int micro_batches, int background, auto between) {
  for (int i = 0; i < micro_batches; ++i) {
    Tape tape;
    const auto y = model(tape.constant(ids_on(mesh, i)));
    const auto loss = redistribute<Replicate, Replicate>(mean(mul(y, y)));
    const bool last = i + 1 == micro_batches;
    backward_and_reduce(loss, model, {.in_background = background, .last = last});
    if (!last) between(model);
  }
}

template <class Style, int Level, class T>
void check_gradients(double tolerance) {
  for (const Grid& mesh : data_by_tensor_meshes()) {
    for (int micro : {1, 3, 12}) {  // 12 x 15 tokens are more than there are rows
      for (int background : {0, 8}) {
        INFO("dp ", mesh.size<dp>(), " tp ", mesh.size<tp>(), " level ", Level, " micro-batches ", micro);
        Net<Grid, Style, Level, T> model(mesh);
        initialize(model, 4);
        train(mesh, model, micro, background,
              [&](auto& trained) {  // that one rank looks is nobody's business
                if (Level < 2 && mesh.size<dp>() > 1 && mesh.rank<dp>() == 0)
                  CHECK(static_cast<bool>(trained.table.table.gradient()));
              });
        const Numbers table = whole(model.table.table.stored());
        Numbers expected(table.size());
        for (int i = 0; i < micro; ++i) {
          for (const std::int32_t id : ids_of(i)) {
            for (Index j = 0; j < features; ++j) {
              const auto at = static_cast<std::size_t>(id * features + j);
              expected[at] += 2 * table[at] / (rows * length * features);
            }
          }
        }
        CHECK(error(whole(model.table.table.finished_gradient()), expected) < tolerance);
      }
    }
  }
}

TEST_CASE_TEMPLATE("gradients of a table", Style, void, RowwiseParallel<tp>, ColwiseParallel<tp>) {
  check_gradients<Style, 0, double>(1e-14);
  check_gradients<Style, 1, double>(1e-14);
  check_gradients<Style, 2, double>(1e-14);
  check_gradients<Style, 3, double>(1e-14);
}
TEST_CASE("in bfloat16, each sum is rounded a few times") {
  check_gradients<RowwiseParallel<tp>, 0, Eigen::bfloat16>(0.02);
  check_gradients<RowwiseParallel<tp>, 3, Eigen::bfloat16>(0.02);
}

template <int Level>
struct Step {
  static constexpr bool rests_pending = Level < 2;  // else each micro-batch is sent by itself, and is small
  int micro_batches, background;
  template <class MeshType>
  constexpr void operator()(const MeshType& mesh) const {
    Net<MeshType, RowwiseParallel<tp>, Level, double> model(mesh);
    if (!mesh.dry()) initialize(model, 4);
    train(mesh, model, micro_batches, background, [](auto&) {});
  }
};

TEST_CASE_TEMPLATE("what travels over dp is the tokens' rows, if they are few", StepOf, Step<0>, Step<1>,
                   Step<2>, Step<3>) {
  for (const Grid& mesh : data_by_tensor_meshes()) {
    if (mesh.size<dp>() == 1) continue;
    const Index block =
        (vocabulary + mesh.size<tp>() - 1) / mesh.size<tp>() * features * Index{sizeof(double)};
    const Index sent = rows * length * (features * Index{sizeof(double)} + Index{sizeof(std::int32_t)});
    for (int background : {0, 8}) {
      INFO("dp ", mesh.size<dp>(), " tp ", mesh.size<tp>());
      const auto few = agreed_plan(mesh, StepOf{1, background});
      CHECK(few.template bytes<dp>() <= 4 * sent);  // in FSDP back and forth, and their number
      CHECK(few.template bytes<dp>() < block);
      const auto many = agreed_plan(mesh, StepOf{12, background});
      if (StepOf::rests_pending) CHECK(many.template bytes<dp>() >= block);
    }
  }
}

struct replica {
  static constexpr const char* name = "replica";
  static constexpr bool data = true;
};

/// The gradient of the sum of y² of tokens that are cut along both axes.
template <class Style, class MeshType, class Cut>
Numbers gradient_on(const MeshType& mesh, Cut) {
  std::vector<std::int32_t> ids;
  for (int i = 0; i < 8; ++i) ids.push_back(7 * i % 40);
  Embedding<MeshType, Style, double> table(mesh, 40, 4);
  initialize(table, 1);
  const Unit unit(table);
  Tape tape;
  const auto batch = distribute<Cut, Cut>(mesh, Shape<2>{8, 1}, std::span<const std::int32_t>(ids));
  const auto y = unit(tape.constant(batch), [&](const auto& in) { return table(in); });
  tape.backward(redistribute<Replicate, Replicate>(sum(mul(y, y))));
  reduce_gradients(table);
  return whole(table.table.finished_gradient());
}

TEST_CASE("rows that another axis cuts within blocks of the one that they are gathered along") {
  const int ranks = world().size();
  if (ranks % 2 != 0) return;
  const Mesh<dp, replica> alone(self(), {1, 1});
  const Numbers right = gradient_on<NoParallel>(alone, Replicate());
  const Mesh<dp, replica> outer(world(), {2, any});
  const Mesh<replica, dp> inner(world(), {2, any});
  using Two = Styles<Zero<2, dp>, Zero<1, replica>>;
  CHECK(error(gradient_on<Zero<2, dp>>(outer, Shard<0>()), right) < 1e-14);
  CHECK(error(gradient_on<Two>(outer, Shard<0>()), right) < 1e-14);
  CHECK(error(gradient_on<FullyShard<dp>>(outer, Shard<0>()), right) < 1e-14);
  CHECK(error(gradient_on<Zero<2, dp>>(inner, Shard<0>()), right) < 1e-14);
}

}  // namespace
}  // namespace shardwise::testing::token_rows
