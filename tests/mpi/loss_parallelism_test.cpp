// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// `CrossEntropyLoss` against a dense computation in `double`: the loss and the gradient of the logits in
/// every layout, what it communicates, and whose memory it writes to.

#include <shardwise/nn/cross_entropy_loss.hpp>
#include <shardwise/ops/add.hpp>
#include <shardwise/ops/linear.hpp>
#include <support/plans.hpp>

#include <limits>

#include "ops_check.hpp"

namespace shardwise::testing::loss_parallelism {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

struct LossAndGradient {
  double loss = 0;
  Dense gradient;
};

LossAndGradient dense_loss(const Dense& logits, const Dense& targets, const CrossEntropyOptions& options) {
  const Index classes = logits.shape.back();
  const double smoothing = options.label_smoothing, share = smoothing / static_cast<double>(classes);
  LossAndGradient result{0, Dense(logits.shape)};
  double counted = 0;
  for (Index r = 0; r < targets.size(); ++r) {
    const auto target = static_cast<Index>(targets[r]);
    if (target == options.ignore_index) continue;
    const auto logit = [&](Index c) { return logits[r * classes + c]; };
    double largest = -infinity, sum = 0;
    for (Index c = 0; c < classes; ++c) largest = std::max(largest, logit(c));
    for (Index c = 0; c < classes; ++c) sum += std::exp(logit(c) - largest);
    for (Index c = 0; c < classes; ++c) {
      const double expected = (c == target ? 1 - smoothing : 0) + share;
      if (expected > 0) result.loss += expected * (largest - logit(c) + std::log(sum));
      result.gradient[r * classes + c] = std::exp(logit(c) - largest) / sum - expected;
    }
    counted += 1;
  }
  if (options.reduction == Reduction::mean) {
    result.loss /= counted;
    if (counted > 0) {
      for (double& value : result.gradient.values) value /= counted;
    }
  }
  return result;
}

/// The same bits on every rank.
bool same_everywhere(double value) {
  double least = value, most = value;
  world().all_reduce(&value, &least, 1, DataType::f64, ReduceOp::min);
  world().all_reduce(&value, &most, 1, DataType::f64, ReduceOp::max);
  return least == most;
}

/// A loss that is `Reduced` somewhere as one that `backward` takes.
template <class Loss>
auto replicated(const Loss& loss) {
  using Y = tensor_of<Loss>;
  return redistribute_to<whole_of<Y>>(loss);
}

template <class Logits, class Targets>
void check_loss(const typename Logits::MeshOf& mesh, const Dense& values, const Dense& ids,
                const CrossEntropyOptions& options = {}) {
  using T = typename Logits::Element;
  const double tolerance = std::is_same_v<T, double> ? 1e-13 : std::is_same_v<T, float> ? 2e-6 : 1e-2;
  CAPTURE(options.label_smoothing);
  const auto logits = place<Logits>(mesh, values);
  const auto targets = place<Targets>(mesh, ids);
  Dense rounded(values.shape);
  for (Index i = 0; i < values.size(); ++i) {
    rounded[i] = static_cast<double>(static_cast<T>(values[i]));
  }
  const LossAndGradient expected = dense_loss(rounded, ids, options);

  const CrossEntropyLoss criterion(options);
  Tape tape;
  auto x = tape.input(logits);
  auto loss = criterion(x, tape.constant(targets));
  const auto found = static_cast<double>(*loss.value().data());
  CHECK(std::abs(found - expected.loss) <= tolerance * std::max(1., std::abs(expected.loss)));
  CHECK(same_everywhere(found));
  CHECK(*criterion(logits, targets).data() == *loss.value().data());

  tape.backward(replicated(loss));
  static_assert(std::is_same_v<std::remove_cvref_t<decltype(x.gradient())>, cotangent_of<Logits>>);
  CHECK(difference(gather(x.gradient()), expected.gradient) <= tolerance);
  CHECK(x.gradient().view().data != logits.data());  // which we still hold
}

/// Integers in [0, classes), the same on every rank.
template <int Rank, class... P>
using OnGrid = Tensor<double, Rank, Mesh<dp, tp>, P...>;
template <int Rank, class... P>
using IdsOnGrid = Tensor<std::int32_t, Rank, Mesh<dp, tp>, P...>;
template <class P>
using Ids1 = On1<1, P, std::int32_t>;

const std::vector<CrossEntropyOptions> every_option{
    {},
    {.reduction = Reduction::sum},
    {.label_smoothing = 0.1},
    {.ignore_index = 2, .reduction = Reduction::sum, .label_smoothing = 1},
};

TEST_CASE("classes sharded on one axis, rows of one and of two dimensions") {
  const auto mesh = line();
  for (const Index classes : {16, 13, 3, 1}) {
    CAPTURE(classes);
    for (const auto& options : every_option) {
      check_loss<On1<2, Shard<1>>, Ids1<Replicate>>(mesh, random_dense({8, classes}, 1),
                                                    random_integers({8}, classes, 2), options);
      check_loss<On1<3, Shard<2>>, On1<2, Reduced, std::int64_t>>(
          mesh, random_dense({8, 12, classes}, 3), random_integers({8, 12}, classes, 4), options);
    }
  }
  check_loss<On1<1, Shard<0>>, On1<0, Replicate, std::int32_t>>(mesh, random_dense({5}, 1),
                                                                random_integers({}, 5, 2));
}

TEST_CASE("more classes than one chunk of a row, and a maximum that moves") {
  const auto mesh = line();
  Dense values = random_dense({3, 10007}, 1);
  for (Index c = 0; c < 10007; ++c) values[c] += static_cast<double>(c) * 0.01;          // grows
  for (Index c = 0; c < 10007; ++c) values[10007 + c] -= static_cast<double>(c) * 0.01;  // falls
  const Dense ids = random_integers({3}, 10007, 2);
  for (const double smoothing : {0., 0.1}) {
    check_loss<On1<2, Shard<1>>, Ids1<Replicate>>(mesh, values, ids, {.label_smoothing = smoothing});
    check_loss<On1<2, Shard<1>, float>, Ids1<Replicate>>(mesh, values, ids, {.label_smoothing = smoothing});
  }
}

TEST_CASE("float and bfloat16") {
  const auto mesh = line();
  const Dense values = random_dense({8, 13}, 1), ids = random_integers({8}, 13, 2);
  for (const auto& options : every_option) {
    check_loss<On1<2, Shard<1>, float>, Ids1<Replicate>>(mesh, values, ids, options);
    check_loss<On1<2, Shard<1>, Eigen::bfloat16>, Ids1<Replicate>>(mesh, values, ids, options);
    check_loss<On1<2, Shard<0>, Eigen::bfloat16>, Ids1<Shard<0>>>(mesh, values, ids, options);
  }
}

TEST_CASE("rows and classes sharded, on every mesh") {
  for (const auto& mesh : data_by_tensor_meshes()) {
    INFO("dp ", mesh.size<dp>(), " tp ", mesh.size<tp>());
    const Dense values = random_dense({5, 3, 13}, 1), ids = random_integers({5, 3}, 13, 2);
    for (const auto& options : every_option) {
      check_loss<OnGrid<3, Shard<0>, Shard<2>>, IdsOnGrid<2, Shard<0>, Replicate>>(mesh, values, ids,
                                                                                   options);
      check_loss<OnGrid<3, Shard<2>, Shard<1>>, IdsOnGrid<2, Reduced, Shard<1>>>(mesh, values, ids, options);
      check_loss<OnGrid<3, Shard<2>, Shard<2>>, IdsOnGrid<2, Replicate, Replicate>>(mesh, values, ids,
                                                                                    options);
      check_loss<OnGrid<3, Shard<0>, Shard<0>>, IdsOnGrid<2, Shard<0>, Shard<0>>>(mesh, values, ids, options);
      check_loss<OnGrid<3, Shard<0>, Shard<1>>, IdsOnGrid<2, Shard<0>, Shard<1>>>(mesh, values, ids, options);
      check_loss<OnGrid<3, Reduced, Shard<2>>, IdsOnGrid<2, Replicate, Replicate>>(mesh, values, ids,
                                                                                   options);
      check_loss<OnGrid<3, Replicate, Reduced>, IdsOnGrid<2, Reduced, Replicate>>(mesh, values, ids, options);
    }
  }
}

TEST_CASE("ignored rows") {
  const Dense values = random_dense({6, 13}, 1);
  Dense ids = random_integers({6}, 13, 2);
  ids[1] = ids[4] = -100;
  const auto on = [&](const auto& mesh, const CrossEntropyOptions& options) {
    check_loss<OnGrid<2, Shard<0>, Shard<1>>, IdsOnGrid<1, Shard<0>, Replicate>>(mesh, values, ids, options);
  };
  for (const auto& mesh : data_by_tensor_meshes()) {
    for (const double smoothing : {0., 0.2}) {
      on(mesh, {.label_smoothing = smoothing});
      on(mesh, {.reduction = Reduction::sum, .label_smoothing = smoothing});
    }
  }
  for (double& id : ids.values) id = 255;
  for (const auto& mesh : data_by_tensor_meshes()) {
    on(mesh, {.ignore_index = 255, .reduction = Reduction::sum});
    // The mean of nothing; its gradient is zero all the same, as in PyTorch.
    Tape tape;
    auto x = tape.input(place<OnGrid<2, Shard<0>, Shard<1>>>(mesh, values));
    const auto targets = place<IdsOnGrid<1, Shard<0>, Replicate>>(mesh, ids);
    auto loss = CrossEntropyLoss({.ignore_index = 255})(x, targets);
    CHECK(std::isnan(*loss.value().data()));
    tape.backward(loss);
    CHECK(difference(gather(x.gradient()), Dense({6, 13})) == 0);
  }
}

TEST_CASE("large logits, and masked ones") {
  const auto mesh = line();
  Dense values = random_dense({8, 16}, 1);
  const Dense ids = random_integers({8}, 16, 2);
  for (double& value : values.values) value *= 1e4;
  for (const double smoothing : {0., 0.1}) {
    check_loss<On1<2, Shard<1>>, Ids1<Replicate>>(mesh, values, ids, {.label_smoothing = smoothing});
    check_loss<On1<2, Shard<1>, float>, Ids1<Replicate>>(mesh, values, ids, {.label_smoothing = smoothing});
  }
  // The gradient keeps its digits where all logits are large: a common offset must not matter.
  for (Index i = 0; i < values.size(); ++i) values[i] = 1e4 + std::round(values[i] / 1e2) / 64;
  check_loss<On1<2, Shard<1>, float>, Ids1<Replicate>>(mesh, values, ids);

  // Half of the classes are masked: with two ranks or more, whole blocks.
  for (Index r = 0; r < 8; ++r) {
    for (Index c = 0; c < 16; ++c) {
      if (c < 8 && c != static_cast<Index>(ids[r])) values[r * 16 + c] = -infinity;
    }
  }
  check_loss<On1<2, Shard<1>>, Ids1<Replicate>>(mesh, values, ids);
  check_loss<On1<2, Shard<1>, float>, Ids1<Replicate>>(mesh, values, ids);
  check_loss<On1<2, Shard<1>, Eigen::bfloat16>, Ids1<Replicate>>(mesh, values, ids);
  const auto logits = place<On1<2, Shard<1>>>(mesh, values);
  const auto targets = place<Ids1<Replicate>>(mesh, ids);
  CHECK(*CrossEntropyLoss({.label_smoothing = 0.1})(logits, targets).data() == infinity);
  values[static_cast<Index>(ids[0])] = -infinity;  // a target of probability 0
  CHECK(*CrossEntropyLoss()(place<On1<2, Shard<1>>>(mesh, values), targets).data() == infinity);
  values[15] = std::numeric_limits<double>::quiet_NaN();
  CHECK(std::isnan(*CrossEntropyLoss()(place<On1<2, Shard<1>>>(mesh, values), targets).data()));
}

TEST_CASE("logits that are given up become their gradient") {
  const auto mesh = line();
  const Dense values = random_dense({8, 13}, 1), ids = random_integers({8}, 13, 2);
  const auto targets = place<Ids1<Replicate>>(mesh, ids);
  const LossAndGradient expected = dense_loss(values, ids, {});
  const CrossEntropyLoss criterion;
  for (int uses : {1, 2}) {
    CAPTURE(uses);
    Tape tape;
    auto x = tape.input(place<On1<2, Shard<1>>>(mesh, values));
    const double* block = x.value().data();
    const auto slot = x.slot();
    const auto shape = x.shape();
    if (uses == 1) {
      tape.backward(criterion(std::move(x), targets));
      CHECK((slot->sum()->data == block));
    } else {
      auto first = criterion(x, targets);
      tape.backward(add(first, criterion(std::move(x), targets)));
    }
    Dense gradient = gather(detail::gradient_of<On1<2, Shard<1>>>(mesh, shape, slot->sum()));
    for (double& value : gradient.values) value /= uses;
    CHECK(difference(gradient, expected.gradient) < 1e-13);
  }
}

TEST_CASE("a wrong target: all ranks throw the same, and name the first") {
  for (const auto& mesh : data_by_tensor_meshes()) {
    INFO("dp ", mesh.size<dp>(), " tp ", mesh.size<tp>());
    const auto message = [&](const Dense& ids) {
      return message_of<std::out_of_range>([&] {
        CrossEntropyLoss()(random<float, Shard<1>, Shard<2>>(mesh, {2, 4, 5}, 1),
                           place<Tensor<std::int64_t, 2, Mesh<dp, tp>, Shard<1>, Replicate>>(mesh, ids));
      });
    };
    Dense ids({2, 4});
    ids[7] = 5;
    CHECK(message(ids) == "CrossEntropyLoss: target 5 at [1, 3] is not one of the 5 classes");
    ids[4] = -1;
    CHECK(message(ids) == "CrossEntropyLoss: target -1 at [1, 0] is not one of the 5 classes");
    ids[4] = -100;
    ids[7] = 4;
    CHECK(message(ids).empty());
  }
}

TEST_CASE("shapes and options that do not fit") {
  const auto mesh = line();
  CHECK(message_of<std::invalid_argument>([&] {
          CrossEntropyLoss()(random<float, Shard<2>>(mesh, {3, 2, 5}, 1),
                             random_ids<std::int32_t, Replicate>(mesh, {3, 4}, 5, 1));
        }) == "CrossEntropyLoss: logits [3 x 2 x 5] and targets [3 x 4] differ in dimension 1");
  CHECK(contains(message_of<std::invalid_argument>([] { CrossEntropyLoss({.label_smoothing = 1.5}); }),
                 "label_smoothing is 1.5"));
  CHECK_THROWS_AS(CrossEntropyLoss({.label_smoothing = std::nan("")}), std::invalid_argument);
}

TEST_CASE("no gradient is wanted, or no tape is there") {
  const auto mesh = line();
  const auto logits = random<float, Shard<1>>(mesh, {4, 7}, 1);
  const auto targets = random_ids<std::int32_t, Replicate>(mesh, {4}, 7, 1);
  Tape tape;
  auto loss = CrossEntropyLoss()(tape.constant(logits), targets);
  static_assert(std::is_same_v<decltype(loss), Var<On1<0, Replicate, float>, false>>);
  auto bare = CrossEntropyLoss()(logits, targets);
  static_assert(std::is_same_v<decltype(bare), On1<0, Replicate, float>>);
  CHECK(*loss.value().data() == *bare.data());
}

/// A training step of a head [16 x 9], whose classes are sharded.
template <class RowPlacement>
struct HeadStep {
  double smoothing = 0;
  template <class MeshType>
  constexpr void operator()(const MeshType& mesh) const {
    Tensor<float, 2, MeshType, RowPlacement, Reduced> x(mesh, {5, 9});
    Tensor<float, 2, MeshType, Reduced, Shard<0>> w(mesh, {13, 9});
    fill_normal(x, 1);
    fill_normal(w, 2);
    const auto targets = zeros<std::int32_t, RowPlacement, Replicate>(mesh, {5});
    const CrossEntropyLoss criterion({.label_smoothing = smoothing});
    Tape tape;
    auto weight = tape.input(w);
    auto loss = criterion(linear(tape.constant(x), weight), targets);
    tape.backward(redistribute<Replicate, Replicate>(loss));
  }
};

TEST_CASE("what is planned, recorded and asked of MPI is the same") {
  for (const auto& mesh : data_by_tensor_meshes()) {
    INFO("dp ", mesh.size<dp>(), " tp ", mesh.size<tp>());
    const int on_tp = mesh.size<tp>() > 1 ? 1 : 0, on_dp = mesh.size<dp>() > 1 ? 1 : 0;
    for (const double smoothing : {0., 0.1}) {
      const auto sharded = agreed_plan(mesh, HeadStep<Shard<0>>{smoothing});
      CHECK(sharded.collectives() == on_tp + on_dp);
      CHECK(sharded.collectives(Phase::backward) == 0);
      const Index rows = balanced_block(5, mesh.size<dp>(), mesh.rank<dp>()).size;
      CHECK(sharded.template bytes<tp>() == on_tp * rows * (smoothing > 0 ? 16 : 12));
      CHECK(sharded.template bytes<dp>() == on_dp * 16);
      CHECK(agreed_plan(mesh, HeadStep<Reduced>{smoothing}).collectives() == on_tp);
    }
  }
}

}  // namespace
}  // namespace shardwise::testing::loss_parallelism
