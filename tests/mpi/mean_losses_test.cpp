// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// `mse_loss`, `l1_loss` and `bce_with_logits_loss`; and `redistribute_like`, which brings a target to its prediction.

#include <shardwise/mesh/trace.hpp>
#include <shardwise/nn/linear.hpp>
#include <shardwise/nn/mean_losses.hpp>
#include <shardwise/ops/check_operation.hpp>

#include "ops_check.hpp"

namespace shardwise::testing::mean_losses {
namespace {

template <class Formula>
auto dense(Formula formula) {
  return [formula](const Dense& x, const Dense& t) {
    Dense y(std::vector<Index>{});
    for (Index i = 0; i < x.size(); ++i) y[0] += formula(x[i], t[i]) / static_cast<double>(x.size());
    return y;
  };
}
const auto squared = dense([](double x, double t) { return (x - t) * (x - t); });
const auto absolute = dense([](double x, double t) { return std::abs(x - t); });
const auto binary = dense([](double x, double t) {
  const double p = 1 / (1 + std::exp(-x));
  return -t * std::log(p) - (1 - t) * std::log(1 - p);
});

template <class F, class P>
void check_terms(const auto& mesh, const auto& formula) {
  const auto f = [](const auto& x, const auto& t) { return apply(MeanLossOp<F>{}, x, t); };
  check(f, formula, random<double, P>(mesh, {3, 7}, 1), random<double, P>(mesh, {3, 7}, 2));
}

TEST_CASE_TEMPLATE("terms of a mean", P, Replicate, Reduced, Shard<0>, Shard<1>) {
  const auto mesh = line();
  check_terms<detail::SquaredError, P>(mesh, squared);
  check_terms<detail::AbsoluteError, P>(mesh, absolute);
  check_terms<detail::BinaryCrossEntropy, P>(mesh, binary);
}
TEST_CASE("operations of losses") {
  const auto mesh = line();
  check_operation(mesh, MeanLossOp<detail::SquaredError>(), Shape<2>{5, 3}, Shape<2>{5, 3});
  check_operation(mesh, MeanLossOp<detail::BinaryCrossEntropy>(), Shape<1>{5}, Shape<1>{5});
}

/// The loss on a tape is the whole loss on every rank, and `backward` takes it.
template <class T, class... P>
void check_loss(const auto& mesh, auto loss, const auto& formula, double tolerance) {
  const auto x = random<T, P...>(mesh, {5, 6}, 1), target = random<T, P...>(mesh, {5, 6}, 2);
  Tape tape;
  const auto v = tape.input(x);
  const auto y = loss(v, tape.constant(target));
  tape.backward(y);
  Dense at = gather(x);
  const Dense t = gather(target);
  CHECK(static_cast<double>(item(y)) == doctest::Approx(formula(at, t)[0]).epsilon(tolerance));
  CHECK(item(loss(x, target)) == item(y));
  Dense expected(at.shape);
  for (Index i = 0; i < at.size(); ++i) {
    for (const double h : {1e-5, -1e-5}) {
      at[i] += h;
      expected[i] += formula(at, t)[0] / (2 * h);
      at[i] -= h;
    }
  }
  CHECK(difference(gather(v.gradient()), expected) <= tolerance);
}
TEST_CASE("mse_loss, l1_loss, bce_with_logits_loss") {
  const auto mesh = line();
  const auto two = grid();
  const auto mse = [](const auto& x, const auto& t) { return mse_loss(x, t); };
  const auto l1 = [](const auto& x, const auto& t) { return l1_loss(x, t); };
  const auto bce = [](const auto& x, const auto& t) { return bce_with_logits_loss(x, t); };
  check_loss<double, Shard<0>>(mesh, mse, squared, 1e-6);
  check_loss<double, Replicate>(mesh, l1, absolute, 1e-6);
  check_loss<double, Shard<1>>(mesh, bce, binary, 1e-6);
  check_loss<double, Shard<0>, Shard<1>>(two, mse, squared, 1e-6);
  check_loss<double, Shard<0>, Replicate>(two, bce, binary, 1e-6);
  check_loss<Eigen::bfloat16, Shard<0>>(mesh, mse, squared, 3e-2);
  CHECK_THROWS_WITH_AS(
      mse_loss(random<double, Shard<0>>(mesh, {5, 6}, 1), random<double, Shard<0>>(mesh, {5, 1}, 1)),
      "mse_loss: the operands [5 x 6] and [5 x 1] do not fit: dimension 1 of operand 0 has 6 elements, "
      "dimension 1 of operand 1 has 1",
      std::invalid_argument);
}
TEST_CASE("bce_with_logits_loss: large logits") {
  const auto mesh = line();
  Dense x({3}), t({3});
  x[0] = 1000, x[1] = -1000, x[2] = -1000;
  t[0] = 1, t[1] = 1;
  Tape tape;
  const auto v = tape.input(place<On1<1, Replicate>>(mesh, x));
  const auto y = bce_with_logits_loss(v, tape.constant(place<On1<1, Replicate>>(mesh, t)));
  tape.backward(y);
  CHECK(item(y) == doctest::Approx(1000. / 3));
  CHECK(gather(v.gradient())[1] == doctest::Approx(-1. / 3));
}

static_assert(why_not<MeanLossOp<detail::SquaredError>, On1<2, Shard<0>>, On1<2, Replicate>> ==
              Reason::contracted_dimension_sharded_on_one_side_only);
static_assert(why_not<MeanLossOp<detail::SquaredError>, On1<2, Partial<>>, On1<2, Partial<>>> ==
              Reason::operation_is_not_linear_so_it_needs_the_finished_sum);

/// A model and its loss, as one module.
struct Fit : Module<Fit> {
  explicit Fit(const Mesh<tp>& mesh) : layer(mesh, 4, 6) {}
  auto forward(const auto& x, const auto& target) const {
    const auto y = layer(x);
    return mse_loss(y, redistribute_like(target, y));
  }
  void visit(auto&& f) { f("layer", layer); }
  Linear<Mesh<tp>, ColwiseParallel<tp>, double> layer;
};

TEST_CASE("redistribute_like: a target to the layout of what a layer computes") {
  const auto mesh = line();
  Fit fit(mesh);
  initialize(fit, 1);
  Tape tape;
  const auto x = tape.input(random<double, Replicate>(mesh, {3, 4}, 1));
  const auto target = tape.constant(random<double, Replicate>(mesh, {3, 6}, 2));
  const auto loss = fit(redistribute<Reduced>(x), target);
  tape.backward(loss);
  const Dense y = gather(fit.layer(x.value()));
  CHECK(item(loss) == doctest::Approx(squared(y, gather(target.value()))[0]));
  CHECK(difference(gather(redistribute_like(target.value(), fit.layer(x.value()))), gather(target.value())) ==
        0);
}
template <class T>
concept Fits = requires(const Fit& fit, On1<2, Reduced> x, T target) {
  fit(x, target);
};
static_assert(Fits<On1<2, Replicate>> && !Fits<On1<1, Replicate>>);

using Row = On1<2, Shard<0>>;
template <class X, class Y>
constexpr Reason why_not_like = reason_of<detail::redistributed_like<X, Y>>;
static_assert(std::is_same_v<detail::redistributed_like<Var<Row>, On1<1, Partial<>>>, On1<2, Partial<>>>);
static_assert(why_not_like<On1<1, Replicate>, On1<2, Shard<1>>> == Reason::tensor_has_no_such_dimension);
static_assert(why_not_like<Row, Tensor<double, 2, Mesh<dp>, Shard<0>>> ==
              Reason::operands_are_on_different_meshes);

constexpr auto plan = trace<Mesh<tp>>({2}, [](auto mesh) {
  Tape tape;
  const auto x = tape.input(Row(mesh, {5, 3}));
  tape.backward(l1_loss(x, redistribute_like(tape.constant(On1<2, Replicate>(mesh, {5, 3})), x)));
});
static_assert(plan.collectives() == 1);

}  // namespace
}  // namespace shardwise::testing::mean_losses
