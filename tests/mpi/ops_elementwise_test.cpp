// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// Elementwise functions of one tensor; `sub`, `mul`, `div`, `minimum` and `maximum` with rows and scalars; comparisons
/// and `where`; operators with numbers.

#include <shardwise/mesh/trace.hpp>
#include <shardwise/ops/check_operation.hpp>
#include <shardwise/ops/comparison.hpp>
#include <shardwise/ops/operators.hpp>
#include <shardwise/ops/reduction.hpp>
#include <shardwise/ops/where.hpp>

#include "ops_check.hpp"

namespace shardwise::testing::ops_elementwise {
namespace {

/// f of each element, and b as often as a needs it.
template <class F>
auto of_one(F f) {
  return [f](const Dense& x) {
    Dense y(x.shape);
    for (Index i = 0; i < x.size(); ++i) y[i] = f(x[i]);
    return y;
  };
}
template <class F>
auto of_two(F f) {
  return [f](const Dense& a, const Dense& b) {
    Dense y(a.shape);
    for (Index i = 0; i < a.size(); ++i) y[i] = f(a[i], b[i % b.size()]);
    return y;
  };
}
Dense positive(std::vector<Index> shape, std::uint64_t seed) {
  Dense x = random_dense(std::move(shape), seed);
  for (double& value : x.values) value = 0.1 + std::abs(value);
  return x;
}

TEST_CASE("functions of one tensor: every legal layout, and gradients") {
  const auto mesh = line();
  const Shape<2> shape{5, 3};
  check_operation(mesh, ActivationOp<kernel::Sigmoid>(), shape);
  check_operation(mesh, ActivationOp<kernel::Softplus>(), shape);
  check_operation(mesh, ActivationOp<kernel::Exp>(), shape);
  check_operation(mesh, ActivationOp<kernel::Abs>(), shape);
  check_operation(mesh, ActivationOp<kernel::Reciprocal>(), shape);
  check_operation(mesh, AddNumberOp{1.5}, shape);
  for (const double exponent : {0., 1., 2., 3., -1.}) check_operation(mesh, PowOp{exponent}, shape);
}

TEST_CASE("functions of one tensor: values") {
  const auto mesh = line();
  const auto x = place<On1<2, Shard<0>>>(mesh, positive({7, 5}, 1));
  check([](const auto& v) { return log(v); }, of_one([](double v) { return std::log(v); }), x);
  check([](const auto& v) { return sqrt(v); }, of_one([](double v) { return std::sqrt(v); }), x);
  check([](const auto& v) { return pow(v, 0.3); }, of_one([](double v) { return std::pow(v, 0.3); }), x);
  check([](const auto& v) { return exp(v); }, of_one([](double v) { return std::exp(v); }), x);
  check([](const auto& v) { return abs(v); }, of_one([](double v) { return std::abs(v); }), x);
  check([](const auto& v) { return reciprocal(v); }, of_one([](double v) { return 1 / v; }), x);
  check([](const auto& v) { return sigmoid(v); }, of_one([](double v) { return 1 / (1 + std::exp(-v)); }),
        random<Eigen::bfloat16, Shard<1>>(mesh, {2, 5}, 1));
  check([](const auto& v) { return softplus(v); }, of_one([](double v) { return std::log1p(std::exp(v)); }),
        random<double, Reduced>(mesh, {3}, 1));
}

TEST_CASE("functions of one tensor: at 0") {
  const auto mesh = line();
  const auto at_zero = [&](auto f) {
    Tape tape;
    const auto x = tape.input(full<double, Replicate>(mesh, Shape<0>{}, 0.));
    tape.backward(f(x));
    return item(x.gradient());
  };
  CHECK(at_zero([](const auto& x) { return abs(x); }) == 0);
  CHECK(at_zero([](const auto& x) { return sqrt(x); }) == HUGE_VAL);
  CHECK(at_zero([](const auto& x) { return log(x); }) == HUGE_VAL);
  CHECK(at_zero([](const auto& x) { return pow(x, 1); }) == 1);
  CHECK(at_zero([](const auto& x) { return pow(x, 0); }) == 0);
}

template <class Op>
void check_pair(const auto& mesh) {
  check_operation(mesh, Op(), Shape<1>{5}, Shape<1>{5});
  check_operation(mesh, Op(), Shape<2>{5, 3}, Shape<1>{3});
  check_operation(mesh, Op(), Shape<2>{5, 1}, Shape<1>{1});
}

TEST_CASE("functions of two tensors: every legal layout, and gradients") {
  const auto mesh = line();
  check_pair<AddOp>(mesh);
  check_pair<SubOp>(mesh);
  check_pair<MulOp>(mesh);
  check_pair<DivOp>(mesh);
  check_pair<MinimumOp>(mesh);
  check_pair<MaximumOp>(mesh);
}

TEST_CASE("functions of two tensors: values") {
  const auto mesh = line();
  const auto x = random<double, Shard<0>>(mesh, {2, 7, 5}, 1);
  const auto row = place<On1<2, Reduced>>(mesh, positive({7, 5}, 2));
  const auto number = place<On1<0, Reduced>>(mesh, positive({}, 3));
  const auto look = [&](auto f, auto dense) {
    check(f, of_two(dense), x, row);
    check(f, of_two(dense), x, number);
  };
  look([](const auto& a, const auto& b) { return a - b; }, std::minus<>());
  look([](const auto& a, const auto& b) { return a * b; }, std::multiplies<>());
  look([](const auto& a, const auto& b) { return a / b; }, std::divides<>());
  look([](const auto& a, const auto& b) { return minimum(a, b); },
       [](double a, double b) { return std::min(a, b); });
  look([](const auto& a, const auto& b) { return maximum(a, b); },
       [](double a, double b) { return std::max(a, b); });
  const auto two = grid();
  check([](const auto& a, const auto& b) { return a / b; }, of_two(std::divides<>()),
        random<Eigen::bfloat16, Shard<0>, Shard<1>>(two, {5, 3}, 1),
        place<Tensor<Eigen::bfloat16, 1, Mesh<dp, tp>, Reduced, Shard<0>>>(two, positive({3}, 2)));
  CHECK(message_of<std::invalid_argument>([&] {
          x / random<double, Reduced>(mesh, {7, 4}, 1);
        }) ==
        "div: the operands [2 x 7 x 5] and [7 x 4] do not fit: dimension 2 of operand 0 has 5 elements, "
        "dimension 1 of operand 1 has 4");
}

TEST_CASE("minimum and maximum: equal numbers halve the gradient, and NaN wins") {
  const auto mesh = line();
  const auto x = [&](double value) { return full<double, Replicate>(mesh, Shape<0>{}, value); };
  for (const bool largest : {false, true}) {
    const auto choose = [&](const auto& a, const auto& b) { return largest ? maximum(a, b) : minimum(a, b); };
    Tape tape;
    const auto a = tape.input(x(2)), b = tape.input(x(2));
    tape.backward(choose(a, b));
    CHECK(item(a.gradient()) == 0.5);
    CHECK(item(b.gradient()) == 0.5);
    CHECK(std::isnan(item(choose(x(std::nan("")), x(1)))));
    CHECK(std::isnan(item(choose(x(1), x(std::nan(""))))));
  }
}

// What a constant was multiplied with is not kept.
static_assert(detail::saved_inputs<MulOp>(0b01) == 0b10 && detail::saved_inputs<MulOp>(0b11) == 0b11);

TEST_CASE("comparisons") {
  const auto mesh = line();
  const auto look = [&](auto f, auto dense) {
    const auto a = random_integers({7, 5}, 4, 1), b = random_integers({7, 5}, 4, 2),
               row = random_integers({5}, 4, 3);
    check_value(f, of_two(dense), place<On1<2, Shard<0>>>(mesh, a), place<On1<2, Shard<0>>>(mesh, b));
    check_value(f, of_two(dense), place<On1<2, Shard<1>, float>>(mesh, a),
                place<On1<1, Shard<0>, float>>(mesh, row));
    check_value(f, of_two(dense), place<On1<2, Reduced, std::int64_t>>(mesh, a),
                place<On1<1, Replicate, std::int64_t>>(mesh, row));
    check_value([f](const auto& x) { return f(x, 2); }, of_one([=](double x) { return dense(x, 2); }),
                place<On1<2, Shard<1>, Eigen::bfloat16>>(mesh, a));
    check_value([f](const auto& x) { return f(x, 1.5); }, of_one([=](double x) { return dense(x, 1.5); }),
                place<On1<2, Shard<0>, std::int32_t>>(mesh, a));
  };
  look([](const auto& a, const auto& b) { return less(a, b); }, std::less<>());
  look([](const auto& a, const auto& b) { return less_equal(a, b); }, std::less_equal<>());
  look([](const auto& a, const auto& b) { return greater(a, b); }, std::greater<>());
  look([](const auto& a, const auto& b) { return greater_equal(a, b); }, std::greater_equal<>());
  look([](const auto& a, const auto& b) { return equal(a, b); }, std::equal_to<>());
  look([](const auto& a, const auto& b) { return not_equal(a, b); }, std::not_equal_to<>());
  const auto nan = full<double, Replicate>(mesh, Shape<0>{}, std::nan(""));
  CHECK(item(equal(nan, nan)) == 0);
  CHECK(item(not_equal(nan, nan)) == 1);
  CHECK(contains(message_of<std::invalid_argument>([&] {
                   less(random<double, Shard<0>>(mesh, {7, 5}, 1), random<double, Shard<0>>(mesh, {7, 4}, 1));
                 }),
                 "comparison: the operands [7 x 5] and [7 x 4] do not fit"));
}

template <class... X>
using Below = decltype(less(std::declval<X>()...));
using Mask = On1<2, Shard<0>, std::uint8_t>;
static_assert(std::is_same_v<Below<Tracked1<2, Shard<0>>, On1<2, Shard<0>>>, Mask>);
static_assert(std::is_same_v<Below<On1<2, Shard<0>>, On1<1, Replicate>>, Mask>);
static_assert(std::is_same_v<Below<On1<2, Shard<0>, std::int32_t>, double>, Mask>);
static_assert(
    std::is_same_v<decltype(where(Mask(), std::declval<Tracked1<2, Shard<0>>>(), 0)), Tracked1<2, Shard<0>>>);
template <class A, class B>
concept Comparable = requires(A a, B b) {
  equal(a, b);
};
static_assert(!Comparable<On1<2, Partial<>>, int> && !Comparable<On1<2, Shard<0>>, On1<2, Replicate>> &&
              !Comparable<On1<1, Replicate>, On1<2, Replicate>> && !Comparable<int, On1<2, Replicate>>);

template <class P, class MaskP = P>
void check_where(const auto& mesh, Index rows) {
  const auto mask = random_ids<std::uint8_t, MaskP>(mesh, {rows, 5}, 2, 1);
  const auto a = random<double, P>(mesh, {rows, 5}, 2);
  check([](const auto& m, const auto& x, const auto& y) { return where(m, x, y); },
        [](const Dense& m, const Dense& x, const Dense& y) {
          Dense z(x.shape);
          for (Index i = 0; i < x.size(); ++i) z[i] = m[i] != 0 ? x[i] : y[i];
          return z;
        },
        mask, a, random<double, P>(mesh, {rows, 5}, 3));
  if constexpr (!std::is_same_v<P, Partial<>>) {
    check([](const auto& m, const auto& x) { return where(m, x, -7); },
          of_two([](double m, double x) { return m != 0 ? x : -7; }), mask, a);
  }
}

TEST_CASE("where") {
  const auto mesh = line();
  for (const Index rows : {2, 7}) {
    check_where<Replicate>(mesh, rows);
    check_where<Reduced>(mesh, rows);
    check_where<Reduced, Replicate>(mesh, rows);
    check_where<Shard<0>>(mesh, rows);
    check_where<Shard<1>>(mesh, rows);
    check_where<Partial<>, Replicate>(mesh, rows);
  }
  const auto x = random<double, Shard<0>>(mesh, {7, 5}, 1);
  check([](const auto& v) { return where(less(v, 0), v * 0.1, v); },
        of_one([](double v) { return v < 0 ? 0.1 * v : v; }), x);
  CHECK(contains(message_of<std::invalid_argument>([&] {
                   where(random_ids<std::uint8_t, Shard<0>>(mesh, {7, 4}, 2, 1), x, x);
                 }),
                 "where: the operands [7 x 4], [7 x 5] and [7 x 5] do not fit"));
}
static_assert(why_not<WhereOp, On1<2, Partial<>, int>, On1<2, Partial<>>, On1<2, Partial<>>> ==
              Reason::operation_is_not_linear_so_it_needs_the_finished_sum);
static_assert(why_not<WhereNumberOp, On1<2, Replicate, int>, On1<2, Partial<>>> ==
              Reason::operation_is_not_linear_so_it_needs_the_finished_sum);

TEST_CASE("operators with numbers") {
  const auto mesh = line();
  check([](const auto& x) { return 1 - x * 3 + 2.5f - (x - 4) / 2 + 6 / (x + 10); },
        of_one([](double x) { return 1 - x * 3 + 2.5 - (x - 4) / 2 + 6 / (x + 10); }),
        random<double, Shard<1>>(mesh, {7, 5}, 1));
}

TEST_CASE("x + c: the gradient is handed on, not copied") {
  const auto mesh = line();
  Tape tape;
  auto x = tape.input(random<double, Shard<0>>(mesh, {7, 5}, 1));
  const auto dy = random<double, Shard<0>>(mesh, {7, 5}, 4);
  arrive(tape, x + 3, dy);
  go_back(tape, mesh);
  CHECK(x.gradient().data() == dy.data());
}

// A plan, by the compiler.
constexpr auto plan = trace<Mesh<tp>>({2}, [](const Mesh<tp>& mesh) {
  Tape tape;
  const On1<2, Shard<0>> x(mesh, Shape<2>{6, 4});
  const On1<1, Reduced> row(mesh, Shape<1>{4});
  auto a = tape.input(x);
  auto b = tape.input(row);
  const auto y = where(less(a, b), exp(a) * b - 1, maximum(pow(a, 3) / b, a));
  tape.backward(sum(redistribute<Replicate>(y)));
});
static_assert(plan.flops(Phase::forward) > 0);

}  // namespace
}  // namespace shardwise::testing::ops_elementwise
