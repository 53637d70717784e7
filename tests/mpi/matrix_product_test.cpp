// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// `matrix_product` beside plain loops: every triple of layouts on one and on two axes, a sample of them on three, extents from
/// 0 to 257, operands that are stored as their transposes, panels; its gradients; and what it receives beside its plan.

#include <shardwise/linalg/matrix_product.hpp>
#include <shardwise/shardwise.hpp>

#include <random>

#include "ops_check.hpp"

namespace shardwise::testing::matrix_product {
namespace {

Dense product(const Dense& a, const Dense& b) {
  Dense c({a.extent(0), b.extent(1)});
  for (Index i = 0; i < a.extent(0); ++i) {
    for (Index l = 0; l < a.extent(1); ++l) {
      for (Index j = 0; j < b.extent(1); ++j)
        c[i * b.extent(1) + j] += a[i * a.extent(1) + l] * b[l * b.extent(1) + j];
    }
  }
  return c;
}
Dense transposed(const Dense& x) {
  Dense y({x.extent(1), x.extent(0)});
  for (Index i = 0; i < x.size(); ++i) y[i % x.extent(1) * x.extent(0) + i / x.extent(1)] = x[i];
  return y;
}

template <class T, class MeshType>
detail::AnyTensor placed(const MeshType& mesh, const Layout& layout, const Dense& values) {
  const detail::AnyTensor like(MeshView(mesh), data_type_of<T>(), layout, values.shape, Buffer());
  const detail::AnyTensor x = like.unwritten(layout, MemoryUse::activation);
  place(x, values);
  return x;
}

struct Case {
  Layout a, b, c;
  ProductExtents extents{};
  ProductTransposes stored{};
  Index panel_bytes = std::numeric_limits<Index>::max();
};

template <class T, class MeshType>
void check(const MeshType& mesh, const Case& at) {
  const Index m = at.extents.rows, n = at.extents.columns, k = at.extents.inner;
  const Dense a = random_dense({m, k}, 1), b = random_dense({k, n}, 2), c = product(a, b);
  const detail::ProductOperand left{placed<T>(mesh, at.a, at.stored.a ? transposed(a) : a), at.stored.a},
      right{placed<T>(mesh, at.b, at.stored.b ? transposed(b) : b), at.stored.b};
  const detail::AnyTensor found = detail::product_of<T>(left, right, at.c, {at.panel_bytes});
  CHECK(found.layout == at.c);
  CAPTURE(m);
  CAPTURE(n);
  CAPTURE(k);
  CAPTURE(detail::text_of(at.a));
  CAPTURE(detail::text_of(at.b));
  CAPTURE(detail::text_of(at.c));
  CHECK(difference(gather(found), c) <= (sizeof(T) == 8 ? 1e-14 : 1e-6) * static_cast<double>(k + 1));
}

/// The layouts of a matrix on some axes, by number.
Layout layout(int axes, unsigned number) {
  constexpr Placement placements[] = {shard(0), shard(1), replicate, partial_sum};
  return Layout::by_axis(axes, [&](int axis) { return placements[number >> 2 * axis & 3]; });
}
constexpr Index some_extents[] = {7, 5, 2, 8, 1, 6, 0, 9};

TEST_CASE("every triple of layouts on one axis, in every order of storage") {
  const auto mesh = line();
  int i = 0;
  for (unsigned number = 0; number < 4 * 64; ++number, ++i) {
    const auto extent = [&](int step) { return some_extents[(i * step + i / 7) % 8]; };
    const Case at{layout(1, number & 3),
                  layout(1, number >> 2 & 3),
                  layout(1, number >> 4 & 3),
                  {extent(1), extent(3), extent(5)},
                  {(number >> 6 & 1) != 0, (number >> 7 & 1) != 0}};
    check<double>(mesh, at);
  }
}
TEST_CASE("every triple of layouts on two axes") {
  const auto mesh = grid();
  int i = 0;
  for (unsigned number = 0; number < 4096; ++number, ++i) {
    if (world().size() > 4 && number % 5 != 0) continue;  // simulated: a sample
    const auto extent = [&](int step) { return some_extents[(i * step + i / 7) % 8]; };
    check<double>(mesh, {layout(2, number & 15),
                         layout(2, number >> 4 & 15),
                         layout(2, number >> 8),
                         {extent(1), extent(3), extent(5)},
                         {i % 3 == 0, i % 5 < 2}});
  }
}
TEST_CASE("a sample of the triples on three axes") {
  const int ranks = world().size();
  const Mesh<dp, cp, tp> mesh(world(), {ranks % 2 == 0 ? 2 : 1, ranks % 4 == 0 ? 2 : 1, any});
  std::mt19937 draw(1);
  for (int i = 0; i < 200; ++i) {
    const auto any_layout = [&] { return layout(3, static_cast<unsigned>(draw() % 64)); };
    const Layout a = any_layout(), b = any_layout(), c = any_layout();
    check<double>(mesh, {a, b, c, {some_extents[i % 8], some_extents[i / 3 % 8], some_extents[i / 5 % 8]}});
  }
}
TEST_CASE("larger extents, float and double") {
  const auto mesh = grid();
  const Layout blocks{shard(0), shard(1)}, rows{replicate, shard(0)}, inner{shard(1), shard(1)};
  for (const auto [m, n, k] : {ProductExtents{100, 257, 100}, {257, 100, 1}, {1, 257, 257}, {257, 2, 257}}) {
    check<double>(mesh, {blocks, blocks, blocks, {m, n, k}});
    check<float>(mesh, {blocks, rows, inner, {m, n, k}});
    check<float>(mesh, {inner, blocks, rows, {m, n, k}});
  }
}

TEST_CASE("panels: the same product in less memory, wherever the inner index is cut") {
  const auto mesh = grid();
  const Layout blocks{shard(0), shard(1)}, columns{replicate, shard(1)}, rows{shard(0), replicate},
      inner{shard(1), shard(1)};
  for (const Index k : {24, 25, 26, 27, 96, 257}) {
    for (const Index bytes : {1, 256, 2000}) {
      check<double>(mesh, {blocks, blocks, blocks, {12, 11, k}, {}, bytes});
      check<double>(mesh, {blocks, blocks, blocks, {12, 11, k}, {true, true}, bytes});
      check<double>(mesh, {columns, rows, blocks, {12, 11, k}, {}, bytes});
      check<double>(mesh, {inner, blocks, blocks, {12, 11, k}, {false, true}, bytes});
    }
  }
}
TEST_CASE("panels keep the peak of memory near that of operands and result") {
  if (world().size() != 4) return;
  const Mesh<dp, tp> mesh(world(), {2, 2});
  const auto a = zeros<double, Shard<0>, Shard<1>>(mesh, {256, 256}),
             b = zeros<double, Shard<0>, Shard<1>>(mesh, {256, 256});
  Recording recording(mesh);
  const auto c = shardwise::matrix_product<Shard<0>, Shard<1>>(a, b, {.panel_bytes = 1 << 15});
  const int shards = 3 * (256 * 256 * 8 / 4);
  CHECK(static_cast<double>(recording.plan().peak_bytes()) <= 1.3 * shards);
}

/// Gradients of Σ (A B) ∘ dC, in the layouts of the operands.
template <class PA0, class PA1, class PB0, class PB1, class PC0, class PC1>
void check_gradients(Index panel_bytes = std::numeric_limits<Index>::max()) {
  const auto mesh = grid();
  const Index m = 7, n = 6, k = 5;
  const Dense a = random_dense({m, k}, 1), b = random_dense({k, n}, 2), dc = random_dense({m, n}, 3);
  using MeshType = std::remove_const_t<decltype(mesh)>;
  Tape tape;
  auto x = tape.input(place<Tensor<double, 2, MeshType, PA0, PA1>>(mesh, a));
  auto y = tape.input(place<Tensor<double, 2, MeshType, PB0, PB1>>(mesh, b));
  const auto z = shardwise::matrix_product<PC0, PC1>(x, y, {.panel_bytes = panel_bytes});
  using Z = std::remove_const_t<std::remove_reference_t<decltype(z.value())>>;
  static_assert(Z::layout == layout_of<PC0, PC1>);
  CHECK(difference(gather(z.value()), product(a, b)) <= 1e-13);
  tape.backward(z, place<cotangent_of<Z>>(mesh, dc));
  CHECK(difference(gather(x.gradient()), product(dc, transposed(b))) <= 1e-13);
  CHECK(difference(gather(y.gradient()), product(transposed(a), dc)) <= 1e-13);
}
TEST_CASE("gradients, in the cotangent layouts of the operands") {
  using S0 = Shard<0>;
  using S1 = Shard<1>;
  check_gradients<S0, S1, S0, S1, S0, S1>();
  check_gradients<S0, S1, S0, S1, S0, S1>(64);
  check_gradients<Replicate, Replicate, Replicate, Replicate, Replicate, Replicate>();
  check_gradients<Reduced, Reduced, Reduced, Reduced, Reduced, Reduced>();
  check_gradients<S0, Reduced, Reduced, S1, S0, S1>();
  check_gradients<S0, S0, Reduced, Replicate, S1, Replicate>();
  check_gradients<Partial<>, S1, S0, Reduced, Reduced, S0>();
  check_gradients<S1, S1, Replicate, S0, Partial<>, Partial<>>();
}

TEST_CASE("a run receives what its plan says, call by call") {
  const auto mesh = grid();
  const auto run = [](const auto& on) {
    Tape tape;
    auto a = tape.input(zeros<float, Shard<0>, Shard<1>>(on, {12, 20})),
         b = tape.input(zeros<float, Shard<0>, Shard<1>>(on, {20, 8}));
    const auto c = shardwise::matrix_product<Shard<1>, Replicate>(a, b);
    tape.backward(redistribute<Replicate, Replicate>(sum_of_squares(c)));
  };
  Recording recording(mesh);
  run(mesh);
  CHECK(recording.plan() ==
        trace<Mesh<dp, tp>>({mesh.sizes()[0], mesh.sizes()[1]}, run, {mesh.rank<dp>(), mesh.rank<tp>()}));
}
TEST_CASE("inner extents that differ are an error on every rank") {
  const auto mesh = line();
  CHECK(message_of<std::invalid_argument>([&] {
          shardwise::matrix_product<Shard<0>>(zeros<float, Shard<0>>(mesh, {4, 5}),
                                              zeros<float, Shard<0>>(mesh, {6, 4}));
        }) == "matrix_product: A has 5 columns, B has 6 rows");
}

}  // namespace
}  // namespace shardwise::testing::matrix_product
