// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// `add` and `sub`: sums, biases and residual connections; `mul`, `scale` and `dropout`; operators. `div` and others are in
/// ops_elementwise_test.cpp.

#include <shardwise/module/sequential.hpp>
#include <shardwise/ops/add.hpp>
#include <shardwise/ops/arithmetic.hpp>
#include <shardwise/ops/dropout.hpp>
#include <shardwise/ops/operators.hpp>
#include <shardwise/ops/reduction.hpp>

#include "ops_check.hpp"

namespace shardwise::testing::ops_arithmetic {
namespace {

const auto times = [](const auto& a, const auto& b) { return mul(a, b); };
const auto halve = [](const auto& x) { return scale(x, -0.5); };
const auto drop = [](const auto& x) { return dropout(x, 0.3, 12345); };

Dense dense_product(const Dense& a, const Dense& b) {
  Dense y(a.shape);
  for (Index i = 0; i < a.size(); ++i) y[i] = a[i] * b[i];
  return y;
}
Dense dense_half(const Dense& x) {
  Dense y(x.shape);
  for (Index i = 0; i < x.size(); ++i) y[i] = -0.5 * x[i];
  return y;
}
Dense dense_dropout(const Dense& x) {
  Dense y(x.shape);
  for (Index i = 0; i < x.size(); ++i) {
    y[i] = kernel::dropout_keeps(0.3, 12345, static_cast<std::uint64_t>(i)) ? x[i] / 0.7 : 0;
  }
  return y;
}

template <class T, class A, class B>
void check_product(const auto& mesh) {
  check(times, dense_product, random<T, A>(mesh, {7, 5}, 1), random<T, B>(mesh, {7, 5}, 2));
}

TEST_CASE("mul") {
  const auto mesh = line();
  check_product<double, Replicate, Replicate>(mesh);
  check_product<double, Reduced, Reduced>(mesh);
  check_product<double, Shard<0>, Shard<0>>(mesh);
  check_product<double, Shard<1>, Shard<1>>(mesh);
  check_product<double, Partial<>, Reduced>(mesh);
  check_product<double, Reduced, Partial<>>(mesh);
  check_product<Eigen::bfloat16, Shard<1>, Shard<1>>(mesh);
  CHECK(message_of<std::invalid_argument>([&] {
          mul(random<double, Reduced>(mesh, {7, 5}, 1), random<double, Reduced>(mesh, {5, 7}, 1));
        }) ==
        "mul: the operands [7 x 5] and [5 x 7] do not fit: dimension 0 of operand 0 has 7 elements, "
        "dimension 0 of operand 1 has 5");
}

TEST_CASE("mul: a square, whose two gradients meet in one slot") {
  const auto mesh = line();
  check([](const auto& x) { return mul(x, x); }, [](const Dense& x) { return dense_product(x, x); },
        random<double, Shard<0>>(mesh, {5}, 1));
}

TEST_CASE("scale") {
  const auto mesh = line();
  check(halve, dense_half, random<double, Replicate>(mesh, {7, 5}, 1));
  check(halve, dense_half, random<double, Shard<1>>(mesh, {7, 5}, 1));
  check(halve, dense_half, random<double, Partial<>>(mesh, {7, 5}, 1));
  check(halve, dense_half, random<Eigen::bfloat16, Shard<0>>(mesh, {7, 5}, 1));
}

TEST_CASE("dropout: the mask is a function of seed and global index") {
  const auto mesh = line();
  check(drop, dense_dropout, random<double, Replicate>(mesh, {7, 5, 3}, 1));
  check(drop, dense_dropout, random<double, Reduced>(mesh, {7, 5, 3}, 1));
  check(drop, dense_dropout, random<double, Shard<0>>(mesh, {7, 5, 3}, 1));
  check(drop, dense_dropout, random<double, Shard<1>>(mesh, {7, 5, 3}, 1));
  check(drop, dense_dropout, random<double, Shard<2>>(mesh, {7, 5, 3}, 1));
  check(drop, dense_dropout, random<double, Partial<>>(mesh, {7, 5, 3}, 1));
  check(drop, dense_dropout, random<double, Shard<1>, Shard<1>>(grid(), {7, 9}, 1));
  check(drop, dense_dropout, random<Eigen::bfloat16, Shard<1>>(mesh, {7, 5}, 1));
}

TEST_CASE("dropout: the probability") {
  const auto mesh = line();
  const auto x = random<double, Shard<0>>(mesh, {7, 5}, 1);
  CHECK(gather(dropout(x, 0, 1)).values == gather(x).values);
  CHECK(gather(dropout(x, 0.5, 1)).values != gather(dropout(x, 0.5, 2)).values);
  for (double p : {-0.1, 1., 1.5, std::nan("")}) CHECK_THROWS_AS(dropout(x, p, 1), std::invalid_argument);
  CHECK(contains(message_of<std::invalid_argument>([&] { dropout(x, 1, 1); }), "dropout: the probability 1"));
}

template <class A, class B>
constexpr Reason why = why_not<MulOp, On1<2, A>, On1<2, B>>;
static_assert(why<Partial<>, Reduced> == Reason::none);
static_assert(why<Partial<>, Partial<>> == Reason::product_of_two_pending_sums);
static_assert(why<Partial<>, Replicate> == Reason::pending_sum_meets_a_finished_value);
static_assert(why<Partial<>, Shard<0>> == Reason::dimension_sharded_on_one_side_only);
static_assert(why<Shard<0>, Reduced> == Reason::dimension_sharded_on_one_side_only);
static_assert(why<Shard<0>, Shard<1>> == Reason::operands_sharded_on_different_dimensions);
static_assert(why_not<MulOp, On1<1, Reduced>, On1<2, Reduced>> == Reason::operands_do_not_fit_in_rank);
static_assert(why_not<MulOp, On1<2, Reduced>, On1<2, Reduced, float>> ==
              Reason::operands_have_different_element_types);
static_assert(why_not<ScaleOp, On1<2, Partial<Max>>> ==
              Reason::pending_maximum_or_minimum_must_be_reduced_first);
static_assert(why_not<DropoutOp, On1<2, Partial<Max>>> ==
              Reason::pending_maximum_or_minimum_must_be_reduced_first);

template <class A, class B>
concept Multipliable = requires(A a, B b) {
  mul(a, b);
};
static_assert(Multipliable<On1<2, Reduced>, On1<2, Partial<>>>);
static_assert(!Multipliable<On1<2, Partial<>>, On1<2, Partial<>>>);
template <class X>
concept Scalable = requires(X x) {
  scale(x, 2), dropout(x, 0.1, 1);
};
static_assert(Scalable<On1<2, Partial<>>> && !Scalable<On1<2, Partial<Max>>>);

const auto plus = [](const auto& a, const auto& b) { return add(a, b); };
const auto minus = [](const auto& a, const auto& b) { return sub(a, b); };

/// b as often as a needs it.
Dense dense_sum(const Dense& a, const Dense& b) {
  Dense y(a.shape);
  for (Index i = 0; i < a.size(); ++i) y[i] = a[i] + b[i % b.size()];
  return y;
}
Dense dense_difference(const Dense& a, const Dense& b) {
  Dense y(a.shape);
  for (Index i = 0; i < a.size(); ++i) y[i] = a[i] - b[i];
  return y;
}

template <class T, class... P>
void check_pair(const auto& mesh) {
  check(plus, dense_sum, random<T, P...>(mesh, {7, 5}, 1), random<T, P...>(mesh, {7, 5}, 2));
}
template <class PX, class PB>
void check_bias(const auto& mesh) {
  check(plus, dense_sum, random<double, PX>(mesh, {3, 7, 5}, 1), random<double, PB>(mesh, {7, 5}, 2));
}

TEST_CASE("add: two tensors of one shape") {
  const auto mesh = line();
  check_pair<double, Replicate>(mesh);
  check_pair<double, Reduced>(mesh);
  check_pair<double, Shard<0>>(mesh);
  check_pair<double, Shard<1>>(mesh);
  check_pair<double, Partial<>>(mesh);
  check_pair<double, Shard<1>, Partial<>>(grid());
  check_pair<Eigen::bfloat16, Shard<0>>(mesh);
}

TEST_CASE("add: a bias lies as its rows do") {
  const auto mesh = line();
  check_bias<Replicate, Replicate>(mesh);
  check_bias<Reduced, Reduced>(mesh);
  check_bias<Shard<0>, Reduced>(mesh);
  check_bias<Shard<1>, Shard<0>>(mesh);
  check_bias<Shard<2>, Shard<1>>(mesh);
  check_bias<Partial<>, Partial<>>(mesh);
  const auto two = grid();
  check(plus, dense_sum, random<double, Shard<0>, Shard<1>>(two, {5, 3}, 1),
        random<double, Reduced, Shard<0>>(two, {3}, 2));
}

TEST_CASE("sub") {
  const auto mesh = line();
  auto pair = [&]<class T, class P>(T, P) {
    check(minus, dense_difference, random<T, P>(mesh, {7, 5}, 1), random<T, P>(mesh, {7, 5}, 2));
  };
  pair(0., Replicate());
  pair(0., Shard<0>());
  pair(0., Partial<>());
  pair(Eigen::bfloat16(0), Reduced());
}

TEST_CASE("add: a bias on a pending sum is added once") {
  const auto mesh = line();
  Dense digits({10, 1}), ten({1});
  for (Index i = 0; i < 10; ++i) digits[i] = static_cast<double>(i);
  ten[0] = 10;
  const auto x = place<On1<2, Shard<0>>>(mesh, digits);
  const On1<1, Partial<>> total = sum<0>(x);
  const auto bias = redistribute<Partial<>>(place<On1<1, Replicate>>(mesh, ten));
  CHECK(gather(add(total, bias))[0] == 55);
  CHECK(gather(add(total, total))[0] == 90);
}

TEST_CASE("add: the gradient is handed on, not copied") {
  const auto mesh = line();
  Tape tape;
  auto a = tape.input(random<double, Shard<0>>(mesh, {7, 5}, 1));
  auto b = tape.input(random<double, Shard<0>>(mesh, {7, 5}, 2));
  auto c = tape.input(random<double, Reduced>(mesh, {5}, 3));
  const auto dy = random<double, Shard<0>>(mesh, {7, 5}, 4);
  Recording recording(mesh);
  arrive(tape, add(add(a, b), c), dy);
  go_back(tape, mesh);
  CHECK(a.gradient().data() == dy.data());
  CHECK(b.gradient().data() == dy.data());
  CHECK(recording.plan().flops(Phase::backward) == dy.view().elements());  // the bias alone
  // A further contribution to one of them does not reach the other.
  Tape again;
  const auto on_it = [&again](auto x, auto slot) { return Var(again, std::move(x), std::move(slot)); };
  arrive(again, add(on_it(a.value(), a.slot()), on_it(a.value(), a.slot())), dy);
  go_back(again, mesh);
  for (Index i = 0; i < dy.view().elements(); ++i) {
    CHECK(a.gradient().data()[i] == doctest::Approx(3 * dy.data()[i]));
    CHECK(b.gradient().data()[i] == dy.data()[i]);
  }
}

TEST_CASE("add: a parameter's gradient is its own, because optimizers write to it") {
  const auto mesh = line();
  Tape tape;
  const auto x = random<double, Reduced>(mesh, {5}, 1);
  Var parameter(tape, tensor_of<decltype(x)>(x), Shared<GradientSlot>::make(MemoryUse::gradient));
  const auto dy = random<double, Partial<>>(mesh, {5}, 2);
  arrive(tape, add(parameter, tape.constant(x)), dy);
  go_back(tape, mesh);
  CHECK(parameter.gradient().view().data != dy.view().data);
  CHECK(parameter.slot()->writable());
  for (Index i = 0; i < 5; ++i) CHECK(parameter.gradient().view().data[i] == dy.view().data[i]);
}

TEST_CASE("add: shapes that differ") {
  const auto mesh = line();
  const auto a = random<double, Replicate>(mesh, {7, 5}, 1), b = random<double, Replicate>(mesh, {7, 4}, 2);
  const auto c = random<double, Replicate>(mesh, {7}, 2);
  CHECK(message_of<std::invalid_argument>([&] { add(a, b); }) ==
        "add: the operands [7 x 5] and [7 x 4] do not fit: dimension 1 of operand 0 has 5 elements, "
        "dimension 1 of operand 1 has 4");
  CHECK(message_of<std::invalid_argument>([&] { add(a, c); }) ==
        "add: the operands [7 x 5] and [7] do not fit: dimension 1 of operand 0 has 5 elements, "
        "dimension 0 of operand 1 has 7");
  CHECK(message_of<std::invalid_argument>([&] { sub(a, b); }) ==
        "sub: the operands [7 x 5] and [7 x 4] do not fit: dimension 1 of operand 0 has 5 elements, "
        "dimension 1 of operand 1 has 4");
}

TEST_CASE("operators: what the functions give, with their gradients") {
  const auto mesh = line();
  const auto mixed = [](const auto& a, const auto& b) {
    return 2 * a - b / 4 + (-a) * 0.25f + 0.5 * (a + b);
  };
  const auto dense = [](const Dense& a, const Dense& b) {
    Dense y(a.shape);
    for (Index i = 0; i < a.size(); ++i) y[i] = 2.25 * a[i] + 0.25 * b[i];
    return y;
  };
  const auto pair = [&]<class P>(P) {
    check(mixed, dense, random<double, P>(mesh, {7, 5}, 1), random<double, P>(mesh, {7, 5}, 2));
  };
  pair(Replicate());
  pair(Reduced());
  pair(Shard<0>());
  pair(Shard<1>());
  pair(Partial<>());
  const auto two = grid();
  check(mixed, dense, random<double, Shard<1>, Partial<>>(two, {7, 5}, 1),
        random<double, Shard<1>, Partial<>>(two, {7, 5}, 2));
  check([](const auto& a, const auto& b) { return a + b; }, dense_sum,
        random<double, Shard<0>>(mesh, {7, 5}, 1), random<double, Reduced>(mesh, {5}, 2));
  CHECK(message_of<std::invalid_argument>([&] {
          random<double, Reduced>(mesh, {7, 5}, 1) - random<double, Reduced>(mesh, {5, 7}, 1);
        }).starts_with("sub: the operands [7 x 5] and [5 x 7] do not fit"));
}

template <class A, class B>
concept WithPlus = requires(A a, B b) {
  a + b;
};
template <class A, class B>
concept WithTimes = requires(A a, B b) {
  a* b;
};
using Rows = On1<2, Shard<0>>;
static_assert(std::is_same_v<decltype(2 * std::declval<Rows>()), Rows> && WithTimes<Rows, float> &&
              WithTimes<Tracked1<2, Shard<0>>, long> && WithTimes<Rows, Rows> &&
              !WithTimes<Rows, const char*>);
static_assert(WithPlus<Rows, Rows> && WithPlus<Rows, On1<1, Reduced>> && !WithPlus<Rows, On1<2, Reduced>> &&
              WithPlus<Rows, double> && WithPlus<int, Rows> && !WithPlus<On1<2, Partial<>>, double> &&
              !WithPlus<Tracked1<2, Shard<0>>, Rows>);
// What is none of ours stays as it was.
static_assert(WithPlus<std::vector<Rows>::iterator, int> && !WithTimes<std::vector<Rows>, int>);

struct CubeOp {
  static constexpr Signature signature = Signature::of("... -> ...");
  static constexpr Saved saved{.inputs = 0b1};
  template <class T, int Rank>
  static void forward(View<T, Rank> y, void*, View<const T, Rank> x) {
    for (Index i = 0; i < x.elements(); ++i) y.data[i] = x.data[i] * x.data[i] * x.data[i];
  }
  template <class T, int Rank>
  static void pull_back(View<const T, Rank> dy, View<const T, Rank>, const void*, Input<T, Rank> x) {
    for (Index i = 0; i < x.elements(); ++i) x.gradient[i] = 3 * x.data[i] * x.data[i] * dy.data[i];
  }
};
inline constexpr Function<CubeOp> cube;

TEST_CASE("an operation as a function, also as a stage") {
  const auto mesh = line();
  const auto dense = [](double factor, int power) {
    return [=](const Dense& x) {
      Dense y(x.shape);
      for (Index i = 0; i < x.size(); ++i) y[i] = factor * std::pow(x[i], power);
      return y;
    };
  };
  check(cube, dense(1, 3), random<double, Shard<1>>(mesh, {7, 5}, 1));
  check([](const auto& x) { return sequential(x, Function{ScaleOp{0.5}}, cube, Function{ScaleOp{2}}); },
        dense(0.25, 3), random<double, Shard<0>>(mesh, {3, 5}, 1));
}
template <class X>
concept Cubable = requires(X x) {
  cube(x);
};
static_assert(Cubable<Rows> && !Cubable<On1<2, Partial<>>> && !Cubable<On1<2, Replicate, int>> &&
              !Cubable<int>);

template <int RankA, class A, int RankB, class B>
constexpr Reason why_not_added = why_not<AddOp, On1<RankA, A>, On1<RankB, B>>;
static_assert(why_not_added<2, Shard<0>, 2, Shard<0>> == Reason::none);
static_assert(why_not_added<2, Partial<>, 1, Reduced> == Reason::pending_sum_meets_a_finished_value);
static_assert(why_not_added<2, Partial<>, 1, Replicate> == Reason::pending_sum_meets_a_finished_value);
static_assert(why_not_added<2, Shard<0>, 2, Shard<1>> == Reason::operands_sharded_on_different_dimensions);
static_assert(why_not_added<2, Shard<0>, 2, Reduced> == Reason::dimension_sharded_on_one_side_only);
static_assert(why_not_added<2, Shard<1>, 1, Reduced> == Reason::dimension_sharded_on_one_side_only);
static_assert(why_not_added<2, Shard<0>, 1, Replicate> ==
              Reason::replicated_operand_meets_blocks_so_its_gradient_would_be_pending);
static_assert(why_not_added<2, Replicate, 2, Reduced> == Reason::replicated_operand_meets_reduced_one);
static_assert(why_not_added<1, Replicate, 2, Replicate> == Reason::operands_do_not_fit_in_rank);
static_assert(why_not_added<2, Partial<Max>, 2, Partial<Max>> ==
              Reason::pending_maximum_or_minimum_must_be_reduced_first);
static_assert(why_not<SubOp, On1<1, Replicate>, On1<2, Replicate>> == Reason::operands_do_not_fit_in_rank);
static_assert(why_not<SubOp, On1<2, Partial<>>, On1<2, Reduced>> ==
              Reason::pending_sum_meets_a_finished_value);

template <class A, class B>
concept Addable = requires(A a, B b) {
  add(a, b);
};
template <class A, class B>
concept Subtractable = requires(A a, B b) {
  sub(a, b);
};
static_assert(Addable<On1<2, Shard<0>>, On1<2, Shard<0>>> &&
              Addable<Tracked1<2, Shard<0>>, Var<On1<2, Shard<0>>, false>>);
// A tensor beside a Var may have been computed from what is to be trained; integers have no gradient.
static_assert(!Addable<Tracked1<2, Shard<0>>, On1<2, Shard<0>>> &&
              !Addable<On1<2, Shard<0>>, Tracked1<2, Shard<0>>>);
static_assert(!Addable<On1<2, Shard<0>>, On1<2, Reduced>> &&
              !Addable<On1<2, Shard<0>>, On1<2, Shard<0>, float>>);
static_assert(Subtractable<On1<2, Shard<0>>, On1<2, Shard<0>>>);
static_assert(!Subtractable<On1<2, Shard<0>>, On1<2, Reduced>>);

}  // namespace
}  // namespace shardwise::testing::ops_arithmetic
