// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// `redistribute` as a user calls it, on tensors of one mesh axis: every pair of placements, at once and
/// asynchronously, and the pullback through a tape: values, and the collectives of both directions.

#include <shardwise/autograd/redistribute.hpp>
#include <support/typed_redistribution.hpp>

#include <cstdint>

namespace shardwise::testing::redistribute {
namespace sw = shardwise;
using sw::any;
using sw::Partial;
using sw::Reduced;
using sw::Replicate;
using sw::Shard;
using sw::tp;

namespace {

using Mesh = sw::Mesh<tp>;
template <class... P>
struct List {};

// All pairs of the list, on a tensor of this shape.
template <class T, int Rank, class... P>
void all_pairs(List<P...>, const sw::Shape<Rank>& shape) {
  const Mesh mesh(sw::world(), {any});
  auto from = [&]<class From>(From) { (check_typed<T, Rank, List<From>, List<P>>(mesh, shape), ...); };
  (from(P{}), ...);
}

}  // namespace

TEST_CASE("vectors") {
  using All = List<Shard<0>, Replicate, Reduced, Partial<>, Partial<sw::Max>, Partial<sw::Min>>;
  all_pairs<float, 1>(All{}, {13});
  all_pairs<float, 1>(All{}, {2});
}

TEST_CASE("matrices") {
  using All = List<Shard<0>, Shard<1>, Replicate, Reduced, Partial<>>;
  all_pairs<double, 2>(All{}, {5, 3});
  all_pairs<double, 2>(All{}, {8, 12});
}

TEST_CASE("three and four dimensions") {
  all_pairs<float, 3>(List<Shard<0>, Shard<1>, Shard<2>, Reduced, Partial<>>{}, {7, 1, 5});
  all_pairs<float, 4>(List<Shard<0>, Shard<3>, Partial<>>{}, {3, 2, 5, 2});
}

TEST_CASE("integers and bfloat16") {
  all_pairs<std::int32_t, 2>(List<Shard<0>, Shard<1>, Replicate>{}, {5, 3});
  if (sw::world().size() > 32) return;  // sums of more are not whole in bfloat16
  all_pairs<Eigen::bfloat16, 2>(List<Shard<0>, Shard<1>, Reduced, Partial<>>{}, {5, 3});
}

TEST_CASE("several redistributions can be under way at once") {
  const Mesh mesh(sw::world(), {any});
  const sw::Shape<2> shape{9, 6};
  auto x = typed_source<sw::Tensor<float, 2, Mesh, Shard<0>>>(mesh, shape, 1);
  auto p = typed_source<sw::Tensor<float, 2, Mesh, Partial<>>>(mesh, shape, 2);
  auto a = sw::redistribute_async<tp, Replicate>(x);
  auto b = sw::redistribute_async<tp, Shard<1>>(p);
  auto c = sw::redistribute_async<Shard<1>>(x);
  auto d = sw::redistribute_async<Reduced>(std::move(p));
  {
    auto abandoned = sw::redistribute_async<Replicate>(x);  // its destructor waits
  }
  CHECK(holds(d.wait(), sw::layout_of<Partial<>>, 2));
  CHECK(holds(c.wait(), sw::layout_of<Shard<0>>, 1));
  CHECK(holds(b.wait(), sw::layout_of<Partial<>>, 2));
  CHECK(holds(a.wait(), sw::layout_of<Shard<0>>, 1));
  CHECK_THROWS_WITH_AS(a.wait(), "InFlight: wait() was called a second time", std::logic_error);
  auto moved_to = std::move(a);
  // NOLINTNEXTLINE(bugprone-use-after-move)
  CHECK_THROWS_WITH_AS(a.wait(), "InFlight: it was moved from", std::logic_error);
}

TEST_CASE("a pending sum is reduced in place if nobody else holds it, and only then") {
  const Mesh mesh(sw::world(), {any});
  if (mesh.size() == 1) return;
  auto p = typed_source<sw::Tensor<float, 1, Mesh, Partial<>>>(mesh, {100}, 3);
  const float* block = p.view().data;
  const float first = block[0];
  auto kept = sw::redistribute<tp, Replicate>(p);
  CHECK(kept.data() != block);
  CHECK(p.view().data[0] == first);
  auto same = sw::redistribute<tp, Replicate>(std::move(p));
  CHECK(same.data() == block);
  CHECK(holds(same, sw::layout_of<Partial<>>, 3));
}

TEST_CASE("a change of type alone shares the block") {
  const Mesh mesh(sw::world(), {any});
  auto x = typed_source<sw::Tensor<float, 1, Mesh, Replicate>>(mesh, {10}, 3);
  CHECK(sw::redistribute<tp, Reduced>(x).data() == x.data());
  CHECK(sw::redistribute<tp, Replicate>(x).data() == x.data());
}

TEST_CASE("a gradient of a copy is the slice, of a reduced copy the sum") {
  const Mesh mesh(sw::world(), {any});
  if (mesh.size() == 1) return;
  using Rows = sw::Tensor<float, 2, Mesh, Shard<0>>;
  using Sum = sw::Tensor<float, 2, Mesh, Partial<>>;
  // Forward and backward collectives of the four rows that are the whole theory.
  CHECK(collectives<Rows, Replicate>(mesh, {13, 3}) == "all_gather 1 / ");
  CHECK(collectives<Rows, Reduced>(mesh, {13, 3}) == "all_gather 1 / reduce_scatter 1");
  CHECK(collectives<Sum, Replicate>(mesh, {13, 3}) == "all_reduce 1 / ");
  CHECK(collectives<Sum, Reduced>(mesh, {13, 3}) == "all_reduce 1 / all_reduce 1");
  CHECK(collectives<Sum, Shard<1>>(mesh, {13, 3}) == "reduce_scatter 1 / all_gather 1");
  CHECK(collectives<Rows, Shard<1>>(mesh, {13, 3}) == "all_to_all 1 / all_to_all 1");
  CHECK(collectives<Rows, Shard<0>>(mesh, {13, 3}) == " / ");
  CHECK(collectives<sw::Tensor<float, 2, Mesh, Replicate>, Reduced>(mesh, {13, 3}) == " / all_reduce 1");
  CHECK(collectives<sw::Tensor<float, 2, Mesh, Replicate>, Shard<0>>(mesh, {13, 3}) == " / all_gather 1");
  CHECK(collectives<sw::Tensor<float, 2, Mesh, Reduced>, Shard<0>>(mesh, {13, 3}) == " / ");
}

}  // namespace shardwise::testing::redistribute
