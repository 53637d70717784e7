// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// `cat`, `stack`, `index_select`, `argmax` and `one_hot`.

#include <shardwise/mesh/trace.hpp>
#include <shardwise/ops/argmax.hpp>
#include <shardwise/ops/cat.hpp>
#include <shardwise/ops/check_operation.hpp>
#include <shardwise/ops/index_select.hpp>
#include <shardwise/ops/one_hot.hpp>

#include "ops_check.hpp"

namespace shardwise::testing::ops_select {
namespace {

/// The product of the extents in [first, last).
Index extent(const Dense& x, std::size_t first, std::size_t last) {
  Index product = 1;
  for (std::size_t dim = first; dim < last; ++dim) product *= x.extent(dim);
  return product;
}

/// Element by element: `shape`, and dimension `dim` of the parts, one after the other.
Dense dense_joined(std::vector<Index> shape, std::size_t dim, const std::vector<Dense>& parts) {
  Dense y(std::move(shape));
  const Index inner = extent(y, dim + 1, y.shape.size()), n = y.extent(dim);
  for (Index i = 0; i < y.size(); ++i) {
    Index at = i / inner % n;
    for (const Dense& part : parts) {
      const Index own = part.size() / (y.size() / n);
      if (at < own) {
        y[i] = part[(i / (inner * n) * own + at) * inner + i % inner];
        break;
      }
      at -= own;
    }
  }
  return y;
}
auto dense_cat(std::size_t dim) {
  return [dim](const auto&... x) {
    std::vector<Dense> parts{x...};
    std::vector<Index> shape = parts[0].shape;
    shape[dim] = (x.extent(dim) + ...);
    return dense_joined(shape, dim, parts);
  };
}
auto dense_stack(std::size_t dim) {
  return [dim](const auto&... x) {
    std::vector<Dense> parts{x...};
    std::vector<Index> shape = parts[0].shape;
    shape.insert(shape.begin() + static_cast<std::ptrdiff_t>(dim), sizeof...(x));
    return dense_joined(shape, dim, parts);
  };
}

const auto rows = [](const auto&... x) { return cat<0>(x...); };
const auto columns = [](const auto&... x) { return cat<-1>(x...); };
const auto first = [](const auto&... x) { return stack<0>(x...); };
const auto middle = [](const auto&... x) { return stack<1>(x...); };
const auto last = [](const auto&... x) { return stack<-1>(x...); };

template <class T, class P>
void check_cat(const auto& mesh) {
  check(columns, dense_cat(1), random<T, P>(mesh, {5, 3}, 1), random<T, P>(mesh, {5, 2}, 2));
}

TEST_CASE("cat") {
  const auto mesh = line();
  const auto two = grid();
  check_cat<double, Replicate>(mesh);
  check_cat<double, Reduced>(mesh);
  check_cat<double, Shard<0>>(mesh);
  check_cat<double, Partial<>>(mesh);
  check_cat<Eigen::bfloat16, Shard<0>>(mesh);
  check(rows, dense_cat(0), random<double, Shard<1>>(mesh, {2, 5}, 1),
        random<double, Shard<1>>(mesh, {1, 5}, 2), random<double, Shard<1>>(mesh, {0, 5}, 3),
        random<double, Shard<1>>(mesh, {4, 5}, 4));
  check(rows, dense_cat(0), random<double, Replicate>(mesh, {3}, 1));
  check(rows, dense_cat(0), random<double, Shard<2>, Shard<1>>(two, {2, 3, 5}, 1),
        random<double, Shard<2>, Shard<1>>(two, {1, 3, 5}, 2));
  check_value(columns, dense_cat(1), random_ids<std::int32_t, Shard<0>>(mesh, {5, 3}, 9, 1),
              random_ids<std::int32_t, Shard<0>>(mesh, {5, 1}, 9, 2));
  check_operation(mesh, CatOp<1, false>(), Shape<2>{3, 2}, Shape<2>{3, 1});
  const auto x = random<double, Replicate>(mesh, {4, 3}, 1);
  CHECK_THROWS_WITH_AS(cat<0>(x, random<double, Replicate>(mesh, {4, 2}, 1)),
                       "cat: the operands [4 x 3] and [4 x 2] do not fit: dimension 1 of operand 0 has 3 "
                       "elements, dimension 1 of operand 1 has 2",
                       std::invalid_argument);
  // One operand twice, and another that gets no gradient.
  Tape tape;
  const auto v = tape.input(x);
  tape.backward(cat<0>(v, tape.constant(x), v), random<double, Replicate>(mesh, {12, 3}, 5));
  const Dense dy = random_dense({12, 3}, 5);
  for (Index i = 0; i < 12; ++i) CHECK(v.gradient().data()[i] == dy[i] + dy[24 + i]);
}

TEST_CASE("stack") {
  const auto mesh = line();
  const auto a = random<double, Shard<0>>(mesh, {5, 3}, 1), b = random<double, Shard<0>>(mesh, {5, 3}, 2);
  check(first, dense_stack(0), a, b);
  check(middle, dense_stack(1), a, b, a);
  check(last, dense_stack(2), a, b, a, b);
  check(middle, dense_stack(1), random<double, Partial<>>(mesh, {2, 3}, 1),
        random<double, Partial<>>(mesh, {2, 3}, 2));
  check(last, dense_stack(0), place<On1<0, Replicate>>(mesh, random_dense({}, 1)),
        place<On1<0, Replicate>>(mesh, random_dense({}, 2)));
  check_operation(mesh, CatOp<-2, true>(), Shape<2>{3, 2}, Shape<2>{3, 2});
  static_assert(std::is_same_v<decltype(stack<0>(a)), On1<3, Shard<1>>>);
  CHECK_THROWS_AS(stack<0>(a, random<double, Shard<0>>(mesh, {5, 2}, 1)), std::invalid_argument);
}

static_assert(why_not<CatOp<0, false>, On1<2, Shard<0>>, On1<2, Shard<0>>> ==
              Reason::operation_needs_this_dimension_whole_on_every_rank);
static_assert(why_not<CatOp<0, false>, On1<2, Shard<1>>, On1<2, Replicate>> ==
              Reason::dimension_sharded_on_one_side_only);
static_assert(why_not<CatOp<0, false>, On1<2, Partial<>>, On1<2, Replicate>> ==
              Reason::pending_sum_meets_a_finished_value);
static_assert(why_not<CatOp<0, false>, On1<2, Replicate>, On1<1, Replicate>> ==
              Reason::operands_do_not_fit_in_rank);
static_assert(why_not<CatOp<0, true>, On1<max_rank, Replicate>> == Reason::operands_do_not_fit_in_rank);

/// Dimension `dim` of x at the ids.
auto dense_select(std::size_t dim) {
  return [dim](const Dense& x, const Dense& ids) {
    std::vector<Index> shape = x.shape;
    shape[dim] = ids.size();
    Dense y(shape);
    const Index inner = extent(x, dim + 1, x.shape.size()), n = x.extent(dim), k = ids.size();
    for (Index i = 0; i < y.size(); ++i)
      y[i] = x[(i / (inner * k) * n + static_cast<Index>(ids[i / inner % k])) * inner + i % inner];
    return y;
  };
}

template <class P, class Ids>
void check_select(const auto& mesh) {
  const auto x = random<double, P>(mesh, {3, 5, 2}, 1);
  const auto ids = random_ids<std::int64_t, Ids>(mesh, {7}, 5, 2);
  check([](const auto& a, const auto& i) { return index_select<1>(a, i); }, dense_select(1), x, ids);
}

TEST_CASE("index_select") {
  const auto mesh = line();
  const auto two = grid();
  check_select<Replicate, Replicate>(mesh);
  check_select<Replicate, Reduced>(mesh);
  check_select<Reduced, Replicate>(mesh);
  check_select<Reduced, Shard<0>>(mesh);
  check_select<Shard<0>, Replicate>(mesh);
  check_select<Shard<1>, Replicate>(mesh);
  check_select<Shard<2>, Reduced>(mesh);
  check_select<Partial<>, Replicate>(mesh);
  const auto ids = random_ids<std::int32_t, Shard<0>, Replicate>(two, {7}, 5, 2);
  check([](const auto& a, const auto& i) { return index_select<-1>(a, i); }, dense_select(1),
        random<double, Reduced, Shard<0>>(two, {6, 5}, 1), ids);
  check_value([](const auto& a, const auto& i) { return index_select<0>(a, i); }, dense_select(0),
              random_ids<std::int64_t, Replicate>(mesh, {4, 3}, 100, 1),
              random_ids<std::int32_t, Replicate>(mesh, {5}, 4, 2));
  Dense wrong({3});
  wrong[2] = 5;
  CHECK_THROWS_WITH_AS(index_select<1>(random<double, Replicate>(mesh, {3, 5}, 1),
                                       place<On1<1, Replicate, std::int32_t>>(mesh, wrong)),
                       "index_select: index 5 at 2 is outside dimension 1 of [3 x 5]", std::out_of_range);
}

auto dense_argmax(std::size_t dim) {
  return [dim](const Dense& x) {
    std::vector<Index> shape = x.shape;
    shape.erase(shape.begin() + static_cast<std::ptrdiff_t>(dim));
    Dense y(shape);
    const Index inner = extent(x, dim + 1, x.shape.size()), n = x.extent(dim);
    for (Index i = 0; i < y.size(); ++i) {
      const auto at = [&](Index k) { return x[(i / inner * n + k) * inner + i % inner]; };
      for (Index k = 1; k < n; ++k) {
        if (at(k) > at(static_cast<Index>(y[i]))) y[i] = static_cast<double>(k);
      }
    }
    return y;
  };
}

TEST_CASE("argmax") {
  const auto mesh = line();
  const auto two = grid();
  const auto end = [](const auto& x) { return argmax<-1>(x); };
  const auto begin = [](const auto& x) { return argmax<0>(x); };
  const auto inside = [](const auto& x) { return argmax<1>(x); };
  check_value(end, dense_argmax(1), random<double, Replicate>(mesh, {5, 9}, 1));
  check_value(end, dense_argmax(1), random<Eigen::bfloat16, Shard<0>>(mesh, {5, 9}, 1));
  check_value(begin, dense_argmax(0), random<float, Shard<1>>(mesh, {4, 6}, 2));
  check_value(inside, dense_argmax(1), random<double, Shard<0>, Shard<2>>(two, {3, 6, 4}, 2));
  check_value(begin, dense_argmax(0), random<double, Reduced>(mesh, {11}, 2));
  // Of equal ones the first counts.
  check_value(inside, dense_argmax(1), random_ids<std::int32_t, Shard<0>>(mesh, {7, 20}, 3, 1));
  Dense numbers({4});
  numbers[1] = 3;
  numbers[2] = NAN;
  CHECK(item(argmax<0>(place<On1<1, Replicate>>(mesh, numbers))) == 2);
  CHECK_THROWS_WITH_AS(argmax<1>(random<double, Replicate>(mesh, {3, 0}, 1)),
                       "argmax: dimension 1 of [3 x 0] has no elements", std::invalid_argument);
  CHECK(argmax<1>(random<double, Replicate>(mesh, {0, 3}, 1)).shape() == Shape<1>{0});
}
static_assert(std::is_same_v<decltype(argmax<0>(std::declval<Tracked1<2, Shard<1>>>())),
                             Var<On1<1, Shard<0>, std::int64_t>, false>>);
static_assert(std::is_same_v<result_of<ArgmaxOp<0>, Abstract<On1<2, Reduced>, true, true>>,
                             Abstract<On1<1, Reduced, std::int64_t>, true, false>>);
static_assert(why_not<ArgmaxOp<0>, On1<2, Shard<0>>> ==
              Reason::operation_needs_this_dimension_whole_on_every_rank);
static_assert(why_not<ArgmaxOp<0>, On1<2, Partial<>>> ==
              Reason::operation_is_not_linear_so_it_needs_the_finished_sum);

Dense dense_one_hot(const Dense& ids) {
  std::vector<Index> shape = ids.shape;
  shape.push_back(6);
  Dense y(shape);
  for (Index i = 0; i < ids.size(); ++i) y[i * 6 + static_cast<Index>(ids[i])] = 1;
  return y;
}

TEST_CASE("one_hot") {
  const auto mesh = line();
  const auto two = grid();
  const auto floats = [](const auto& ids) { return one_hot<float>(ids, 6); };
  const auto whole = [](const auto& ids) { return one_hot<std::int32_t>(ids, 6); };
  const auto brief = [](const auto& ids) { return one_hot<Eigen::bfloat16>(ids, 6); };
  check_value(floats, dense_one_hot, random_ids<std::int64_t, Replicate>(mesh, {3, 4}, 6, 1));
  check_value(floats, dense_one_hot, random_ids<std::int32_t, Shard<1>>(mesh, {3, 5}, 6, 1));
  check_value(whole, dense_one_hot, random_ids<std::int32_t, Shard<0>>(mesh, {5}, 6, 1));
  check_value(brief, dense_one_hot, random_ids<std::int32_t, Shard<0>, Reduced>(two, {5}, 6, 1));
  Dense ids({3});
  ids[1] = 6;
  const auto x = place<On1<1, Reduced, std::int32_t>>(mesh, ids);
  static_assert(std::is_same_v<decltype(one_hot<float>(x, 6)), On1<2, Reduced, float>>);
  CHECK_THROWS_WITH_AS(one_hot<float>(x, 6), "one_hot: 6 at [1] is not one of the 6 classes",
                       std::out_of_range);
  CHECK_THROWS_AS(one_hot<float>(x, -1), std::invalid_argument);
}
static_assert(why_not<OneHotOp<float>, On1<1, Replicate>> == Reason::operand_must_hold_integers);

/// A step without data, in the compiler.
constexpr auto plan = trace<Mesh<tp>>({2}, [](auto mesh) {
  const On1<2, Shard<0>> x(mesh, {5, 3});
  Tape tape;
  const auto v = tape.input(x);
  const auto ids = tape.constant(On1<1, Reduced, std::int64_t>(mesh, {4}));
  const auto y = cat<1>(v, index_select<1>(v, ids), tape.constant(one_hot<double>(argmax<1>(x), 2)));
  tape.backward(stack<0>(y, y), On1<3, Shard<1>>(mesh, {2, 5, 9}));
});
static_assert(plan.collectives() == 0);

}  // namespace
}  // namespace shardwise::testing::ops_select
