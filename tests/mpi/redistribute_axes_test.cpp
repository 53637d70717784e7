// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// `redistribute` on tensors of two and three mesh axes, where the change is a route of several steps, or one
/// merged step; among them the cases that other libraries get wrong or pay too much for.

#include <shardwise/tensor/distribute.hpp>
#include <support/typed_redistribution.hpp>

#include <utility>

namespace shardwise::testing::redistribute_axes {
namespace sw = shardwise;
using sw::dp;
using sw::Index;
using sw::Partial;
using sw::pp;
using sw::Reduced;
using sw::Replicate;
using sw::Shard;
using sw::tp;

namespace {

using Mesh = sw::Mesh<dp, tp>;
using Cube = sw::Mesh<dp, pp, tp>;
template <class... P>
struct L {};
template <class From, class To>
struct Change {};

// Every mesh of two axes that this job can make.
std::vector<Mesh> meshes() {
  const int ranks = sw::world().size();
  std::vector<Mesh> all{Mesh(sw::world(), {1, ranks})};
  if (ranks > 1) all.emplace_back(sw::world(), Mesh::SizesOf{ranks, 1});
  if (ranks == 4) all.emplace_back(sw::world(), Mesh::SizesOf{2, 2});
  return all;
}

template <class T, int Rank, class MeshType, class... From, class... To>
void check(const MeshType& mesh, const sw::Shape<Rank>& shape, L<Change<From, To>...>) {
  (check_typed<T, Rank, From, To>(mesh, shape), ...);
}

}  // namespace

TEST_CASE("two axes, matrices") {
  using Changes = L<Change<L<Shard<0>, Shard<0>>, L<Replicate, Replicate>>,    //
                    Change<L<Shard<0>, Shard<0>>, L<Replicate, Reduced>>,      //
                    Change<L<Shard<0>, Shard<0>>, L<Shard<1>, Shard<1>>>,      //
                    Change<L<Shard<0>, Shard<0>>, L<Replicate, Shard<0>>>,     //
                    Change<L<Shard<0>, Shard<1>>, L<Shard<1>, Shard<0>>>,      //
                    Change<L<Shard<0>, Shard<1>>, L<Shard<0>, Shard<0>>>,      //
                    Change<L<Replicate, Shard<0>>, L<Shard<0>, Shard<0>>>,     //
                    Change<L<Replicate, Shard<0>>, L<Shard<0>, Replicate>>,    //
                    Change<L<Partial<>, Partial<>>, L<Replicate, Replicate>>,  //
                    Change<L<Partial<>, Partial<>>, L<Shard<0>, Shard<0>>>,    //
                    Change<L<Partial<>, Partial<>>, L<Shard<1>, Reduced>>,     //
                    Change<L<Partial<>, Shard<0>>, L<Shard<0>, Partial<>>>,    //
                    Change<L<Shard<0>, Partial<>>, L<Shard<0>, Shard<0>>>,     //
                    Change<L<Partial<>, Shard<0>>, L<Shard<0>, Shard<0>>>,     //
                    Change<L<Partial<>, Shard<1>>, L<Reduced, Reduced>>,       //
                    Change<L<Reduced, Shard<1>>, L<Partial<>, Shard<0>>>,      //
                    Change<L<Partial<sw::Max>, Shard<1>>, L<Shard<1>, Replicate>>>;
  for (const Mesh& mesh : meshes()) {
    check<float, 2>(mesh, {5, 3}, Changes{});
    check<float, 2>(mesh, {16, 4}, Changes{});
  }
}

TEST_CASE("two axes, vectors and more dimensions") {
  for (const Mesh& mesh : meshes()) {
    check<double, 1>(mesh, {13},
                     L<Change<L<Shard<0>, Shard<0>>, L<Shard<0>, Reduced>>,    //
                       Change<L<Partial<>, Shard<0>>, L<Shard<0>, Shard<0>>>,  //
                       Change<L<Reduced, Partial<>>, L<Shard<0>, Shard<0>>>>{});
    check<float, 3>(mesh, {7, 1, 5},
                    L<Change<L<Shard<0>, Shard<2>>, L<Shard<2>, Shard<2>>>,  //
                      Change<L<Partial<>, Shard<1>>, L<Shard<2>, Shard<0>>>>{});
    check<float, 4>(mesh, {3, 2, 5, 2}, L<Change<L<Shard<2>, Partial<>>, L<Shard<3>, Shard<2>>>>{});
  }
}

TEST_CASE("three axes") {
  const int ranks = sw::world().size();
  for (auto [a, b, c] : {std::array{2, 2, 1}, {2, 1, 2}, {1, 2, 2}, {1, ranks, 1}}) {
    if (a * b * c != ranks) continue;
    check<float, 2>(Cube(sw::world(), {a, b, c}), {9, 7},
                    L<Change<L<Shard<0>, Shard<0>, Shard<0>>, L<Shard<1>, Shard<1>, Shard<1>>>,    //
                      Change<L<Shard<0>, Shard<1>, Shard<0>>, L<Replicate, Shard<1>, Shard<0>>>,   //
                      Change<L<Partial<>, Reduced, Partial<>>, L<Reduced, Reduced, Replicate>>,    //
                      Change<L<Partial<>, Shard<1>, Partial<>>, L<Shard<1>, Replicate, Reduced>>,  //
                      Change<L<Shard<1>, Partial<>, Shard<1>>, L<Partial<>, Shard<1>, Shard<0>>>>{});
  }
}

TEST_CASE("an uneven doubly sharded dimension is gathered whole") {
  // PyTorch's DTensor 2.13 loses the last row here (pytorch #194457).
  if (sw::world().size() != 4) return;
  const Mesh mesh(sw::world(), {2, 2});
  sw::RowMajorMatrix<float> whole(5, 3);
  for (Index i = 0; i < 15; ++i) whole(i / 3, i % 3) = static_cast<float>(i);
  auto x = sw::distribute<Shard<0>, Shard<0>>(mesh, whole);
  const Index rows[] = {2, 1, 1, 1};
  CHECK(x.local().rows() == rows[sw::world().rank()]);

  mpi_counter::reset();
  auto merged = sw::redistribute<Replicate, Replicate>(x);
  if (mpi_counter::counting()) CHECK(mpi_counter::counts().all_gather.calls == 1);
  if (mpi_counter::counting()) CHECK(mpi_counter::counts().data_calls() == 1);
  CHECK(merged.local() == whole);

  mpi_counter::reset();
  auto inner = sw::redistribute<tp, Replicate>(x);
  CHECK(inner.local() == whole.middleRows(mesh.rank<dp>() * 3, mesh.rank<dp>() == 0 ? 3 : 2));
  auto stepwise = sw::redistribute<dp, Replicate>(inner);
  if (mpi_counter::counting()) CHECK(mpi_counter::counts().all_gather.calls == 2);
  if (mpi_counter::counting()) CHECK(mpi_counter::counts().data_calls() == 2);
  CHECK(stepwise.local() == whole);
  CHECK(sw::full_tensor(x) == whole);
}

TEST_CASE("neighbouring collectives are one call, and none is made in vain") {
  if (sw::world().size() != 4) return;
  const Mesh mesh(sw::world(), {2, 2});
  const sw::Shape<2> shape{8, 8};
  auto made = [&]<class... From, class... To>(L<From...>, L<To...>) {
    return collectives<sw::Tensor<float, 2, Mesh, From...>, To...>(mesh, shape);
  };
  using S0 = Shard<0>;
  using S1 = Shard<1>;
  using P = Partial<>;
  using R = Replicate;
  CHECK(made(L<P, P>{}, L<R, R>{}) == "all_reduce 1 / ");
  CHECK(made(L<P, P>{}, L<S0, S0>{}) == "reduce_scatter 1 / all_gather 1");
  CHECK(made(L<S0, S0>{}, L<R, R>{}) == "all_gather 1 / ");
  CHECK(made(L<S0, S0>{}, L<Reduced, Reduced>{}) == "all_gather 1 / reduce_scatter 1");
  CHECK(made(L<S0, S1>{}, L<S0, S0>{}) == "all_to_all 1 / all_to_all 1");
  CHECK(made(L<S0, S1>{}, L<S1, S0>{}) == "all_to_all 1 / all_to_all 1");  // two would be allowed
  CHECK(made(L<S0, S0>{}, L<S1, S1>{}) == "all_to_all 1 / all_to_all 1");
  CHECK(made(L<R, S0>{}, L<S0, S0>{}).substr(0, 10) == "all_to_all");
  CHECK(made(L<R, R>{}, L<S0, S1>{}) == " / all_gather 1");
}

}  // namespace shardwise::testing::redistribute_axes
