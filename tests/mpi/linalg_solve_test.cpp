// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// Equations with distributed matrices: `CholeskyFactor` and `solve`, by their residuals, in many layouts.

#include <Eigen/Cholesky>
#include <Eigen/QR>
#include <shardwise/linalg/cholesky_factor.hpp>
#include <shardwise/linalg/solve.hpp>
#include <shardwise/shardwise.hpp>
#include <support/matrices.hpp>

#include "ops_check.hpp"

namespace shardwise::testing::linalg_solve {
namespace {

using Grid = Mesh<dp, tp>;

/// ‖b - a x‖₁ in units of 25 ε n ‖a‖₁ ‖x‖₁.
template <class T>
double residual(const Matrix<T>& a, const Matrix<T>& x, const Matrix<T>& b) {
  const Matrix<double> off = wide(b) - product(wide(a), wide(x));
  return excess<T>(off, static_cast<double>(a.rows()) * norm_1(a) * norm_1(x));
}

template <class T, class PA0, class PA1, class PB0, class PB1>
void check(Index n, Index r) {
  const Grid mesh = grid();
  const Matrix<T> any_matrix = random_matrix<T>(n, n, 1), b = random_matrix<T>(n, r, 2);
  const Matrix<T> positive =
      any_matrix * any_matrix.transpose() + Matrix<T>::Identity(n, n) * static_cast<T>(n);
  CAPTURE(n);
  const auto right = distribute<PB0, PB1>(mesh, b);
  {
    const auto x = solve(distribute<PA0, PA1>(mesh, any_matrix), right);
    static_assert(std::is_same_v<decltype(x), decltype(right)>);
    CHECK(residual<T>(any_matrix, full_tensor(x), b) <= 1);
  }
  {
    const CholeskyFactor factor(distribute<PA0, PA1>(mesh, positive));
    CHECK(residual<T>(positive, full_tensor(factor.solve(right)), b) <= 1);
  }
}
TEST_CASE("residuals, for extents from 0 to 257, in float and double") {
  for (const Index n : {0, 1, 2, 7, 100, 257}) {
    check<double, Shard<0>, Shard<1>, Shard<0>, Shard<1>>(n, 3);
    check<float, Shard<0>, Shard<0>, Shard<0>, Replicate>(n, 1);
    check<double, Replicate, Shard<1>, Replicate, Replicate>(n, 2);
  }
}
TEST_CASE("without a check of symmetry, each row counts up to the columns that are eliminated with it") {
  const Grid mesh = grid();
  const Matrix<double> any_matrix = random_matrix<double>(90, 90, 1), b = random_matrix<double>(90, 2, 2);
  const Matrix<double> positive = any_matrix * any_matrix.transpose() + Matrix<double>::Identity(90, 90);
  const auto a = distribute<Shard<0>, Shard<0>>(mesh, positive), y = distribute<Shard<0>, Shard<0>>(mesh, b);
  const CholeskyFactor factor(a, {.check_symmetry = false});
  CHECK(residual<double>(positive, full_tensor(factor.solve(y)), b) <= 1);
}
TEST_CASE("the factor, and the logarithm of a determinant that overflows") {
  const Grid mesh = grid();
  for (const Index n : {0, 1, 90, 300}) {
    const Matrix<double> any_matrix = random_matrix<double>(n, n, 1);
    const Matrix<double> positive =
        any_matrix * any_matrix.transpose() + Matrix<double>::Identity(n, n) * (static_cast<double>(n) * 1e3);
    const CholeskyFactor factor(distribute<Shard<0>, Replicate>(mesh, positive));
    const auto w = factor.factor();
    static_assert(std::is_same_v<decltype(w), const Tensor<double, 2, Grid, Shard<0>, Shard<0>>>);
    const Matrix<double> whole = full_tensor(w), off = whole * whole.transpose() - positive;
    CHECK(excess<double>(off, static_cast<double>(n) * norm_1(positive)) <= 1);
    const double expected =
        n == 0 ? 0 : 2 * Eigen::LLT<Matrix<double>>(positive).matrixLLT().diagonal().array().log().sum();
    CHECK(factor.log_determinant() == doctest::Approx(expected).epsilon(1e-13));
  }
}
TEST_CASE("the row whose pivot is not positive, in turned rounds too") {
  const Grid mesh = grid();
  for (const Index row : {0, 17, 40, 63, 89}) {
    Matrix<double> a = Matrix<double>::Identity(90, 90);
    a(row, row) = -1;
    CHECK_THROWS_WITH(CholeskyFactor(distribute<Shard<0>, Shard<0>>(mesh, a)),
                      doctest::Contains(("the pivot of row " + std::to_string(row) + " is").c_str()));
  }
}
TEST_CASE("residuals in other layouts, and a right side without columns") {
  check<double, Shard<1>, Replicate, Shard<1>, Shard<1>>(40, 5);
  check<double, Reduced, Shard<0>, Reduced, Shard<0>>(40, 4);
  check<double, Shard<0>, Shard<1>, Shard<0>, Shard<1>>(40, 0);
}
TEST_CASE("a vector on the right") {
  const Grid mesh = grid();
  const Matrix<double> a = random_matrix<double>(50, 50, 3);
  const Eigen::VectorXd b = random_matrix<double>(50, 1, 4);
  const auto x = solve(distribute<Shard<0>, Shard<1>>(mesh, a), distribute<Shard<0>, Replicate>(mesh, b));
  CHECK((a * full_tensor(x) - b).norm() <= 1e-10);
}
TEST_CASE("rows that must be exchanged, all on one rank or all in reverse") {
  const Grid mesh = grid();
  for (const Index n : {5, 64, 150}) {
    Matrix<double> a = Matrix<double>::Zero(n, n);
    for (Index i = 0; i < n; ++i) a(i, n - 1 - i) = static_cast<double>(i + 1);
    const Matrix<double> b = random_matrix<double>(n, 2, 5);
    CHECK(residual<double>(a,
                           full_tensor(solve(distribute<Shard<0>, Shard<0>>(mesh, a),
                                             distribute<Shard<0>, Shard<0>>(mesh, b))),
                           b) <= 1);
  }
}

TEST_CASE("what cannot be solved is the same error on every rank") {
  const Grid mesh = grid();
  const auto b = zeros<double, Shard<0>, Replicate>(mesh, {40, 1});
  Matrix<double> a = random_matrix<double>(40, 40, 6);
  a.col(7) = a.col(3);
  const std::string singular =
      message_of<std::runtime_error>([&] { solve(distribute<Shard<0>, Shard<1>>(mesh, a), b); });
  (void)singular;  // rounding may leave a pivot: see the next one
  a.col(7).setZero();
  CHECK(message_of<std::runtime_error>([&] { solve(distribute<Shard<0>, Shard<1>>(mesh, a), b); }) ==
        "solve: the matrix is singular, or its numbers overflow: column 7 has no pivot");
  a(20, 11) = std::numeric_limits<double>::quiet_NaN();
  for (const Index row : {20, 39, 0}) {  // which column has no pivot depends on the number of ranks
    a(row, 11) = std::numeric_limits<double>::quiet_NaN();
    CHECK(message_of<std::runtime_error>([&] { solve(distribute<Shard<0>, Shard<1>>(mesh, a), b); }) ==
          "solve: row " + std::to_string(std::min<Index>(row, 20)) + " of the matrix is not finite");
  }
  Matrix<double> p = Matrix<double>::Identity(40, 40);
  p(33, 33) = -1;
  CHECK(message_of<std::runtime_error>([&] { CholeskyFactor(distribute<Shard<0>, Shard<1>>(mesh, p)); }) ==
        "CholeskyFactor: the matrix is not positive definite, or not finite: the pivot of row 33 is not a "
        "positive number");
  p(33, 33) = 1;
  p(2, 31) = 0.01;
  CHECK(message_of<std::invalid_argument>([&] { CholeskyFactor(distribute<Shard<0>, Shard<1>>(mesh, p)); }) ==
        "CholeskyFactor: the matrix is not symmetric: row 2 is not equal to column 2");
  p(2, 31) = p(31, 2) = std::numeric_limits<double>::infinity();
  CHECK(message_of<std::runtime_error>([&] { CholeskyFactor(distribute<Shard<0>, Shard<1>>(mesh, p)); }) ==
        "CholeskyFactor: row 2 of the matrix is not finite");
  const Grid other(world(), {1, any});
  CHECK(message_of<std::invalid_argument>([&] {
          CholeskyFactor(distribute<Shard<0>, Shard<1>>(mesh, Matrix<double>::Identity(40, 40)))
              .solve(zeros<double, Shard<0>, Replicate>(other, {40, 1}));
        }) == "CholeskyFactor: the right side lives on another mesh than the matrix");
  CHECK(message_of<std::invalid_argument>([&] {
          solve(zeros<double, Shard<0>, Shard<1>>(mesh, {40, 39}), b);
        }) == "solve: a matrix [40 x 39] is not square");
  CHECK(message_of<std::invalid_argument>([&] {
          solve(zeros<double, Shard<0>, Shard<1>>(mesh, {39, 39}), b);
        }) == "solve: the right side [40 x 1] does not have the 39 rows of the matrix");
}

/// Gradients of the sum of x · dx, and of 3 ln det A if `positive`, which takes a factor instead of `solve`.
template <class PA0, class PA1, class PB0, class PB1>
void check_gradients(bool positive) {
  const Grid mesh = grid();
  const Index n = 12, r = 3;
  Matrix<double> a = random_matrix<double>(n, n, 1) + Matrix<double>::Identity(n, n) * 8;
  const Matrix<double> b = random_matrix<double>(n, r, 2), dx = random_matrix<double>(n, r, 3);
  if (positive) a = a * a.transpose();
  Tape tape;
  auto left = tape.input(distribute<PA0, PA1>(mesh, a));
  auto right = tape.input(distribute<PB0, PB1>(mesh, b));
  const auto loss_of = [&](const auto& x) {
    return redistribute<Replicate, Replicate>(sum(mul(x, tape.constant(distribute<PB0, PB1>(mesh, dx)))));
  };
  const Matrix<double> solution = a.householderQr().solve(b), db = a.transpose().householderQr().solve(dx);
  Matrix<double> da = -db * solution.transpose();
  if (positive) {
    const CholeskyFactor factor(left);
    tape.backward(loss_of(factor.solve(right)) + 3 * factor.log_determinant());
    da += 3 * a.householderQr().solve(Matrix<double>::Identity(n, n));
  } else {
    tape.backward(loss_of(solve(left, right)));
  }
  CHECK((full_tensor(redistribute<Replicate, Replicate>(right.gradient())) - db).norm() <= 1e-12);
  CHECK((full_tensor(redistribute<Replicate, Replicate>(left.gradient())) - da).norm() <= 1e-12);
}
TEST_CASE("gradients") {
  for (const bool positive : {false, true}) {
    check_gradients<Shard<0>, Shard<1>, Shard<0>, Shard<1>>(positive);
    check_gradients<Replicate, Replicate, Replicate, Replicate>(positive);
    check_gradients<Reduced, Shard<0>, Shard<0>, Shard<0>>(positive);
  }
}
TEST_CASE("a constant matrix has no gradient, and its right side has") {
  const Grid mesh = grid();
  const Matrix<double> a = Matrix<double>::Identity(5, 5) * 4;
  Tape tape;
  const CholeskyFactor factor(tape.constant(distribute<Shard<0>, Shard<1>>(mesh, a)));
  static_assert(std::is_same_v<decltype(factor.log_determinant()),
                               Var<Tensor<double, 0, Grid, Replicate, Replicate>, false>>);
  CHECK(item(factor.log_determinant()) == doctest::Approx(5 * std::log(4.)));
  auto b = tape.input(full<double, Replicate, Replicate>(mesh, {5}, 1.));
  tape.backward(sum(factor.solve(b)));
  CHECK((full_tensor(b.gradient()).array() - 0.25).abs().maxCoeff() <= 1e-15);
}
TEST_CASE("the inverse") {
  const Grid mesh = grid();
  for (const Index n : {0, 1, 2, 50}) {
    const Matrix<double> any_matrix = random_matrix<double>(n, n, 1);
    const Matrix<double> positive = any_matrix * any_matrix.transpose() + Matrix<double>::Identity(n, n);
    const auto inverse = CholeskyFactor(distribute<Shard<0>, Shard<1>>(mesh, positive)).inverse();
    static_assert(std::is_same_v<decltype(inverse), const Tensor<double, 2, Grid, Shard<0>, Shard<0>>>);
    CHECK(residual<double>(positive, full_tensor(inverse), Matrix<double>::Identity(n, n)) <= 1);
  }
}
/// A module's calls are checked by types alone.
struct Likelihood : Module<Likelihood> {
  constexpr auto forward(const auto& a, const auto& b) const {
    const CholeskyFactor factor(a);
    return sum(mul(b, factor.solve(b))) + factor.log_determinant();
  }
  void visit(auto&&) {}
};
TEST_CASE("a factor in a module") {
  const Grid mesh = grid();
  Tape tape;
  const auto a =
      tape.input(distribute<Shard<0>, Replicate>(mesh, Matrix<double>(Matrix<double>::Identity(9, 9) * 2)));
  const auto loss = Likelihood()(a, tape.constant(full<double, Replicate, Replicate>(mesh, {9}, 1.)));
  CHECK(item(loss) == doctest::Approx(4.5 + 9 * std::log(2.)));
  tape.backward(loss);
}

TEST_CASE("a run makes the collectives of its plan") {
  const Grid mesh = grid();
  const auto run = [](const auto& on) {
    const auto b = full<double, Shard<0>, Replicate>(on, {90, 2}, 1.);
    auto a = full<double, Shard<0>, Shard<0>>(on, {90, 90}, 0.);
    if (!on.dry()) {
      const auto view = a.writable();
      for (Index i = 0; i < view.size[0]; ++i) view.data[i * 90 + view.begin[0] + i] = 1;
    }
    solve(a, b);
    CholeskyFactor(a).solve(b);
  };
  Recording recording(mesh);
  run(mesh);
  CHECK(same_communication(recording.plan(), trace<Grid>({mesh.sizes()[0], mesh.sizes()[1]}, run,
                                                         {mesh.rank<dp>(), mesh.rank<tp>()})));
}

// In the compiler: a step of a Cholesky factorization gathers its rows, so a rank receives half the matrix and a
// little.
constexpr auto plan = trace<Mesh<tp>>({4}, [](const auto& mesh) {
  CholeskyFactor(empty<double, Shard<0>>(mesh, {512, 512}));
});
static_assert(plan.count(Collective::all_gather) + 1 ==
              plan.collectives());  // and one sum, for the check of symmetry
static_assert(plan.received_bytes() <= 512 * 512 * 8 * 3 / 4 * 6 / 10);
static_assert(plan.flops() <= 2 * (512l * 512 * 512 / 3) / 4 + 512l * 512 * 64);

}  // namespace
}  // namespace shardwise::testing::linalg_solve
