// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// `LinearCrossEntropyLoss` against `CrossEntropyLoss` of the logits: the loss and all gradients in every layout,
/// however the rows are cut into pieces; what it communicates and keeps; and as the loss of a Llama.

#include <shardwise/nn/linear.hpp>
#include <shardwise/nn/linear_cross_entropy_loss.hpp>
#include <shardwise/ops/add.hpp>
#include <shardwise/ops/arithmetic.hpp>
#include <shardwise/parallel/zero.hpp>
#include <support/plans.hpp>

#include <string>
#include <vector>

#include "llama_support.hpp"
#include "ops_check.hpp"

namespace shardwise::testing {
namespace {

using namespace shardwise::llm;

const std::vector<CrossEntropyOptions> every_option{
    {},
    {.reduction = Reduction::sum},
    {.label_smoothing = 0.1},
    {.ignore_index = 2, .reduction = Reduction::sum, .label_smoothing = 1},
};
const std::vector<LossPieces> every_cut{
    {}, {.one_all_reduce = true}, {.rows = 2}, {.rows = 4, .one_all_reduce = true}, {.rows = 1}};

struct Computed {
  double loss;
  Dense dx, dw;
};

/// `half_of` gives half the loss, which is added to itself: so gradients are scaled, and meet others.
template <class X, class W, class LossOf>
Computed computed(const X& x, const W& w, const LossOf& loss_of) {
  Tape tape;
  auto xs = tape.input(x);
  auto ws = tape.input(w);
  auto half = scale(loss_of(xs, ws), 0.5);
  auto loss = add(half, scale(loss_of(xs, ws), 0.5));
  const auto found = static_cast<double>(*loss.value().data());
  using Y = tensor_of<decltype(loss)>;
  tape.backward(redistribute_to<whole_of<Y>>(loss));
  return {found, gather(xs.gradient()), gather(ws.gradient())};
}

template <class X, class W, class Targets>
void check_loss(const typename X::MeshOf& mesh, const Dense& x_values, const Dense& w_values,
                const Dense& ids, const CrossEntropyOptions& options = {}) {
  using T = typename X::Element;
  const double tolerance = std::is_same_v<T, double> ? 1e-13 : std::is_same_v<T, float> ? 1e-6 : 2e-2;
  const auto x = place<X>(mesh, x_values);
  const auto w = place<W>(mesh, w_values);
  const auto targets = place<Targets>(mesh, ids);
  CAPTURE(options.label_smoothing);
  const CrossEntropyLoss of_logits(options);
  const Computed expected =
      computed(x, w, [&](const auto& xs, const auto& ws) { return of_logits(linear(xs, ws), targets); });
  for (const LossPieces& pieces : every_cut) {
    CAPTURE(pieces.rows);
    CAPTURE(pieces.one_all_reduce);
    const LinearCrossEntropyLoss criterion(options, pieces);
    const Computed found =
        computed(x, w, [&](const auto& xs, const auto& ws) { return criterion(xs, ws, targets); });
    CHECK(std::abs(found.loss - expected.loss) <= tolerance * std::max(1., std::abs(expected.loss)));
    CHECK(difference(found.dx, expected.dx) <= tolerance);
    CHECK(difference(found.dw, expected.dw) <= tolerance);
    const auto bare = static_cast<double>(*criterion(x, w, targets).data());  // without a tape
    CHECK(std::abs(bare - expected.loss) <= tolerance * std::max(1., std::abs(expected.loss)));
  }
}

template <class T, int Rank, class... P>
using OnGrid = Tensor<T, Rank, Mesh<dp, tp>, P...>;
template <int Rank, class... P>
using Ids = Tensor<std::int32_t, Rank, Mesh<dp, tp>, P...>;

TEST_CASE("rows and classes sharded, on every mesh") {
  for (const auto& mesh : data_by_tensor_meshes()) {
    INFO("dp ", mesh.size<dp>(), " tp ", mesh.size<tp>());
    for (const Index classes : {13, 3}) {  // of 3, a fourth rank has none
      const Dense x = random_dense({5, 3, 7}, 1), w = random_dense({classes, 7}, 2),
                  ids = random_integers({5, 3}, classes, 3);
      const auto check = [&]<class T>(T, const CrossEntropyOptions& options) {
        check_loss<OnGrid<T, 3, Shard<0>, Reduced>, OnGrid<T, 2, Reduced, Shard<0>>,
                   Ids<2, Shard<0>, Replicate>>(mesh, x, w, ids, options);
        check_loss<OnGrid<T, 3, Reduced, Shard<1>>, OnGrid<T, 2, Shard<0>, Reduced>,
                   Ids<2, Reduced, Shard<1>>>(mesh, x, w, ids, options);
      };
      for (const auto& options : every_option) {
        check(double{}, options);
        check(float{}, options);
      }
      check_loss<OnGrid<double, 3, Reduced, Reduced>, OnGrid<double, 2, Shard<0>, Shard<0>>,
                 Ids<2, Replicate, Replicate>>(mesh, x, w, ids);
      check_loss<OnGrid<double, 3, Shard<0>, Shard<0>>, OnGrid<double, 2, Reduced, Reduced>,
                 Ids<2, Shard<0>, Shard<0>>>(mesh, x, w, ids);
      check_loss<OnGrid<double, 3, Replicate, Reduced>, OnGrid<double, 2, Replicate, Shard<0>>,
                 Ids<2, Replicate, Replicate>>(mesh, x, w, ids);
      check_loss<OnGrid<Eigen::bfloat16, 3, Shard<0>, Reduced>, OnGrid<Eigen::bfloat16, 2, Reduced, Shard<0>>,
                 Ids<2, Shard<0>, Replicate>>(mesh, x, w, ids);
    }
  }
}

TEST_CASE("ranks without rows, and no rows at all") {
  for (const auto& mesh : data_by_tensor_meshes()) {
    for (const Index rows : {1, 0}) {
      CAPTURE(rows);
      check_loss<OnGrid<double, 2, Shard<0>, Reduced>, OnGrid<double, 2, Reduced, Shard<0>>,
                 Ids<1, Shard<0>, Replicate>>(mesh, random_dense({rows, 7}, 1), random_dense({13, 7}, 2),
                                              random_integers({rows}, 13, 3), {.reduction = Reduction::sum});
    }
  }
}

TEST_CASE("the mean of ignored rows is no number, and its gradient zero") {
  for (const auto& mesh : data_by_tensor_meshes()) {
    for (const LossPieces& pieces : every_cut) {
      const auto x = random<double, Shard<0>, Reduced>(mesh, {6, 7}, 1);
      const auto w = random<double, Reduced, Shard<0>>(mesh, {13, 7}, 2);
      Dense ids({6});
      for (double& id : ids.values) id = -100;
      Tape tape;
      auto xs = tape.input(x);
      auto ws = tape.input(w);
      auto loss = LinearCrossEntropyLoss({}, pieces)(xs, ws, place<Ids<1, Shard<0>, Replicate>>(mesh, ids));
      CHECK(std::isnan(*loss.value().data()));
      tape.backward(loss);
      CHECK(difference(gather(xs.gradient()), Dense({6, 7})) == 0);
      CHECK(difference(gather(ws.gradient()), Dense({13, 7})) == 0);
    }
  }
}

TEST_CASE("wrong targets, shapes and options") {
  for (const auto& mesh : data_by_tensor_meshes()) {
    const auto x = random<float, Shard<0>, Reduced>(mesh, {2, 4, 7}, 1);
    const auto w = random<float, Reduced, Shard<0>>(mesh, {5, 7}, 2);
    Tape tape;
    const auto message = [&](const Dense& ids, const auto& weight) {
      return message_of<std::exception>([&] {
        LinearCrossEntropyLoss()(tape.input(x), tape.constant(weight),
                                 place<Ids<2, Shard<0>, Replicate>>(mesh, ids));
      });
    };
    Dense ids({2, 4});
    ids[7] = 5;
    CHECK(message(ids, w) == "CrossEntropyLoss: target 5 at [1, 3] is not one of the 5 classes");
    CHECK(contains(message(Dense({2, 3}), w), "and targets [2 x 3] differ in dimension 1"));
    CHECK(contains(message(Dense({2, 4}), random<float, Reduced, Shard<0>>(mesh, {5, 6}, 2)),
                   "dimension 2 of operand 0 has 7 elements, dimension 1 of operand 1 has 6"));
  }
  CHECK_THROWS_AS(LinearCrossEntropyLoss({.label_smoothing = 1.5}), std::invalid_argument);
  CHECK(contains(message_of<std::invalid_argument>([] { LinearCrossEntropyLoss({}, {.rows = 0}); }),
                 "a piece has 0 rows"));
}

/// A training step of a head [16 x 9] on 12 rows, in pieces of 5.
struct HeadStep {
  LossPieces pieces;
  bool wants_x = true, wants_w = true, on_tape = true;

