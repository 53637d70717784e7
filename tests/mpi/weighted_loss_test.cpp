// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// Cross entropy with weights of classes, and of each row by itself, against PyTorch's definitions in `double`: in every
/// layout, with and without label smoothing and ignored rows, of logits and of a head; over micro-batches.

#include <shardwise/nn/linear_cross_entropy_loss.hpp>
#include <shardwise/ops/arithmetic.hpp>
#include <shardwise/ops/reduction.hpp>
#include <support/plans.hpp>

#include <vector>

#include "ops_check.hpp"

namespace shardwise::testing::weighted_loss {
namespace {

template <class T, int Rank, class... P>
using OnGrid = Tensor<T, Rank, Mesh<dp, tp>, P...>;
template <int Rank, class... P>
using Ids = Tensor<std::int32_t, Rank, Mesh<dp, tp>, P...>;

double weight_of(const CrossEntropyOptions& options, Index c) {
  return options.class_weights.empty() ? 1 : options.class_weights[static_cast<std::size_t>(c)];
}

/// F.cross_entropy(logits, targets, weight, reduction="none", …), what its gradients are if `factors` are those of the losses,
/// and what the mean is divided by.
struct DenseLosses {
  Dense losses, gradient;
  double divisor = 0;
};
DenseLosses dense_losses(const Dense& logits, const Dense& targets, const CrossEntropyOptions& options,
                         const Dense& factors) {
  const Index classes = logits.shape.back();
  DenseLosses result{Dense(targets.shape), Dense(logits.shape), 0};
  const double e = options.label_smoothing, share = e / static_cast<double>(classes);
  for (Index r = 0; r < targets.size(); ++r) {
    const auto target = static_cast<Index>(targets[r]);
    if (target == options.ignore_index) continue;
    result.divisor += weight_of(options, target);
    double sum = 0, all = 0;
    for (Index c = 0; c < classes; ++c) sum += std::exp(logits[r * classes + c]);
    for (Index c = 0; c < classes; ++c) {
      // -Σ expected · log p, where log p = logit - log sum
      const double expected =
          share * weight_of(options, c) + (c == target ? (1 - e) * weight_of(options, c) : 0);
      result.losses[r] -= expected * (logits[r * classes + c] - std::log(sum));
      all += expected;
      result.gradient[r * classes + c] -= factors[r] * expected;
    }
    for (Index c = 0; c < classes; ++c)
      result.gradient[r * classes + c] += factors[r] * all * std::exp(logits[r * classes + c]) / sum;
  }
  return result;
}

Dense constant(const std::vector<Index>& shape, double value) {
  Dense all(shape);
  for (double& each : all.values) each = value;
  return all;
}
double sum_of(const Dense& x) {
  double sum = 0;
  for (const double each : x.values) sum += each;
  return sum;
}

std::vector<CrossEntropyOptions> options_for(Index classes) {
  std::vector<double> weights, some;
  for (Index c = 0; c < classes; ++c) {
    weights.push_back(0.25 + static_cast<double>(c * 7 % 5));
    some.push_back(c % 3 == 1 ? 0 : 1.5);
  }
  return {{},
          {.class_weights = weights},
          {.label_smoothing = 0.1},
          {.label_smoothing = 0.1, .class_weights = weights},
          {.ignore_index = 2, .class_weights = some},
          {.ignore_index = 2, .label_smoothing = 0.3, .class_weights = some},
          {.ignore_index = 2, .label_smoothing = 1, .class_weights = weights}};
}

/// `criterion(x)` gives the loss of `reduction`; or, of each row, what `each(x)` gives: their sum with factors.
template <class Logits, class Targets>
void check(const typename Logits::MeshOf& mesh, const Dense& values, const Dense& ids,
           const CrossEntropyOptions& given) {
  CAPTURE(given.label_smoothing);
  CAPTURE(given.class_weights.size());
  using T = typename Logits::Element;
  const double tolerance = std::is_same_v<T, double> ? 1e-13 : std::is_same_v<T, float> ? 4e-6 : 4e-2;
  Dense rounded(values.shape);
  for (Index i = 0; i < values.size(); ++i) rounded[i] = static_cast<double>(static_cast<T>(values[i]));
  const auto logits = place<Logits>(mesh, values);
  const auto targets = place<Targets>(mesh, ids);
  const DenseLosses plain = dense_losses(rounded, ids, given, constant(ids.shape, 1));
  CHECK(loss_divisor(given, targets) == doctest::Approx(plain.divisor).epsilon(1e-14));
  for (const Reduction reduction : {Reduction::mean, Reduction::sum}) {
    CrossEntropyOptions options = given;
    options.reduction = reduction;
    const double by = reduction == Reduction::mean ? plain.divisor : 1;
    const DenseLosses expected = dense_losses(rounded, ids, options, constant(ids.shape, 1 / by));
    Tape tape;
    auto x = tape.input(logits);
    auto loss = CrossEntropyLoss(options)(x, targets);
    const auto found = static_cast<double>(*loss.value().data());
    const double right = sum_of(expected.losses) / by;
    CHECK(std::abs(found - right) <= tolerance * std::max(1., std::abs(right)));
    tape.backward(redistribute_to<whole_of<tensor_of<decltype(loss)>>>(loss));
    CHECK(difference(gather(x.gradient()), expected.gradient) <= tolerance);
  }
  const Dense factors = random_dense(ids.shape, 77);
  const DenseLosses expected = dense_losses(rounded, ids, given, factors);
  Tape tape;
  auto x = tape.input(logits);
  auto each = CrossEntropyLossPerRow(given)(x, targets);
  using Y = tensor_of<decltype(each)>;
  CHECK(difference(gather(each.value()), expected.losses) <= tolerance * 8);
  auto loss = sum(mul(each, tape.constant(place<Y>(mesh, factors))));
  tape.backward(redistribute_to<whole_of<tensor_of<decltype(loss)>>>(loss));
  CHECK(difference(gather(x.gradient()), expected.gradient) <= tolerance);
}

TEST_CASE("logits with rows and classes sharded, on every mesh") {
  for (const auto& mesh : data_by_tensor_meshes()) {
    INFO("dp ", mesh.size<dp>(), " tp ", mesh.size<tp>());
    for (const Index classes : {13, 3}) {  // of 3, a fourth rank has none
      const Dense values = random_dense({5, 3, classes}, 1), ids = random_integers({5, 3}, classes, 2);
      for (const auto& options : options_for(classes)) {
        check<OnGrid<double, 3, Shard<0>, Shard<2>>, Ids<2, Shard<0>, Replicate>>(mesh, values, ids, options);
        check<OnGrid<double, 3, Shard<2>, Shard<1>>, Ids<2, Reduced, Shard<1>>>(mesh, values, ids, options);
        check<OnGrid<double, 3, Shard<2>, Shard<2>>, Ids<2, Replicate, Replicate>>(mesh, values, ids,
                                                                                   options);
        check<OnGrid<double, 3, Shard<0>, Shard<0>>, Ids<2, Shard<0>, Shard<0>>>(mesh, values, ids, options);
        check<OnGrid<double, 3, Replicate, Shard<2>>, Ids<2, Replicate, Replicate>>(mesh, values, ids,
                                                                                    options);
        check<OnGrid<float, 3, Shard<0>, Shard<2>>, Ids<2, Shard<0>, Replicate>>(mesh, values, ids, options);
        check<OnGrid<Eigen::bfloat16, 3, Shard<0>, Shard<2>>, Ids<2, Shard<0>, Replicate>>(mesh, values, ids,
                                                                                           options);
      }
    }
  }
}

TEST_CASE("the losses of rows lie as the rows do") {
  const Mesh<dp, tp> mesh(world(), {any, 1});
  const auto ids = random_ids<std::int32_t, Shard<0>, Replicate>(mesh, {5, 3}, 13, 2);
  const auto each = CrossEntropyLossPerRow()(random<float, Shard<0>, Shard<2>>(mesh, {5, 3, 13}, 1), ids);
  static_assert(std::is_same_v<decltype(each), const OnGrid<float, 2, Shard<0>, Replicate>>);
  const auto wide =
      CrossEntropyLossPerRow()(random<Eigen::bfloat16, Shard<0>, Shard<2>>(mesh, {5, 3, 13}, 1), ids);
  static_assert(std::is_same_v<decltype(wide), const OnGrid<float, 2, Shard<0>, Replicate>>);
}

// ---- Of a head ----------------------------------------------------------------------------------------------------

template <class X, class W, class Targets>
void check_head(const typename X::MeshOf& mesh, const Dense& x_values, const Dense& w_values,
                const Dense& ids, const CrossEntropyOptions& given) {
  CAPTURE(given.label_smoothing);
  CAPTURE(given.class_weights.size());
  const auto x = place<X>(mesh, x_values);
  const auto w = place<W>(mesh, w_values);
  const auto targets = place<Targets>(mesh, ids);
  const Dense factors = random_dense(ids.shape, 77);
  // `part(xs, ws, weighed)` is a loss; `weighed` makes one of the losses of rows.
  const auto computed = [&](const auto& criterion) {
    Tape tape;
    auto xs = tape.input(x);
    auto ws = tape.input(w);
    auto loss = criterion(tape, xs, ws);
    const auto found = redistribute_to<whole_of<tensor_of<decltype(loss)>>>(loss);
    tape.backward(found);
    return std::tuple(static_cast<double>(*found.value().data()), gather(xs.gradient()),
                      gather(ws.gradient()));
  };
  const auto weighed = [&](Tape& tape, const auto& each) {
    using Y = tensor_of<decltype(each)>;
    return sum(mul(each, tape.constant(place<Y>(mesh, factors))));
  };
  const auto same = [](const auto& found, const auto& right) {
    CHECK(std::abs(std::get<0>(found) - std::get<0>(right)) <=
          1e-13 * std::max(1., std::abs(std::get<0>(right))));
    CHECK(difference(std::get<1>(found), std::get<1>(right)) <= 1e-13);
    CHECK(difference(std::get<2>(found), std::get<2>(right)) <= 1e-13);
  };
  for (const LossPieces& pieces :
       {LossPieces{}, LossPieces{.one_all_reduce = true}, LossPieces{.rows = 2}, LossPieces{4, true}}) {
    for (const Reduction reduction : {Reduction::mean, Reduction::sum}) {
      CrossEntropyOptions options = given;
      options.reduction = reduction;
      const LinearCrossEntropyLoss in_one(options, pieces);
      const CrossEntropyLoss of_logits(options);
      same(computed([&](Tape&, const auto& xs, const auto& ws) { return in_one(xs, ws, targets); }),
           computed(
               [&](Tape&, const auto& xs, const auto& ws) { return of_logits(linear(xs, ws), targets); }));
    }
    const LinearCrossEntropyLossPerRow in_one(given, pieces);
    const CrossEntropyLossPerRow of_logits(given);
    CHECK(difference(gather(in_one(x, w, targets)), gather(of_logits(linear(x, w), targets))) <= 1e-12);
    same(computed([&](Tape& tape, const auto& xs, const auto& ws) {
           return weighed(tape, in_one(xs, ws, targets));
         }),
         computed([&](Tape& tape, const auto& xs, const auto& ws) {
           return weighed(tape, of_logits(linear(xs, ws), targets));
         }));
  }
}

TEST_CASE("a head, in pieces of its rows") {
  for (const auto& mesh : data_by_tensor_meshes()) {
    INFO("dp ", mesh.size<dp>(), " tp ", mesh.size<tp>());
    const Dense x = random_dense({5, 3, 7}, 1), w = random_dense({13, 7}, 2),
                ids = random_integers({5, 3}, 13, 3);
    for (const auto& options : options_for(13)) {
      check_head<OnGrid<double, 3, Shard<0>, Reduced>, OnGrid<double, 2, Reduced, Shard<0>>,
                 Ids<2, Shard<0>, Replicate>>(mesh, x, w, ids, options);
      check_head<OnGrid<double, 3, Reduced, Shard<1>>, OnGrid<double, 2, Shard<0>, Reduced>,
                 Ids<2, Reduced, Shard<1>>>(mesh, x, w, ids, options);
    }
  }
}

// ---- Steps of several parts ---------------------------------------------------------------------------------------

TEST_CASE("micro-batches: sums, divided by the divisors of all, are the mean over all rows") {
  for (const auto& mesh : data_by_tensor_meshes()) {
    const Index parts = 3, rows = 4;
    const Dense values = random_dense({parts * rows, 13}, 1);
    Dense ids = random_integers({parts * rows}, 13, 2);
    for (const auto& options : options_for(13)) {
      ids[1] = ids[2] = ids[7] = static_cast<double>(options.ignore_index);  // parts do not count alike
      const auto part = [&](const Dense& all, Index i) {
        std::vector<Index> shape = all.shape;
        shape[0] = rows;
        Dense some(shape);
        for (Index k = 0; k < some.size(); ++k) some[k] = all[i * some.size() + k];
        return some;
      };
      CrossEntropyOptions summed = options;
      summed.reduction = Reduction::sum;
      double sum = 0, divisor = 0;
      for (Index i = 0; i < parts; ++i) {
        const auto targets = place<Ids<1, Shard<0>, Replicate>>(mesh, part(ids, i));
        const auto logits = place<OnGrid<double, 2, Shard<0>, Shard<1>>>(mesh, part(values, i));
        sum += *CrossEntropyLoss(summed)(logits, targets).data();
        divisor += loss_divisor(options, targets);
      }
      const auto mean = *CrossEntropyLoss(options)(place<OnGrid<double, 2, Shard<0>, Shard<1>>>(mesh, values),
                                                   place<Ids<1, Shard<0>, Replicate>>(mesh, ids))
                             .data();
      CHECK(std::abs(sum / divisor - mean) <= 1e-13);
    }
  }
}

// ---- What it costs, and what is refused ---------------------------------------------------------------------------

/// A training step of a head [13 x 9], whose classes are sharded.
struct HeadStep {
  constexpr void operator()(const auto& mesh) const {
    using MeshType = std::remove_cvref_t<decltype(mesh)>;
    Tensor<float, 2, MeshType, Shard<0>, Reduced> x(mesh, {5, 9});
    Tensor<float, 2, MeshType, Reduced, Shard<0>> w(mesh, {13, 9});
    fill_normal(x, 1);
    fill_normal(w, 2);
    const auto targets = zeros<std::int32_t, Shard<0>, Replicate>(mesh, {5});
    const CrossEntropyOptions options{.class_weights = std::vector<double>(13, 2.)};
    for (const bool in_one : {false, true}) {
      Tape tape;
      auto weight = tape.input(w);
      auto rows = tape.constant(x);
      if (in_one) {
        auto each = LinearCrossEntropyLossPerRow(options, {.rows = 2})(rows, weight, targets);
        tape.backward(redistribute<Replicate, Replicate>(sum(each)));
      } else {
        auto each = CrossEntropyLossPerRow(options)(linear(rows, weight), targets);
        tape.backward(redistribute<Replicate, Replicate>(sum(each)));
      }
    }
  }
};

TEST_CASE("what is planned, recorded and asked of MPI is the same") {
  for (const auto& mesh : data_by_tensor_meshes()) {
    const int on_tp = mesh.size<tp>() > 1 ? 1 : 0, on_dp = mesh.size<dp>() > 1 ? 1 : 0;
    const auto plan = agreed_plan(mesh, HeadStep{});
    CHECK(plan.collectives() == 2 * (on_tp + 2 * on_dp));  // rows agree on targets, and are added up
    CHECK(plan.collectives(Phase::backward) == 0);
  }
}

TEST_CASE("weights that do not fit, and targets that are none") {
  const Mesh<dp, tp> mesh(world(), {any, 1});
  const auto logits = random<float, Shard<0>, Shard<1>>(mesh, {8, 5}, 1);
  const auto ids = random_ids<std::int32_t, Shard<0>, Replicate>(mesh, {8}, 5, 1);
  const CrossEntropyOptions four{.class_weights = {1, 2, 3, 4}};
  const CrossEntropyLoss of_four(four);
  CHECK_THROWS_WITH_AS(of_four(logits, ids), "CrossEntropyLoss: there are 4 class_weights, but 5 classes",
                       std::invalid_argument);
  CHECK_THROWS_WITH_AS(CrossEntropyLossPerRow({.class_weights = {1, -1}}),
                       "CrossEntropyLoss: the weight of class 1 is -1, but must be finite, and 0 or more",
                       std::invalid_argument);
  CHECK_THROWS_AS(LinearCrossEntropyLoss({.class_weights = {1, std::nan("")}}), std::invalid_argument);
  Dense wrong = random_integers({8}, 5, 1);
  wrong[6] = 5;
  const auto bad = place<Ids<1, Shard<0>, Replicate>>(mesh, wrong);
  const CrossEntropyOptions five{.class_weights = {1, 2, 3, 4, 5}};
  const char* message = "CrossEntropyLoss: target 5 at [6] is not one of the 5 classes";
  const CrossEntropyLossPerRow of_five(five);
  CHECK_THROWS_WITH_AS(of_five(logits, bad), message, std::out_of_range);
  CHECK_THROWS_WITH_AS(loss_divisor(five, bad), message, std::out_of_range);
}

}  // namespace
}  // namespace shardwise::testing::weighted_loss
