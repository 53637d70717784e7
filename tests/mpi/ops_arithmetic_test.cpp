// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// `mul`, `scale` and `dropout`.

#include <shardwise/ops/arithmetic.hpp>
#include <shardwise/ops/dropout.hpp>

#include "ops_check.hpp"

namespace shardwise::testing {
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
        }) == "mul: the operands differ in shape, [7 x 5] and [5 x 7]");
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
static_assert(why_not<MulOp, On1<2, Reduced>, On1<1, Reduced>> == Reason::operands_do_not_fit_in_rank);
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

}  // namespace
}  // namespace shardwise::testing
