// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// Plans of products receive exactly the lower bound where one says how little a product can receive, and the bound itself solves
/// the problem from which its paper derives it.

#include <shardwise/linalg/bounds.hpp>
#include <shardwise/linalg/matrix_product.hpp>
#include <shardwise/mesh/trace.hpp>
#include <shardwise/ops/contract.hpp>
#include <shardwise/ops/reshape.hpp>
#include <shardwise/tensor/factories.hpp>

namespace shardwise {
namespace {

struct x_axis {
  static constexpr const char* name = "x";
};
struct y_axis {
  static constexpr const char* name = "y";
};
struct z_axis {
  static constexpr const char* name = "z";
};

constexpr bool near(double found, double expected) {
  return found - expected <= 1e-9 * expected && expected - found <= 1e-9 * expected;
}

constexpr Index n = 1024;

/// On `sizes`, the product of an m × k and a k × n matrix.
template <class MeshType, class A, class B, class C>
constexpr auto planned(const typename MeshType::SizesOf& sizes, Index rows, Index columns, Index inner) {
  return trace<MeshType>(sizes, [&](const auto& mesh) {
    const A a(mesh, {rows, inner});
    const B b(mesh, {inner, columns});
    [&]<class... To>(Tensor<double, 2, MeshType, To...>*) {
      matrix_product<To...>(a, b);
    }(static_cast<C*>(nullptr));
  });
}
template <class... P>
using On2 = Tensor<double, 2, Mesh<x_axis, y_axis>, P...>;
using Blocks = On2<Shard<0>, Shard<1>>;

// Two axes: SUMMA.
constexpr auto summa = planned<Mesh<x_axis, y_axis>, Blocks, Blocks, Blocks>({4, 4}, 4 * n, 4 * n, n);
static_assert(summa.count(Collective::all_gather) == 2 && summa.collectives() == 2);
static_assert(near(static_cast<double>(summa.received_bytes()), 8 * gemm_lower_bound(4 * n, 4 * n, n, 16)));
static_assert(summa.received_bytes<x_axis>() == summa.received_bytes<y_axis>());

// One axis, whichever index is long: the other operand is gathered, or the result is reduced and scattered.
using Line = Mesh<x_axis>;
template <class P>
using On1 = Tensor<double, 2, Line, P>;
constexpr auto long_rows = planned<Line, On1<Shard<0>>, On1<Shard<0>>, On1<Shard<0>>>({16}, 16 * n, n, n);
static_assert(near(static_cast<double>(long_rows.received_bytes()), 8 * gemm_lower_bound(16 * n, n, n, 16)));
static_assert(long_rows.count(Collective::all_gather) == 1 && long_rows.collectives() == 1);
constexpr auto long_inner = planned<Line, On1<Shard<1>>, On1<Shard<0>>, On1<Shard<1>>>({16}, n, n, 16 * n);
static_assert(near(static_cast<double>(long_inner.received_bytes()), 8 * gemm_lower_bound(n, n, 16 * n, 16)));
static_assert(long_inner.count(Collective::reduce_scatter) == 1 && long_inner.collectives() == 1);

// Three axes. A dimension that two axes cut is cut first by the left one, which one of the three matrices needs the other way
// round; with its columns split in two dimensions it has both.
constexpr auto cube = trace<Mesh<x_axis, y_axis, z_axis>>({2, 2, 2}, [](const auto& mesh) {
  const auto a = empty<double, Shard<0>, Shard<1>, Shard<1>>(mesh, {n, n});
  const auto b = empty<double, Shard<2>, Shard<0>, Shard<1>>(mesh, {n, 2, n / 2});
  const auto c =
      contract<"mk, kpn -> mpn">(redistribute<z_axis, Reduced>(a), redistribute<x_axis, Reduced>(b));
  redistribute<y_axis, Shard<2>>(c);
});
static_assert(cube.count(Collective::all_gather) == 2 && cube.count(Collective::reduce_scatter) == 1);
static_assert(cube.flops() == 2 * n * n * n / 8);
static_assert(near(static_cast<double>(cube.received_bytes()), 8 * gemm_lower_bound(n, n, n, 8)));

// The backward pass: each gradient is such a product too.
constexpr auto step = trace<Mesh<x_axis, y_axis>>({4, 4}, [](const auto& mesh) {
  Tape tape;
  const auto a = tape.input(empty<double, Shard<0>, Shard<1>>(mesh, {4 * n, n}));
  const auto b = tape.input(empty<double, Shard<0>, Shard<1>>(mesh, {n, 4 * n}));
  const auto c = matrix_product<Shard<0>, Shard<1>>(a, b);
  tape.backward(c, empty<double, Shard<0>, Shard<1>>(mesh, {4 * n, 4 * n}));
});
static_assert(near(static_cast<double>(step.received_bytes()),
                   3 * 8 * gemm_lower_bound(4 * n, 4 * n, n, 16)));
static_assert(step.flops() == 3 * summa.flops());

// In panels: what it receives is the same, and its memory is near that of operands and result.
constexpr auto panels = trace<Mesh<x_axis, y_axis>>({4, 4}, [](const auto& mesh) {
  const auto a = empty<double, Shard<0>, Shard<1>>(mesh, {n, n}),
             b = empty<double, Shard<0>, Shard<1>>(mesh, {n, n});
  matrix_product<Shard<0>, Shard<1>>(a, b, {.panel_bytes = 1 << 17});
});
static_assert(panels.received_bytes() == 2 * 8 * n * n / 16 * 3);
static_assert(static_cast<double>(panels.peak_bytes()) <= 1.3 * (3 * 8 * n * n / 16));

// Rows are dealt to four ranks in blocks of 64 by a reshape and one all-to-all.
constexpr auto dealt = trace<Line>({4}, [](const auto& mesh) {
  const auto blocks = reshape<Shard<0>>(empty<double, Shard<0>>(mesh, {n, n}), {n / (4 * 64), 4, 64, n});
  redistribute<x_axis, Shard<1>>(blocks);
});
static_assert(dealt.count(Collective::all_to_all) == 1 && dealt.collectives() == 1);

// What is asked for decides: no rank repeats another's work where that costs nothing.
constexpr ProductPlan whole = product_plan({replicate}, {replicate}, {shard(1)}, {n, n, n}, {4});
static_assert(whole.received == 0 && whole.repeated == 1 && whole.b == Layout{shard(1)});
// A pending sum may stay one.
constexpr ProductPlan pending = product_plan({partial_sum}, {replicate}, {partial_sum}, {n, n, n}, {4});
static_assert(pending.received == 0 && pending.a == Layout{partial_sum});

// The bound: the least x + y + z with x y z >= (mnk / P)², where a rank needs at least its share of each matrix, less what it
// has. Its solution is found here by halving, not by the paper's three cases.
constexpr double least_sum(double shares[3], double volume) {
  double low = 0,
         high = 1e12;  // of the common side: every matrix that needs more than its share needs this much
  for (int i = 0; i < 200; ++i) {
    const double side = (low + high) / 2;
    double product = 1;
    for (int j = 0; j < 3; ++j) product *= std::max(shares[j], side);
    (product < volume ? low : high) = side;
  }
  double sum = 0;
  for (int j = 0; j < 3; ++j) sum += std::max(shares[j], high);
  return sum;
}
constexpr bool bound_solves(Index m, Index k, Index columns, int ranks) {
  const auto M = static_cast<double>(m), N = static_cast<double>(columns), K = static_cast<double>(k),
             P = static_cast<double>(ranks);
  double shares[]{M * K / P, K * N / P, M * N / P};
  const double has = shares[0] + shares[1] + shares[2];
  return near(gemm_lower_bound(m, columns, k, ranks),
              least_sum(shares, M * N * K / P * (M * N * K / P)) - has);
}
static_assert(bound_solves(1000, 10, 10, 8) && bound_solves(10, 1000, 10, 8) &&
              bound_solves(10, 10, 1000, 8));                                        // one axis
static_assert(bound_solves(1000, 10, 1000, 16) && bound_solves(400, 300, 20, 12));   // two
static_assert(bound_solves(512, 512, 512, 8) && bound_solves(300, 500, 400, 1000));  // three
static_assert(gemm_lower_bound(5, 6, 7, 1) == 0);
static_assert(gemm_lower_bound(4096, 4096, 4096, 64, 1 << 10) > gemm_lower_bound(4096, 4096, 4096, 64));

}  // namespace
}  // namespace shardwise
