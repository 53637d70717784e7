// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// Factories: the same global tensor on every mesh and in every layout, and blocks that must fit together.

#include <doctest/doctest.h>
#include <shardwise/inspect/print.hpp>
#include <shardwise/mesh/mesh.hpp>
#include <shardwise/nn/linear.hpp>
#include <shardwise/ops/operators.hpp>
#include <shardwise/ops/reduction.hpp>
#include <shardwise/ops/reshape.hpp>
#include <shardwise/tensor/distribute.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <sstream>
#include <string>
#include <vector>

namespace sw = shardwise;
using sw::any;
using sw::dp;
using sw::Index;
using sw::Partial;
using sw::Reduced;
using sw::Replicate;
using sw::Shard;
using sw::tp;

namespace {

using Line = sw::Mesh<tp>;
using Grid = sw::Mesh<dp, tp>;
using Matrix = sw::RowMajorMatrix<float>;

Line line() { return Line(sw::world(), {any}); }
Line alone() { return Line(sw::self(), {1}); }
std::vector<Grid> grids() {
  const int ranks = sw::world().size();
  std::vector<Grid> all{Grid(sw::world(), {1, ranks})};
  if (ranks > 1) all.emplace_back(sw::world(), Grid::SizesOf{ranks, 1});
  if (ranks == 4) all.emplace_back(sw::world(), Grid::SizesOf{2, 2});
  return all;
}

Matrix counting(Index rows, Index columns) {
  Matrix m(rows, columns);
  for (Index i = 0; i < m.size(); ++i) m.data()[i] = static_cast<float>(i);
  return m;
}

std::string message(auto f) {
  try {
    f();
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "no error";
}

}  // namespace

TEST_CASE("random tensors do not depend on mesh or layout") {
  const Matrix normal = sw::full_tensor(sw::randn<float, Replicate>(alone(), {13, 7}, 42));
  const Matrix flat = sw::full_tensor(sw::uniform<float, Replicate>(alone(), {13, 7}, 42, -2, 3));
  CHECK(normal != Matrix(sw::full_tensor(sw::randn<float, Replicate>(alone(), {13, 7}, 43))));
  CHECK(flat.minCoeff() >= -2.0F);
  CHECK(flat.maxCoeff() < 3.0F);
  CHECK(flat.maxCoeff() > 1.0F);
  CHECK(sw::full_tensor(sw::randn<float, Shard<0>>(line(), {13, 7}, 42)) == normal);
  CHECK(sw::full_tensor(sw::randn<float, Shard<1>>(line(), {13, 7}, 42)) == normal);
  CHECK(sw::full_tensor(sw::randn<float, Reduced>(line(), {13, 7}, 42)) == normal);
  CHECK(sw::full_tensor(sw::uniform<float, Shard<1>>(line(), {13, 7}, 42, -2, 3)) == flat);
  for (const Grid& mesh : grids()) {
    CHECK(sw::full_tensor(sw::randn<float, Shard<0>, Shard<1>>(mesh, {13, 7}, 42)) == normal);
    CHECK(sw::full_tensor(sw::randn<float, Shard<0>, Shard<0>>(mesh, {13, 7}, 42)) == normal);
    CHECK(sw::full_tensor(sw::randn<float, Shard<1>, Replicate>(mesh, {13, 7}, 42)) == normal);
    CHECK(sw::full_tensor(sw::uniform<float, Replicate, Shard<0>>(mesh, {13, 7}, 42, -2, 3)) == flat);
  }
}

TEST_CASE("random tensors of three dimensions, cut in the middle and empty") {
  using Numbers = sw::RowMajorMatrix<double>;
  const Numbers all = sw::full_tensor(sw::randn<double, Replicate>(alone(), {3, 5, 2}, 7, 10, 0.5));
  CHECK(std::abs(all.mean() - 10) < 0.5);
  CHECK(Numbers(sw::full_tensor(sw::randn<double, Shard<1>>(line(), {3, 5, 2}, 7, 10, 0.5))) == all);
  CHECK(Numbers(sw::full_tensor(sw::randn<double, Shard<2>>(line(), {3, 5, 2}, 7, 10, 0.5))) == all);
  CHECK(sw::full_tensor(sw::randn<double, Shard<0>>(line(), {0, 5}, 7)).size() == 0);
}

TEST_CASE("constants") {
  for (const Grid& mesh : grids()) {
    auto x = sw::full<float, Shard<0>, Shard<1>>(mesh, {5, 3}, 2.5F);
    CHECK(sw::full_tensor(x) == Matrix::Constant(5, 3, 2.5F));
    CHECK(sw::full_tensor(sw::zeros<float, Shard<1>, Shard<1>>(mesh, {5, 3})) == Matrix::Zero(5, 3));
    CHECK(x.shape() == sw::Shape<2>{5, 3});
    CHECK(x.local().rows() == x.local_shape()[0]);
  }
  CHECK_THROWS_WITH_AS((sw::empty<float, Replicate>(line(), {3, -1})),
                       "Tensor: an extent is negative in [3 x -1]", std::invalid_argument);
  CHECK_THROWS_WITH_AS((sw::empty<float, Replicate>(line(), {Index{1} << 40, Index{1} << 30})),
                       "Tensor: [1099511627776 x 1073741824] are more than 2^58 elements",
                       std::invalid_argument);
}

TEST_CASE("blocks are aligned, balanced, and maps of what is there") {
  auto x = sw::distribute<Shard<0>>(line(), counting(13, 3));
  const int ranks = x.mesh().size(), mine = x.mesh().rank();
  const Index rows = 13 / ranks + (mine < 13 % ranks ? 1 : 0);
  CHECK(x.local_shape() == sw::Shape<2>{rows, 3});
  CHECK(x.local() == counting(13, 3).middleRows(x.box().begin[0], rows));
  CHECK(reinterpret_cast<std::uintptr_t>(x.data()) % 64 == 0);
}

TEST_CASE("distribute and full_tensor") {
  const Matrix whole = counting(7, 5);
  for (const Grid& mesh : grids()) {
    CHECK(sw::full_tensor(sw::distribute<Shard<0>, Shard<1>>(mesh, whole)) == whole);
    CHECK(sw::full_tensor(sw::distribute<Shard<1>, Shard<1>>(mesh, whole)) == whole);
    CHECK(sw::full_tensor(sw::distribute<Reduced, Shard<0>>(mesh, whole)) == whole);
    // As a pending sum the value is there once, and its terms add up to it.
    CHECK(sw::full_tensor(sw::distribute<Partial<>, Shard<0>>(mesh, whole)) == whole);
    CHECK(sw::full_tensor(sw::distribute<Partial<>, Partial<>>(mesh, whole)) == whole);
  }
  const Eigen::VectorXd vector = Eigen::VectorXd::LinSpaced(9, 0, 8);
  CHECK(sw::full_tensor(sw::distribute<Shard<0>>(line(), vector)) == vector);
  const Eigen::MatrixXf columns = whole;  // column-major
  CHECK(sw::full_tensor(sw::distribute<Shard<0>>(line(), columns)) == whole);

  std::vector<std::int32_t> ids(24);
  std::iota(ids.begin(), ids.end(), 0);
  auto cube = sw::distribute<Shard<1>>(line(), {2, 3, 4}, ids);
  auto all = sw::full_tensor(cube);
  CHECK(std::equal(ids.begin(), ids.end(), all.data()));
  CHECK(message([&] {
          sw::distribute<Shard<1>>(line(), sw::Shape<2>{5, 5}, std::span<const std::int32_t>(ids));
        }) == "distribute: 24 values do not fill [5 x 5]");
  const int ranks = sw::world().size();
  if (ranks == 1) return;
  const Index rows = sw::world().rank() == ranks - 1 ? 3 : 4;  // each its own block: that is for from_local
  CHECK(message([&] { sw::distribute<Shard<1>>(line(), counting(rows, 5)); }) ==
        "distribute: rank " + std::to_string(ranks - 1) + ": [3 x 5], rank 0: [4 x 5]");
}

TEST_CASE("the value of a scalar") {
  const float value = 3.5F;
  CHECK(sw::item(sw::distribute<Replicate>(line(), sw::Shape<0>{}, std::span(&value, 1))) == 3.5F);
  const auto pending = sw::from_local<Partial<>>(line(), sw::Shape<0>{}, std::span(&value, 1));
  const auto ranks = static_cast<float>(line().size());
  CHECK(sw::item(sw::redistribute<Replicate>(pending)) == 3.5F * ranks);
}

TEST_CASE("from_local puts the blocks together") {
  const int ranks = sw::world().size(), mine = sw::world().rank();
  const Matrix block = Matrix::Constant(3, 3, static_cast<float>(mine));
  auto rows = sw::from_local<Shard<0>>(line(), block);
  CHECK(rows.shape() == sw::Shape<2>{3 * ranks, 3});
  const Matrix all = sw::full_tensor(rows);
  for (Index i = 0; i < all.rows(); ++i) CHECK((all.row(i).array() == static_cast<float>(i / 3)).all());
  CHECK(sw::from_local<Shard<1>>(line(), block).shape() == sw::Shape<2>{3, 3 * ranks});
  CHECK(sw::from_local<Shard<0>>(line(), {2, 3}, std::vector<float>(6)).shape() ==
        sw::Shape<2>{2 * ranks, 3});
  CHECK(sw::from_local<Replicate>(line(), Matrix(Matrix::Ones(3, 3))).shape() == sw::Shape<2>{3, 3});
  const Matrix sum = sw::full_tensor(sw::from_local<Partial<>>(line(), block));
  CHECK(sum(2, 2) == static_cast<float>(ranks * (ranks - 1) / 2));
  const Matrix largest = sw::full_tensor(sw::from_local<Partial<sw::Max>>(line(), block));
  CHECK(largest(0, 1) == static_cast<float>(ranks - 1));

  if (ranks != 4) return;
  const Grid mesh(sw::world(), {2, 2});
  CHECK(sw::from_local<Shard<0>, Shard<1>>(mesh, block).shape() == sw::Shape<2>{6, 6});
  CHECK(sw::from_local<Shard<0>, Shard<0>>(mesh, block).shape() == sw::Shape<2>{12, 3});
  CHECK(sw::from_local<Shard<1>, Partial<>>(mesh, block).shape() == sw::Shape<2>{3, 6});
  const Matrix grid = sw::full_tensor(sw::from_local<Shard<0>, Shard<1>>(mesh, block));
  CHECK(grid(0, 5) == 1.0F);
  CHECK(grid(5, 0) == 2.0F);
}

TEST_CASE("from_local takes uneven and empty blocks") {
  const Line mesh = line();
  const int ranks = mesh.size(), mine = mesh.rank();
  const Index total = ranks + 1;
  auto block = sw::balanced_block(total, ranks, mine);
  auto x = sw::from_local<Shard<0>>(mesh, Matrix(counting(total, 2).middleRows(block.begin, block.size)));
  CHECK(sw::full_tensor(x) == counting(total, 2));
  auto few = sw::from_local<Shard<0>>(mesh, Matrix(mine == 0 ? 1 : 0, 2));
  CHECK(few.shape() == sw::Shape<2>{1, 2});
}

TEST_CASE("from_local refuses blocks that do not fit, on every rank with the same words") {
  const Line mesh = line();
  const int ranks = mesh.size(), mine = mesh.rank();
  if (ranks == 1) return;
  const std::string last = std::to_string(ranks - 1), rows = std::to_string(2 * ranks);
  // The last rank brings other columns than the others.
  CHECK(message([&] { sw::from_local<Shard<0>>(mesh, Matrix(2, mine == ranks - 1 ? 4 : 3)); }) ==
        "from_local: the blocks add up to [" + rows + " x 3], of which rank " + last +
            " should hold [2 x 3], but it brings [2 x 4] with 8 values");
  // The ranks bring copies of different sizes.
  CHECK(message([&] {
          sw::from_local<Replicate>(mesh, Matrix(Matrix::Zero(mine == ranks - 1 ? 5 : 2, 3)));
        }) == "from_local: the blocks add up to [2 x 3], of which rank " + last +
                  " should hold [2 x 3], but it brings [5 x 3] with 15 values");
  // Copies of other values.
  CHECK(message([&] {
          sw::from_local<Replicate>(mesh, Matrix(Matrix::Constant(2, 3, mine == ranks - 1 ? 5 : 2)));
        }) == "from_local: rank " + last + " brings other values than rank 0, which should hold the same");
  // Blocks that are not the balanced ones: the larger come first.
  const std::string unbalanced =
      message([&] { sw::from_local<Shard<0>>(mesh, Matrix(mine == ranks - 1 ? 2 : 1, 3)); });
  CHECK(unbalanced.find("of which rank 0 should hold [2 x 3], but it brings [1 x 3] with 3 values") !=
        std::string::npos);
  // A rank whose values do not fill its block.
  const std::vector<float> values(mine == 1 ? 5 : 6);
  CHECK(message([&] {
          sw::from_local<Shard<0>>(mesh, sw::Shape<2>{2, 3}, std::span<const float>(values));
        }) == "from_local: the blocks add up to [" + rows +
                  " x 3], of which rank 1 should hold [2 x 3], but it brings [2 x 3] with 5 values");
  // Afterwards the mesh works on.
  CHECK(sw::full_tensor(sw::from_local<Shard<0>>(mesh, counting(1, 2))).rows() == ranks);
}

TEST_CASE("what is written to a tensor changes no other, and is copied only if it must be") {
  const Line mesh = line();
  auto x = sw::zeros<double, Replicate>(mesh, {4});
  const double* const own = x.data();
  x.writable().data[0] = 1;
  CHECK(x.data() == own);

  auto copy = x;
  copy.writable().data[0] = 77;
  CHECK(x.data()[0] == 1);
  CHECK(copy.data()[0] == 77);
  CHECK(x.data() == own);

  // Operations that move no number return the same block.
  auto column = sw::reshape(x, {4, 1});
  auto reduced = sw::redistribute<Reduced>(x);
  column.writable().data[1] = 5;
  reduced.writable().data[2] = 6;
  CHECK(x.data()[1] == 0);
  CHECK(x.data()[2] == 0);

  std::vector<decltype(x)> history;
  for (int step = 0; step < 3; ++step) {
    x.writable().data[3] = step;
    history.push_back(x);
  }
  CHECK(history[0].data()[3] == 0);
  CHECK(history[1].data()[3] == 1);
  CHECK(history[2].data()[3] == 2);

  // What a tape holds stays as the forward pass read it.
  sw::Tape tape;
  const auto v = tape.input(x);
  const auto loss = sw::sum(v * v);
  x.writable().data[3] = 100;
  tape.backward(loss);
  CHECK(v.gradient().data()[3] == 4);
  CHECK(x.data()[3] == 100);
}
template <class X>
concept Writable = requires(X x) {
  x.writable();
};
static_assert(Writable<sw::Tensor<float, 1, Line, Shard<0>>&>);
static_assert(!Writable<const sw::Tensor<float, 1, Line, Shard<0>>&>);

TEST_CASE("printing: each rank tells what it has") {
  const Line mesh = line();
  const auto text = [](const auto& what) {
    std::ostringstream out;
    out << what;
    return out.str();
  };
  const std::string ranks = std::to_string(mesh.size()), mine = std::to_string(mesh.rank());
  CHECK(text(mesh) == "Mesh tp " + ranks + ", rank " + mine + " (tp " + mine + ")");
  CHECK(text(sw::layout_of<Shard<1>, Replicate, Reduced, Partial<sw::Max>>) ==
        "Shard<1>, Replicate, Reduced, Partial<Max>");
  const auto copies = sw::from_local<Replicate>(mesh, counting(2, 2));
  CHECK(text(copies) ==
        "f32 [2 x 2] as tp Replicate; rank " + mine + " has [2 x 2] from [0, 0]:\n" + text(counting(2, 2)));
  const auto rows = sw::zeros<double, Shard<0>>(mesh, {mesh.size(), 1});
  CHECK(text(rows) ==
        "f64 [" + ranks + " x 1] as tp Shard<0>; rank " + mine + " has [1 x 1] from [" + mine + ", 0]:\n0");
  const auto first = sw::zeros<double, Shard<0>>(mesh, {1, 2000});  // more than are printed
  CHECK(text(first) == "f64 [1 x 2000] as tp Shard<0>; rank " + mine +
                           (mesh.rank() == 0 ? " has [1 x 2000] from [0, 0]" : " has nothing"));
}

TEST_CASE("printing: the blocks of all ranks, also of a dry mesh") {
  sw::Recorder counts;
  const sw::Mesh<sw::dp, sw::tp> dry(counts, {3, 2});
  CHECK(sw::block_table(sw::zeros<float, Shard<0>, Shard<1>>(dry, {13, 20})) ==
        "f32 [13 x 20] as dp Shard<0>, tp Shard<1>\n"
        "       0-9   10-19\n"
        "0-4    0     1\n"
        "5-8    2     3\n"
        "9-12   4     5\n");
  using Both = sw::Mesh<sw::dp, sw::tp>;
  CHECK(sw::block_table<sw::Tensor<float, 3, Both, Shard<1>, Partial<>>>({2, 2}, {1, 3, 4}) ==
        "f32 [1 x 3 x 4] as dp Shard<1>, tp Partial<Sum>\n"
        "          0-3\n"
        "0 x 0-1   0 + 1\n"
        "0 x 2     2 + 3\n");
  CHECK(sw::block_table<sw::Tensor<double, 1, Both, Shard<0>, Replicate>>({3, 2}, {2}) ==
        "f64 [2] as dp Shard<0>, tp Replicate\n"
        "   0      1      nothing\n"
        "   0, 1   2, 3   4, 5\n");
  CHECK(sw::block_table<sw::Tensor<float, 0, Both, Partial<sw::Max>, sw::Reduced>>({2, 2}, {}) ==
        "f32 [] as dp Partial<Max>, tp Reduced\n   \n   0 max 2, 1 max 3\n");
  const Line mesh = line();
  const std::string table = sw::block_table(sw::zeros<float, Shard<0>>(mesh, {mesh.size(), 1}));
  CHECK(std::ranges::count(table, '\n') == 2 + mesh.size());
  const std::string last = std::to_string(mesh.size() - 1);
  CHECK(table.ends_with(last + "   " + last + "\n"));

  const Both large(counts, {4, 2});
  std::vector<sw::Linear<Both, sw::ColwiseParallel<sw::tp>>> layers;
  for (int i = 0; i < 2; ++i) layers.emplace_back(large, 6, 2);
  CHECK(sw::block_tables(layers) ==
        "*.weight: f32 [2 x 6] as dp Reduced, tp Shard<0>\n"
        "    0-5\n"
        "0   0, 2, 4, 6\n"
        "1   1, 3, 5, 7\n\n"
        "*.bias: f32 [2] as dp Reduced, tp Shard<0>\n"
        "   0            1\n"
        "   0, 2, 4, 6   1, 3, 5, 7\n\n");
}
