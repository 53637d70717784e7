// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// `sum`, `mean`, `sum_of_squares`, `max`, `norm` and `variance`.

#include <shardwise/ops/arithmetic.hpp>
#include <shardwise/ops/check_operation.hpp>
#include <shardwise/ops/reduction.hpp>
#include <shardwise/ops/variance.hpp>
#include <shardwise/tensor/distribute.hpp>

#include "ops_check.hpp"

namespace shardwise::testing::ops_reduction {
namespace {

/// One of them by name, over dimension `dim`, or over all dimensions if it is -1.
auto dense(const std::string& what, int dim) {
  return [what, dim](const Dense& x) {
    std::vector<Index> shape;
    Index n = x.size(), inner = 1;
    if (dim >= 0) {
      shape = x.shape;
      shape.erase(shape.begin() + dim);
      n = x.shape[static_cast<std::size_t>(dim)];
      for (std::size_t i = static_cast<std::size_t>(dim) + 1; i < x.shape.size(); ++i) inner *= x.shape[i];
    }
    Dense y(shape);
    for (Index i = 0; i < y.size(); ++i) {
      double sum = 0, squares = 0, largest = -HUGE_VAL;
      for (Index k = 0; k < n; ++k) {
        const double value = x[(i / inner * n + k) * inner + i % inner];
        sum += value;
        squares += value * value;
        largest = std::max(largest, value);
      }
      if (what == "sum") y[i] = sum;
      if (what == "mean") y[i] = sum / static_cast<double>(n);
      if (what == "sum_of_squares") y[i] = squares;
      if (what == "max") y[i] = largest;
      if (what == "norm") y[i] = std::sqrt(squares);
      if (what == "variance") {
        const double count = static_cast<double>(n);
        y[i] = (squares - sum * sum / count) / count;
      }
    }
    return y;
  };
}

const auto sum_all = [](const auto& x) { return sum(x); };
const auto mean_all = [](const auto& x) { return mean(x); };
const auto squares_all = [](const auto& x) { return sum_of_squares(x); };
const auto max_all = [](const auto& x) { return max(x); };
const auto norm_all = [](const auto& x) { return norm(x); };
const auto sum_middle = [](const auto& x) { return sum<1>(x); };
const auto mean_middle = [](const auto& x) { return mean<1>(x); };
const auto squares_middle = [](const auto& x) { return sum_of_squares<1>(x); };
const auto max_middle = [](const auto& x) { return max<1>(x); };
const auto norm_middle = [](const auto& x) { return norm<1>(x); };

TEST_CASE("sum") {
  const auto mesh = line();
  check(sum_middle, dense("sum", 1), random<double, Replicate>(mesh, {3, 7, 5}, 1));
  check(sum_middle, dense("sum", 1), random<double, Shard<0>>(mesh, {3, 7, 5}, 1));
  check(sum_middle, dense("sum", 1), random<double, Shard<1>>(mesh, {3, 7, 5}, 1));
  check(sum_middle, dense("sum", 1), random<double, Shard<2>>(mesh, {3, 7, 5}, 1));
  check(sum_middle, dense("sum", 1), random<double, Partial<>>(mesh, {3, 7, 5}, 1));
  check(sum_all, dense("sum", -1), random<double, Reduced>(mesh, {3, 7}, 1));
  check(sum_all, dense("sum", -1), random<double, Shard<0>>(mesh, {3, 7}, 1));
  check(sum_middle, dense("sum", 1), random<Eigen::bfloat16, Shard<1>>(mesh, {3, 7}, 1));
  check([](const auto& x) { return sum<-1>(x); }, dense("sum", 1), random<double, Shard<0>>(mesh, {3, 7}, 1));
}

TEST_CASE("mean: divides by the global extent, also where blocks are uneven") {
  const auto mesh = line();
  check(mean_middle, dense("mean", 1), random<double, Shard<1>>(mesh, {3, 7, 5}, 1));
  check(mean_middle, dense("mean", 1), random<double, Shard<2>>(mesh, {3, 7, 5}, 1));
  check(mean_middle, dense("mean", 1), random<double, Partial<>>(mesh, {3, 7, 5}, 1));
  check(mean_all, dense("mean", -1), random<double, Reduced>(mesh, {3, 7}, 1));
  check(mean_all, dense("mean", -1), random<double, Shard<1>>(mesh, {3, 7}, 1));
  check(mean_all, dense("mean", -1), random<double, Shard<1>, Shard<1>>(grid(), {3, 7}, 1));
  check(mean_all, dense("mean", -1), random<Eigen::bfloat16, Shard<0>>(mesh, {3, 7}, 1));
}

TEST_CASE("sum_of_squares") {
  const auto mesh = line();
  check(squares_middle, dense("sum_of_squares", 1), random<double, Shard<1>>(mesh, {3, 7, 5}, 1));
  check(squares_middle, dense("sum_of_squares", 1), random<double, Shard<0>>(mesh, {3, 7, 5}, 1));
  check(squares_all, dense("sum_of_squares", -1), random<double, Replicate>(mesh, {3, 7}, 1));
  check(squares_all, dense("sum_of_squares", -1), random<double, Shard<0>>(mesh, {3, 7}, 1));
  check(squares_all, dense("sum_of_squares", -1), random<Eigen::bfloat16, Shard<0>>(mesh, {3, 7}, 1));
}

TEST_CASE("max: pending where the dimension is sharded") {
  const auto mesh = line();
  check(max_middle, dense("max", 1), random<double, Replicate>(mesh, {3, 7, 5}, 1));
  check(max_middle, dense("max", 1), random<double, Shard<0>>(mesh, {3, 7, 5}, 1));
  check(max_middle, dense("max", 1), random<double, Shard<2>>(mesh, {3, 7, 5}, 1));
  check(max_all, dense("max", -1), random<double, Reduced>(mesh, {3, 7}, 1));
  check(max_all, dense("max", -1), random<Eigen::bfloat16, Reduced>(mesh, {3, 7}, 1));
  check_value(max_middle, dense("max", 1), random<double, Shard<1>>(mesh, {3, 7, 5}, 1));
  check_value(max_middle, dense("max", 1), random<double, Shard<1>>(mesh, {3, 2, 5}, 1));  // empty blocks
  check_value(max_all, dense("max", -1), random<double, Shard<0>>(mesh, {3, 7}, 1));
}

TEST_CASE("max: NaN if an element is, on whichever rank, and on a tape") {
  const auto mesh = line();
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const auto whole = [](const auto& x) { return item(redistribute<Replicate>(x)); };
  for (Index place = 0; place < 6; ++place) {
    CAPTURE(place);
    std::vector<double> values{1, 2, 3, 4, 5, 6};
    values[static_cast<std::size_t>(place)] = nan;
    CHECK(std::isnan(whole(max(distribute<Replicate>(mesh, Shape<1>{6}, values)))));
    CHECK(std::isnan(whole(max(distribute<Shard<0>>(mesh, Shape<1>{6}, values)))));
    const auto cut = distribute<Shard<1>>(mesh, Shape<2>{1, 6}, values);
    CHECK(std::isnan(whole(max(redistribute<Replicate>(max<1>(cut))))));
    Tape tape;
    const auto x = tape.input(redistribute<Shard<0>>(cut));
    const auto y = redistribute<Replicate>(sum(max<1>(x)));
    CHECK(std::isnan(item(y.value())));
    tape.backward(y);
    const auto gradient = redistribute<Replicate>(x.gradient());
    for (Index i = 0; i < 6; ++i) CHECK(gradient.data()[i] == (i == place ? 1 : 0));
  }
  CHECK(std::isnan(whole(max(full<double, Shard<0>>(mesh, {6}, nan)))));
}

TEST_CASE("norm") {
  const auto mesh = line();
  check(norm_middle, dense("norm", 1), random<double, Replicate>(mesh, {3, 7, 5}, 1));
  check(norm_middle, dense("norm", 1), random<double, Shard<0>>(mesh, {3, 7, 5}, 1));
  check(norm_middle, dense("norm", 1), random<double, Shard<2>>(mesh, {3, 7, 5}, 1));
  check(norm_all, dense("norm", -1), random<double, Reduced>(mesh, {3, 7}, 1));
  check(norm_all, dense("norm", -1), random<Eigen::bfloat16, Reduced>(mesh, {3, 7}, 1));
}

TEST_CASE("norm of a pending sum: reduced first") {
  const auto mesh = line();  // every rank holds [rank, 1]
  On1<1, Partial<>> x(mesh, {2});
  x.writable().data[0] = mesh.rank();
  x.writable().data[1] = 1;
  const double ranks = mesh.size();
  CHECK(item(norm(redistribute<Replicate>(x))) ==
        doctest::Approx(std::hypot(ranks * (ranks - 1) / 2, ranks)));  // 7.2111 on four
}

TEST_CASE("variance") {
  const auto mesh = line();
  const auto middle = [](const auto& x) { return variance<1>(x); };
  const auto end = [](const auto& x) { return variance<-1>(x); };
  const auto all = [](const auto& x) { return variance(x); };
  check(middle, dense("variance", 1), random<double, Replicate>(mesh, {3, 7, 5}, 1));
  check(middle, dense("variance", 1), random<double, Shard<0>>(mesh, {3, 7, 5}, 1));
  check(middle, dense("variance", 1), random<double, Shard<2>>(mesh, {3, 7, 300}, 1));
  check(end, dense("variance", 1), random<double, Shard<0>>(mesh, {5, 40}, 1));
  check(end, dense("variance", 1), random<Eigen::bfloat16, Shard<0>>(mesh, {5, 9}, 1));
  check(all, dense("variance", -1), random<double, Reduced>(mesh, {3, 7}, 1));
  const auto sample = [](const auto& x) { return variance<0>(x, 1); };
  check(
      sample,
      [](const Dense& x) {
        Dense y = dense("variance", 0)(x);
        for (double& value : y.values) value *= 7. / 6;
        return y;
      },
      random<double, Shard<1>>(mesh, {7, 3}, 1));
  check_operation(mesh, VarianceOp<0>{2}, Shape<2>{5, 3});
  CHECK_THROWS_WITH_AS(variance<0>(random<double, Shard<1>>(mesh, {1, 3}, 1), 1),
                       "variance: of 1 elements of [1 x 3], with a correction of 1, which must be less",
                       std::invalid_argument);
}
TEST_CASE("variance: far from 0") {
  On1<1, Replicate, float> x(line(), {4});
  for (Index i = 0; i < 4; ++i) x.writable().data[i] = static_cast<float>(1000000 + i);
  CHECK(item(variance(x)) == 1.25f);
  CHECK(item(variance(x, 1)) == doctest::Approx(5. / 3));  // the correction, not a dimension
}
static_assert(why_not<VarianceOp<0>, On1<2, Shard<0>>> ==
              Reason::operation_needs_this_dimension_whole_on_every_rank);
static_assert(why_not<VarianceOp<detail::all_dimensions>, On1<2, Shard<1>>> ==
              Reason::operation_needs_this_dimension_whole_on_every_rank);

template <class Of, int Dim, class P>
constexpr Reason why = why_not<ReductionOp<Of, Dim>, On1<2, P>>;
using detail::all_dimensions;
static_assert(std::is_same_v<result_of<ReductionOp<detail::SumOf, 0>, On1<2, Shard<1>>>, On1<1, Shard<0>>>);
static_assert(std::is_same_v<result_of<ReductionOp<detail::MeanOf, 0>, On1<2, Shard<0>>>, On1<1, Partial<>>>);
static_assert(
    std::is_same_v<result_of<ReductionOp<detail::MaxOf, 0>, On1<2, Shard<0>>>, On1<1, Partial<Max>>>);
static_assert(why<detail::NormOf, 0, Shard<0>> == Reason::contracted_blocks_have_no_pending_form);
static_assert(why<detail::NormOf, all_dimensions, Shard<0>> ==
              Reason::contracted_blocks_have_no_pending_form);
static_assert(why<detail::NormOf, 0, Shard<1>> == Reason::none);
static_assert(why<detail::NormOf, 0, Partial<>> ==
              Reason::operation_is_not_linear_so_it_needs_the_finished_sum);
static_assert(why<detail::MaxOf, 0, Partial<>> ==
              Reason::operation_is_not_linear_so_it_needs_the_finished_sum);
static_assert(why<detail::SumOfSquaresOf, 0, Partial<>> ==
              Reason::operation_is_not_linear_so_it_needs_the_finished_sum);
static_assert(why<detail::SumOf, 0, Partial<>> == Reason::none);
static_assert(why<detail::SumOf, 2, Replicate> == Reason::tensor_has_no_such_dimension);
static_assert(why<detail::SumOf, -3, Replicate> == Reason::tensor_has_no_such_dimension);
static_assert(why_not<ReductionOp<detail::MaxOf, 0>, Tracked1<2, Shard<0>>> ==
              Reason::gradient_of_a_pending_maximum_or_minimum_is_not_defined);

template <class X>
concept HasNorm = requires(X x) {
  norm(x);
};
template <class X>
concept HasNorm0 = requires(X x) {
  norm<0>(x);
};
template <class X>
concept HasMax = requires(X x) {
  max(x), max<0>(x);
};
template <class X>
concept HasSum = requires(X x) {
  sum(x), sum<0>(x), mean(x), mean<0>(x);
};
static_assert(HasNorm<On1<2, Reduced>> && !HasNorm<On1<2, Shard<1>>>);
static_assert(HasNorm0<On1<2, Shard<1>>> && !HasNorm0<On1<2, Shard<0>>>);
static_assert(HasMax<On1<2, Shard<0>>> && !HasMax<Tracked1<2, Shard<0>>> && HasMax<Tracked1<2, Replicate>>);
static_assert(HasSum<Tracked1<2, Partial<>>> && !HasSum<On1<2, Partial<Max>>>);
static_assert(!HasSum<On1<2, Reduced, std::int32_t>>, "reductions are of floating-point numbers");

}  // namespace
}  // namespace shardwise::testing::ops_reduction
