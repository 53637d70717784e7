// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// `LuFactor` beside `solve` and Eigen's LU, and `solve_mixed`, by their backward errors.

#include <Eigen/LU>
#include <shardwise/linalg/lu_factor.hpp>
#include <shardwise/linalg/solve_mixed.hpp>
#include <shardwise/shardwise.hpp>
#include <support/matrices.hpp>

#include "ops_check.hpp"

namespace shardwise::testing::linalg_lu {
namespace {

using Grid = Mesh<dp, tp>;

/// ‖b - a x‖₁ in units of 25 ε n ‖a‖₁ ‖x‖₁.
template <class T>
double residual(const Matrix<T>& a, const Matrix<T>& x, const Matrix<T>& b) {
  const Matrix<double> off = wide(b) - product(wide(a), wide(x));
  return excess<T>(off, static_cast<double>(a.rows()) * norm_1(a) * norm_1(x));
}

template <class T, class PA0, class PA1, class PB0, class PB1>
void check(Index n) {
  const Grid mesh = grid();
  const Matrix<T> a = random_matrix<T>(n, n, 1);
  CAPTURE(n);
  const auto on_ranks = distribute<PA0, PA1>(mesh, a);
  const LuFactor factor(on_ranks);
  for (const Index r : {1, 3, 0}) {
    const Matrix<T> b = random_matrix<T>(n, r, 2);
    const auto right = distribute<PB0, PB1>(mesh, b);
    const auto x = factor.solve(right);
    static_assert(std::is_same_v<decltype(x), decltype(right)>);
    CHECK(residual<T>(a, full_tensor(x), b) <= 1);
    CHECK(residual<T>(a, full_tensor(solve(on_ranks, right)), b) <= 1);
  }
  const Eigen::VectorX<T> b = random_matrix<T>(n, 1, 3);
  const auto x = factor.solve(distribute<PB0, Replicate>(mesh, b));
  CHECK(residual<T>(a, Matrix<T>(full_tensor(x)), Matrix<T>(b)) <= 1);

  double logarithm = 0;
  int sign = 1;
  if (n > 0) {
    const Eigen::PartialPivLU<Matrix<double>> lu(wide(a));
    const Eigen::VectorXd pivots = lu.matrixLU().diagonal();
    logarithm = pivots.cwiseAbs().array().log().sum();
    sign = static_cast<int>(lu.permutationP().determinant());
    for (Index i = 0; i < n; ++i) sign *= pivots[i] < 0 ? -1 : 1;
  }
  CHECK(factor.log_abs_determinant() == doctest::Approx(logarithm).epsilon(sizeof(T) == 8 ? 1e-12 : 1e-4));
  CHECK(factor.determinant_sign() == sign);
}
TEST_CASE("solutions and determinants, for extents from 0 to 257, in float and double") {
  for (const Index n : {0, 1, 2, 7, 100, 257}) {
    check<double, Shard<0>, Shard<1>, Shard<0>, Replicate>(n);
    check<float, Shard<0>, Shard<0>, Reduced, Replicate>(n);
    check<double, Replicate, Shard<1>, Shard<0>, Shard<0>>(n);
  }
}
TEST_CASE("the sign of permutations, and determinants that overflow") {
  const Grid mesh = grid();
  for (const Index n : {2, 3, 5, 64, 90}) {
    for (const double size : {1., -1e150, 1e-150}) {
      Matrix<double> a = Matrix<double>::Zero(n, n);
      for (Index i = 0; i < n; ++i) a(i, n - 1 - i) = size;
      const LuFactor factor(distribute<Shard<0>, Shard<0>>(mesh, a));
      const int of_rows = n / 2 % 2 == 0 ? 1 : -1, of_sizes = size < 0 && n % 2 == 1 ? -1 : 1;
      CHECK(factor.determinant_sign() == of_rows * of_sizes);
      CHECK(factor.log_abs_determinant() ==
            doctest::Approx(static_cast<double>(n) * std::log(std::abs(size))).epsilon(1e-13));
    }
  }
}
TEST_CASE("what LuFactor cannot solve is the same error on every rank") {
  const Grid mesh = grid();
  Matrix<double> a = random_matrix<double>(40, 40, 6);
  const LuFactor good(distribute<Shard<0>, Shard<1>>(mesh, a));
  a.col(7).setZero();
  const auto message = [&](const Matrix<double>& x) {
    return message_of<std::runtime_error>([&] { LuFactor(distribute<Shard<0>, Shard<1>>(mesh, x)); });
  };
  CHECK(message(a) == "LuFactor: the matrix is singular, or its numbers overflow: column 7 has no pivot");
  for (const double value :
       {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()}) {
    a(23, 11) = value;
    CHECK(message(a) == "LuFactor: row 23 of the matrix is not finite");
  }
  CHECK(message_of<std::invalid_argument>([&] {
          LuFactor(zeros<double, Shard<0>, Shard<1>>(mesh, {40, 39}));
        }) == "LuFactor: a matrix [40 x 39] is not square");
  CHECK(message_of<std::invalid_argument>([&] {
          good.solve(zeros<double, Shard<0>, Replicate>(mesh, {39, 1}));
        }) == "LuFactor: the right side [39 x 1] does not have the 40 rows of the matrix");
  const Grid other(world(), {1, any});
  CHECK(message_of<std::invalid_argument>([&] {
          good.solve(zeros<double, Shard<0>, Replicate>(other, {40, 1}));
        }) == "LuFactor: the right side lives on another mesh than the matrix");
}

/// The solution in mixed precision, and whether that was not the one in full precision.
struct Refined {
  Matrix<double> x;
  bool in_float;
};
Refined refined(const Matrix<double>& a, const Matrix<double>& b) {
  const Grid mesh = grid();
  const auto left = distribute<Shard<0>, Shard<1>>(mesh, a);
  const auto right = distribute<Shard<0>, Shard<0>>(mesh, b);
  const Matrix<double> x = full_tensor(solve_mixed(left, right));
  return {x, x != Matrix<double>(full_tensor(solve(left, right)))};
}
TEST_CASE(
    "mixed precision has the backward errors of double, and full precision where float does not converge") {
  for (const Index n : {2, 60, 150}) {
    for (const double condition : {1., 1e3, 1e5, 1e9, 1e12, 1e15}) {
      const Matrix<double> a = conditioned(n, n, condition, 7), b = random_matrix<double>(n, 2, 8);
      const Refined result = refined(a, b);
      CAPTURE(n);
      CAPTURE(condition);
      CHECK(residual<double>(a, result.x, b) <= 1);
      if (n > 2 && condition <= 1e5) CHECK(result.in_float);
      if (condition >= 1e9) CHECK(!result.in_float);
    }
  }
}
TEST_CASE("mixed precision of numbers outside of float's range, and of columns of different sizes") {
  const Matrix<double> a = random_matrix<double>(70, 70, 9);
  Matrix<double> b = random_matrix<double>(70, 3, 10);
  for (const double of_a : {1e-150, 1., 1e150}) {
    for (const double of_b : {1e-100, 1., 1e150}) {
      Matrix<double> sides = b * of_b;
      sides.col(1) *= 1e-30;
      sides.col(2).setZero();
      const Matrix<double> scaled = a * of_a;
      const Refined result = refined(scaled, sides);
      CHECK(result.in_float);
      const Matrix<double> x = result.x * (of_a / of_b), expected = sides / of_b;
      for (Index c = 0; c < 3; ++c)
        CHECK(residual<double>(a, Matrix<double>(x.col(c)), Matrix<double>(expected.col(c))) <= 1);
    }
  }
}
TEST_CASE("mixed precision fails as full precision does") {
  const Grid mesh = grid();
  Matrix<double> a = random_matrix<double>(40, 40, 6);
  const auto message = [&](const auto& b) {
    return message_of<std::runtime_error>([&] { solve_mixed(distribute<Shard<0>, Shard<1>>(mesh, a), b); });
  };
  const auto b = full<double, Shard<0>, Replicate>(mesh, {40, 1}, 1.);
  a.col(7).setZero();
  CHECK(message(b) == "solve: the matrix is singular, or its numbers overflow: column 7 has no pivot");
  a(20, 11) = std::numeric_limits<double>::quiet_NaN();
  CHECK(message(b) == "solve: row 20 of the matrix is not finite");
  CHECK(message_of<std::invalid_argument>([&] {
          solve_mixed(zeros<double, Shard<0>, Shard<1>>(mesh, {39, 39}), b);
        }) == "solve: the right side [40 x 1] does not have the 39 rows of the matrix");
  Matrix<double> sides = random_matrix<double>(40, 1, 2);
  sides(3, 0) = std::numeric_limits<double>::infinity();
  CHECK(!full_tensor(solve_mixed(distribute<Shard<0>, Shard<1>>(mesh, random_matrix<double>(40, 40, 1)),
                                 distribute<Shard<0>, Shard<1>>(mesh, sides)))
             .allFinite());
  CHECK(full_tensor(solve_mixed(zeros<double, Shard<0>, Shard<1>>(mesh, {0, 0}),
                                zeros<double, Shard<0>, Shard<1>>(mesh, {0, 2})))
            .size() == 0);
}
TEST_CASE("gradients in mixed precision") {
  const Grid mesh = grid();
  const Matrix<double> a = random_matrix<double>(12, 12, 1) + Matrix<double>::Identity(12, 12) * 8,
                       b = random_matrix<double>(12, 3, 2);
  Tape tape;
  auto left = tape.input(distribute<Shard<0>, Shard<1>>(mesh, a));
  auto right = tape.input(distribute<Shard<0>, Shard<1>>(mesh, b));
  tape.backward(redistribute<Replicate, Replicate>(sum(solve_mixed(left, right))));
  const Matrix<double> db = a.transpose().partialPivLu().solve(Matrix<double>::Ones(12, 3)),
                       da = -db * a.partialPivLu().solve(b).transpose();
  CHECK((full_tensor(redistribute<Replicate, Replicate>(right.gradient())) - db).norm() <= 1e-12);
  CHECK((full_tensor(redistribute<Replicate, Replicate>(left.gradient())) - da).norm() <= 1e-12);
}

TEST_CASE("a run makes the collectives of its plan") {
  const Grid mesh = grid();
  const auto run = [](const auto& on) {
    const auto b = full<double, Shard<0>, Replicate>(on, {90, 2}, 1.);
    auto a = full<double, Shard<0>, Shard<0>>(on, {90, 90}, 0.);
    if (!on.dry()) {  // pivots are on the diagonal, and the condition number, about 200, takes two refinements
      const auto view = a.writable();
      for (Index i = 0; i < view.size[0]; ++i) {
        const Index row = view.begin[0] + i;
        for (Index j = std::max<Index>(0, row - 1); j < std::min<Index>(90, row + 2); ++j)
          view.data[i * 90 + j] = j == row ? 2.02 : -1;
      }
    }
    const LuFactor factor(a);
    factor.solve(b);
    factor.solve(full<double, Shard<0>, Shard<0>>(on, {90}, 1.));
    solve_mixed(a, b);
  };
  Recording recording(mesh);
  run(mesh);
  CHECK(same_communication(recording.plan(), trace<Grid>({mesh.sizes()[0], mesh.sizes()[1]}, run,
                                                         {mesh.rank<dp>(), mesh.rank<tp>()})));
}

// In the compiler: beside the elimination, whose rows here have no right sides, a solution is two sums of its numbers.
template <bool solves>
constexpr auto plan = trace<Mesh<tp>>({4}, [](const auto& mesh) {
  const LuFactor factor(empty<double, Shard<0>>(mesh, {512, 512}));
  if (solves) factor.solve(empty<double, Shard<0>>(mesh, {512, 3}));
});
static_assert(plan<true>.received_bytes() - plan<false>.received_bytes() == 2 * (8 * 2 * 512 * 3 * 3 / 4));

}  // namespace
}  // namespace shardwise::testing::linalg_lu
