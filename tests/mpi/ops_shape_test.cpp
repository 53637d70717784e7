// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// `transpose`, `narrow` and `reshape`.

#include <shardwise/mesh/trace.hpp>
#include <shardwise/ops/arithmetic.hpp>
#include <shardwise/ops/narrow.hpp>
#include <shardwise/ops/reshape.hpp>
#include <shardwise/ops/transpose.hpp>

#include "ops_check.hpp"

namespace shardwise::testing::ops_shape {
namespace {

/// Dimensions a and b exchanged.
auto dense_transpose(std::size_t a, std::size_t b) {
  return [a, b](const Dense& x) {
    std::vector<Index> shape = x.shape;
    std::swap(shape[a], shape[b]);
    Dense y(shape);
    std::vector<Index> at(shape.size());
    for (Index i = 0; i < y.size(); ++i) {
      Index rest = i, from = 0;
      for (std::size_t dim = shape.size(); dim-- > 0; rest /= shape[dim]) at[dim] = rest % shape[dim];
      std::swap(at[a], at[b]);
      for (std::size_t dim = 0; dim < shape.size(); ++dim) from = from * x.shape[dim] + at[dim];
      y[i] = x[from];
    }
    return y;
  };
}
auto dense_reshape(std::vector<Index> shape) {
  return [shape](const Dense& x) {
    Dense y(shape);
    y.values = x.values;
    return y;
  };
}

/// Indices [begin, begin + length) of dimension 1 of three.
auto dense_narrow(Index begin, Index length) {
  return [=](const Dense& x) {
    Dense y({x.shape[0], length, x.shape[2]});
    for (Index i = 0; i < y.size(); ++i) {
      const Index column = i % x.shape[2], row = i / x.shape[2];
      y[i] = x[(row / length * x.shape[1] + begin + row % length) * x.shape[2] + column];
    }
    return y;
  };
}

const auto last_two = [](const auto& x) { return transpose(x); };
const auto outer_two = [](const auto& x) { return transpose<0, 1>(x); };
const auto ends = [](const auto& x) { return transpose<0, -1>(x); };

TEST_CASE("transpose") {
  const auto mesh = line();
  check(last_two, dense_transpose(0, 1), random<double, Replicate>(mesh, {7, 5}, 1));
  check(last_two, dense_transpose(0, 1), random<double, Shard<0>>(mesh, {7, 5}, 1));
  check(last_two, dense_transpose(0, 1), random<double, Shard<1>>(mesh, {7, 5}, 1));
  check(last_two, dense_transpose(0, 1), random<double, Partial<>>(mesh, {7, 5}, 1));
  check(last_two, dense_transpose(1, 2), random<double, Shard<1>>(mesh, {2, 7, 5}, 1));
  check(outer_two, dense_transpose(0, 1), random<double, Reduced>(mesh, {6, 7, 3}, 1));
  check(outer_two, dense_transpose(0, 1), random<double, Shard<0>>(mesh, {6, 7, 3}, 1));
  check(ends, dense_transpose(0, 2), random<double, Shard<2>>(mesh, {2, 3, 5}, 1));
  check(ends, dense_transpose(0, 2), random<Eigen::bfloat16, Shard<0>>(mesh, {6, 5, 3}, 1));
  check(ends, dense_transpose(0, 2), random<double, Shard<0>, Shard<2>>(grid(), {5, 3, 4}, 1));
}

TEST_CASE("narrow") {
  const auto mesh = line();
  const auto middle = [](const auto& x) { return narrow<1>(x, 2, 3); };
  const auto last = [](const auto& x) { return narrow<-2>(x, 6, 1); };
  check(middle, dense_narrow(2, 3), random<double, Replicate>(mesh, {3, 7, 5}, 1));
  check(middle, dense_narrow(2, 3), random<double, Shard<0>>(mesh, {3, 7, 5}, 1));
  check(middle, dense_narrow(2, 3), random<double, Shard<2>>(mesh, {3, 7, 5}, 1));
  check(middle, dense_narrow(2, 3), random<double, Partial<>>(mesh, {3, 7, 5}, 1));
  check(last, dense_narrow(6, 1), random<double, Reduced>(mesh, {3, 7, 5}, 1));
  check(last, dense_narrow(6, 1), random<float, Shard<0>, Shard<2>>(grid(), {3, 7, 5}, 1));
  const auto x = random<double, Replicate>(mesh, {3, 7, 5}, 1);
  CHECK_THROWS_WITH_AS(narrow<1>(x, 5, 3), "narrow: 5 to 8 is not within dimension 1 of [3 x 7 x 5]",
                       std::invalid_argument);
  CHECK_THROWS_AS(narrow<0>(x, -1, 2), std::invalid_argument);
  CHECK(narrow<0>(x, 3, 0).shape() == Shape<3>{0, 7, 5});
}

/// Shards at one end of a matrix.
template <class T, class... P>
void check_reshape(const auto& mesh) {
  const auto x = random<T, P...>(mesh, {6, 4, 5}, 1);
  check([](const auto& v) { return reshape(v, {6, 20}); }, dense_reshape({6, 20}), x);
  check([](const auto& v) { return reshape(v, {6, 2, 2, 5}); }, dense_reshape({6, 2, 2, 5}), x);
}

TEST_CASE("reshape: the placements stay") {
  const auto mesh = line();
  check_reshape<double, Replicate>(mesh);
  check_reshape<double, Reduced>(mesh);
  check_reshape<double, Partial<>>(mesh);
  check_reshape<double, Shard<0>>(mesh);
  check_reshape<Eigen::bfloat16, Shard<0>>(mesh);
  check_reshape<double, Shard<0>, Shard<0>>(grid());
}

TEST_CASE("reshape: another dimension is sharded") {
  const auto mesh = line();
  check(
      [](const auto& v) {
        return reshape<Shard<1>>(v, {2, 7, 3});
      },
      dense_reshape({2, 7, 3}), random<double, Shard<2>>(mesh, {1, 2, 7, 3}, 1));
  check(
      [](const auto& v) {
        return reshape<Shard<2>>(v, {2, 3, 7});
      },
      dense_reshape({2, 3, 7}), random<double, Shard<1>>(mesh, {6, 7}, 1));
  // Attention: [batch, sequence, heads · dim] and heads that the ranks share evenly.
  const Index heads = 2 * mesh.size();
  check(
      [=](const auto& v) {
        return reshape(v, {2, 3, heads, 4});
      },
      dense_reshape({2, 3, heads, 4}), random<double, Shard<2>>(mesh, {2, 3, heads * 4}, 1));
  check(
      [](const auto& v) {
        return reshape<Shard<0>, Shard<2>>(v, {2, 3, 7});
      },
      dense_reshape({2, 3, 7}), random<double, Shard<0>, Shard<1>>(grid(), {6, 7}, 1));
  // Two axes that cut one dimension may come to cut two.
  const auto two = grid();
  if (two.size<tp>() <= 2) {
    check(
        [](const auto& v) {
          return reshape<Shard<0>, Shard<1>>(v, {2, 4, 3});
        },
        dense_reshape({2, 4, 3}), random<double, Shard<0>, Shard<0>>(two, {8, 3}, 1));
  }
}

TEST_CASE("reshape: the memory is shared, forward and backward") {
  const auto mesh = line();
  Tape tape;
  const auto x = tape.input(random<double, Shard<0>>(mesh, {8, 6}, 1));
  Recording recording(mesh);
  const auto y = reshape(x, {8, 2, 3});
  CHECK(y.value().data() == x.value().data());
  const auto dy = random<double, Shard<0>>(mesh, {8, 2, 3}, 2);
  arrive(tape, y, dy);
  go_back(tape, mesh);
  CHECK(x.gradient().data() == dy.data());
  CHECK(recording.plan().flops() == 0);
}

TEST_CASE("reshape: blocks that would move") {
  const auto mesh = line();
  const auto x = random<double, Shard<1>>(mesh, {12, 8}, 1);
  auto message = [](auto f) { return message_of<std::invalid_argument>(f); };
  const std::string said = message([&] { reshape(x, {16, 6}); });
  if (mesh.size() == 1) {
    CHECK(said.empty());
  } else {
    CHECK(said ==
          "reshape: [12 x 8] cannot become [16 x 6] without moving data, sharded as it is: dimension 1 over "
          "the " +
              std::to_string(mesh.size()) +
              " ranks of tp, then dimension 1; redistribute to Replicate there first");
  }
  const bool alone = mesh.size() == 1;
  CHECK(message([&] { reshape<Shard<0>>(x, {16, 6}); }).empty() == alone);
  CHECK(message([&] { reshape<Shard<0>>(x, {96}); }).empty() == alone);
  CHECK(message([&] { reshape<Shard<0>>(x, {8, 12}); }).empty() == alone);
  // As many elements on every rank, but others.
  CHECK(message([&] {
          reshape<Shard<0>>(random<double, Shard<1>>(mesh, {12, 12}, 1), {12, 12});
        }).empty() == alone);
  // Joined in threes, the rows are shared out otherwise from three ranks on; cut apart, from four.
  const auto rows = random<double, Shard<0>>(mesh, {6, 2}, 1);
  CHECK(message([&] { reshape(rows, {2, 6}); }).empty() == (mesh.size() <= 2));
  CHECK(message([&] { reshape(rows, {12}); }).empty() ==
        (mesh.size() <= 3));  // 4, 4, 2, 2 are not 3, 3, 3, 3
  CHECK(message([&] { reshape(random<double, Shard<0>>(mesh, {5, 2}, 1), {10}); }).empty() == alone);
  CHECK(message([&] { reshape(x, {16, 7}); }) == "reshape: [12 x 8] has 96 elements, but [16 x 7] has 112");
  CHECK(message([&] { reshape(x, {-12, -8}); }) == "reshape: an extent is negative in [-12 x -8]");
}

/// Against every rank's list of the elements that it holds: for all ways to write 24 elements.
constexpr bool same_elements(int ranks, const Shape<2>& a, int dim_a, const Shape<3>& b, int dim_b) {
  for (int rank = 0; rank < ranks; ++rank) {
    const auto box_a = local_box(a, Layout{shard(dim_a)}, {ranks, 1, 1, 1}, {rank});
    const auto box_b = local_box(b, Layout{shard(dim_b)}, {ranks, 1, 1, 1}, {rank});
    if (box_a.elements() != box_b.elements()) return false;
    for (Index i = 0; i < box_a.elements(); ++i) {
      const Index of_a = (box_a.begin[0] + i / box_a.size[1]) * a[1] + box_a.begin[1] + i % box_a.size[1];
      const Index plane = box_b.size[1] * box_b.size[2];
      const Index of_b =
          ((box_b.begin[0] + i / plane) * b[1] + box_b.begin[1] + i % plane / box_b.size[2]) * b[2] +
          box_b.begin[2] + i % box_b.size[2];
      if (of_a != of_b) return false;
    }
  }
  return true;
}
TEST_CASE("reshape: legal just where no element moves") {
  int legal = 0, illegal = 0;
  for (int ranks = 1; ranks <= 5; ++ranks) {
    for (Index rows = 1; rows <= 24; ++rows) {
      for (Index outer = 1; outer <= 24; ++outer) {
        for (Index middle = 1; middle <= 24; ++middle) {
          if (24 % rows != 0 || 24 % outer != 0 || 24 / outer % middle != 0) continue;
          const Shape<2> a{rows, 24 / rows};
          const Shape<3> b{outer, middle, 24 / outer / middle};
          for (int dim_a = 0; dim_a < 2; ++dim_a) {
            for (int dim_b = 0; dim_b < 3; ++dim_b) {
              const bool expected = same_elements(ranks, a, dim_a, b, dim_b);
              const bool found = detail::reshape_is_local({ranks, 1, 1, 1}, a, Layout{shard(dim_a)}, b,
                                                          Layout{shard(dim_b)});
              if (found != expected) FAIL_CHECK(ranks << ' ' << rows << ' ' << outer << ' ' << middle);
              ++(found ? legal : illegal);
            }
          }
        }
      }
    }
  }
  CHECK(legal > 500);
  CHECK(illegal > 500);
}

template <class X, int Rank, class... P>
constexpr Reason why_no_reshape = [] {
  using Result = reshaped<X, Rank, P...>;
  if constexpr (IllFormed<Result>) {
    return reason_of<Result>;
  } else {
    return Reason::none;
  }
}();
constexpr Reason lost = Reason::reshape_cannot_keep_this_dimension_sharded;
static_assert(why_no_reshape<On1<2, Shard<1>>, 2> == Reason::none);
static_assert(why_no_reshape<On1<2, Shard<1>>, 1> == lost);  // there is no dimension 1 any more
static_assert(why_no_reshape<On1<2, Shard<1>>, 1, Shard<0>> == Reason::none);
static_assert(why_no_reshape<On1<2, Shard<1>>, 2, Replicate> == lost);
static_assert(why_no_reshape<On1<2, Replicate>, 2, Shard<0>> == lost);
static_assert(why_no_reshape<On1<2, Replicate>, 2, Reduced> == lost);
static_assert(why_no_reshape<On1<2, Partial<>>, 2, Replicate> == lost);
static_assert(why_no_reshape<On1<2, Partial<>>, 3> == Reason::none);
static_assert(why_no_reshape<On1<2, Replicate>, 2, Replicate, Replicate> ==
              Reason::one_placement_per_mesh_axis_is_needed);
static_assert(why_no_reshape<Tracked1<2, Partial<Max>>, 3> ==
              Reason::gradient_of_a_pending_maximum_or_minimum_is_not_defined);
static_assert(why_not<TransposeOp<0, 2>, On1<2, Replicate>> == Reason::tensor_has_no_such_dimension);
static_assert(why_not<TransposeOp<-2, -1>, On1<2, Partial<Max>>> ==
              Reason::pending_maximum_or_minimum_must_be_reduced_first);

template <class X>
concept Flattens = requires(X x) {
  reshape(x, {24});
};
static_assert(Flattens<On1<2, Shard<0>>> && !Flattens<On1<2, Shard<1>>>);
template <class X>
concept Transposes = requires(X x) {
  transpose(x);
};
static_assert(Transposes<On1<2, Shard<0>>> && !Transposes<On1<1, Shard<0>>>);

/// In the compiler: neither bytes nor flops nor calls.
constexpr auto plan = trace<Mesh<dp, tp>>({2, 4}, [](auto mesh) {
  Tape tape;
  auto x = tape.input(empty<float, Shard<0>, Shard<2>>(mesh, {4, 6, 32}));
  auto y = reshape<Shard<0>, Shard<1>>(reshape(x, {4, 6, 8, 4}), {24, 32});
});
static_assert(plan.flops() == 0 && plan.collectives() == 0);
static_assert(plan.peak_activation_bytes() == 2 * 6 * 8 * 4);

}  // namespace
}  // namespace shardwise::testing::ops_shape