  template <class MeshType>
  constexpr void operator()(const MeshType& mesh) const {
    Tensor<float, 2, MeshType, Shard<0>, Reduced> x(mesh, {12, 9});
    Tensor<float, 2, MeshType, Reduced, Shard<0>> w(mesh, {16, 9});
    fill_normal(x, 1);
    fill_normal(w, 2);
    const auto targets = zeros<std::int32_t, Shard<0>, Replicate>(mesh, {12});
    const LinearCrossEntropyLoss criterion({}, pieces);
    Tape tape;
    if (!on_tape) {
      criterion(x, w, targets);
    } else if (wants_x && wants_w) {
      tape.backward(criterion(tape.input(x), tape.input(w), targets));
    } else if (wants_x) {
      tape.backward(criterion(tape.input(x), tape.constant(w), targets));
    } else {
      tape.backward(criterion(tape.constant(x), tape.input(w), targets));
    }
  }
};

TEST_CASE("what is planned, recorded and asked of MPI is the same") {
  for (const auto& mesh : data_by_tensor_meshes()) {
    INFO("dp ", mesh.size<dp>(), " tp ", mesh.size<tp>());
    const int on_tp = mesh.size<tp>() > 1 ? 1 : 0, on_dp = mesh.size<dp>() > 1 ? 1 : 0;
    const Index rows = balanced_block(12, mesh.size<dp>(), mesh.rank<dp>()).size;
    const Index classes = balanced_block(16, mesh.size<tp>(), mesh.rank<tp>()).size;
    const Index product = 2 * rows * classes * 9, elements = rows * classes;
    const auto pieces = static_cast<int>((rows + 4) / 5);
    const LossPieces at_once{.rows = 5}, reduced_once{.rows = 5, .one_all_reduce = true};

    const auto plan = agreed_plan(mesh, HeadStep{at_once});
    CHECK(plan.collectives() == on_tp * pieces + on_dp);
    CHECK(plan.template bytes<tp>() == on_tp * rows * 12);
    CHECK(plan.template bytes<dp>() == on_dp * 16);
    CHECK(plan.collectives(Phase::backward) == 0);
    CHECK(plan.flops(Phase::forward) == 3 * product + 7 * elements);
    CHECK(plan.flops(Phase::backward) == (rows + classes) * 9);  // they are scaled

    const auto once = agreed_plan(mesh, HeadStep{reduced_once});
    CHECK(once.collectives() == on_tp + on_dp);
    CHECK(once.template bytes<tp>() == on_tp * rows * 12);
    CHECK(once.collectives(Phase::backward) == 0);
    CHECK(once.flops() == (on_tp > 0 ? 4 * product + 7 * elements : plan.flops()));

    // What nobody wants is not computed.
    CHECK(agreed_plan(mesh, HeadStep{at_once, true, false}).flops() == plan.flops() - product - classes * 9);
    CHECK(agreed_plan(mesh, HeadStep{at_once, false, true}).flops() == plan.flops() - product - rows * 9);
    CHECK(agreed_plan(mesh, HeadStep{reduced_once, false, true}).flops() ==
          once.flops() - product - (on_tp > 0 ? 0 : rows * 9));
    const auto bare = agreed_plan(mesh, HeadStep{at_once, true, true, false});
    CHECK(bare.flops() == product + 4 * elements);
    CHECK(bare.collectives() == on_tp + on_dp);
  }
}

/// The last loss and the gradients of a Llama after two micro-batches; loss_of(model, ids, targets).
struct LlamaPasses {
  double loss = 0;
  Outcome gradients;
};
template <class Plan, class LossOf>
LlamaPasses llama_passes(const LlamaMesh& mesh, const LlamaConfig& config, LossOf loss_of) {
  Llama<LlamaMesh, Plan, double> model(mesh, config);
  initialize(model, 3);
  LlamaPasses found;
  for (const bool last : {false, true}) {
    const auto ids = random_ids<std::int32_t, Shard<0>, Replicate, Replicate>(mesh, {5, 7}, 13, last ? 1 : 2);
    Tape tape;
    const auto loss = loss_of(model, tape.constant(ids), ids);
    found.loss = item(loss.value());
    backward_and_reduce(loss, model, {.last = last});
  }
  found.gradients = gradients_of(model);
  return found;
}

template <class Plan>
void check_llama(const LlamaMesh& mesh, const LlamaConfig& config, const LlamaPasses& of_logits) {
  for (const LossPieces& pieces : every_cut) {
    const auto found =
        llama_passes<Plan>(mesh, config, [&](auto& model, const auto& ids, const auto& targets) {
          return model(ids, targets, LinearCrossEntropyLoss({}, pieces));
        });
    CHECK(std::abs(found.loss - of_logits.loss) < 1e-13);
    check_outcome(found.gradients, of_logits.gradients);
  }
}

TEST_CASE("the loss of a Llama: tied or not, sharded in every way") {
  LlamaConfig config{
      .vocabulary = 13, .features = 12, .layers = 1, .heads = 6, .kv_heads = 2, .head_dim = 4, .hidden = 10};
  for (const auto& mesh : llama_meshes(config)) {
    for (const bool tied : {false, true}) {
      CAPTURE(tied);
      config.tied = tied;
      const auto of_logits =
          llama_passes<TensorPlan>(mesh, config, [](auto& model, const auto& ids, const auto& targets) {
            return CrossEntropyLoss()(model(ids), targets);
          });
      check_llama<TensorPlan>(mesh, config, of_logits);
      check_llama<PlanWith<SequencePlan, Zero<2, dp>>>(mesh, config, of_logits);
      check_llama<PlanWith<TensorPlan, FullyShard<dp>>>(mesh, config, of_logits);
    }
  }
}

TEST_CASE("in bfloat16 the gradient of the weight is rounded once, not with each piece") {
  using bf16 = Eigen::bfloat16;
  for (const auto& mesh : data_by_tensor_meshes()) {
    // All rows the same: each piece adds as much, and 256 of them are as far as bfloat16 can count.
    Dense x_values = random_dense({700, 7}, 1), ids({700});
    for (Index i = 0; i < x_values.size(); ++i) x_values[i] = x_values[i % 7];
    const auto x = place<OnGrid<bf16, 2, Replicate, Reduced>>(mesh, x_values);
    const auto w = random<bf16, Replicate, Shard<0>>(mesh, {13, 7}, 2);
    const auto targets = place<Ids<1, Replicate, Replicate>>(mesh, ids);
    for (const bool one_all_reduce : {false, true}) {
      auto gradient = [&](Index rows, int uses) {
        Tape tape;
        auto ws = tape.input(w);
        const LinearCrossEntropyLoss criterion({.reduction = Reduction::sum},
                                               {.rows = rows, .one_all_reduce = one_all_reduce});
        auto loss = criterion(tape.constant(x), ws, targets);
        for (int use = 1; use < uses; ++use) loss = add(loss, criterion(tape.constant(x), ws, targets));
        tape.backward(loss);
        return gather(ws.gradient());
      };
      const Dense at_once = gradient(700, 1);
      CHECK(difference(gradient(1, 1), at_once) <= 0.01);
      CHECK(difference(gradient(1, 2), gradient(700, 2)) <= 0.01);
    }
  }
}

TEST_CASE("recomputed, and with a head that takes its input in another layout") {
  for (const auto& mesh : data_by_tensor_meshes()) {
    Linear<Mesh<dp, tp>, ColwiseParallel<tp>, double, 1, 1, false> head(mesh, Shape<1>{7}, Shape<1>{13});
    initialize(head, 1);
    const auto x = random<double, Shard<0>, Shard<1>>(mesh, {6, 4, 7}, 2);
    const auto targets = random_ids<std::int32_t, Shard<0>, Replicate>(mesh, {6, 4}, 13, 3);
    Dense dx[2]{Dense({}), Dense({})}, dw[2]{Dense({}), Dense({})};
    const LinearCrossEntropyLoss criterion({}, {.rows = 3});
    for (const bool again : {false, true}) {
      Tape tape;
      auto xs = tape.input(x);
      auto loss =
          again ? recompute(criterion, head.take(xs), head.weight, targets) : criterion(xs, head, targets);
      tape.backward(loss);
      dx[again] = gather(xs.gradient());
      dw[again] = gather(head.weight.gradient());
      clear_gradients(head);
    }
    CHECK(difference(dx[1], dx[0]) == 0);
    CHECK(difference(dw[1], dw[0]) == 0);
  }
}

}  // namespace
}  // namespace shardwise::testing
