// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// Functions of matrices: `polar`, `sqrtm` and `inverse_root` by their residuals, up to condition numbers near 1 / ε.

#include <shardwise/linalg/functions.hpp>
#include <shardwise/shardwise.hpp>
#include <support/matrices.hpp>

#include "ops_check.hpp"

namespace shardwise::testing::linalg_functions {
namespace {

using Grid = Mesh<dp, tp>;

template <class T>
Matrix<T> identity(Index n) {
  return Matrix<T>::Identity(n, n);
}
/// A symmetric positive definite matrix whose eigenvalues fall from 1 to 1 / condition.
template <class T>
Matrix<T> positive(Index n, double condition) {
  const Matrix<double> x = conditioned<double>(n, n, std::sqrt(condition), 5);
  return (x * x.transpose()).template cast<T>();
}

template <class T, class... P>
void check_polar(Index m, Index n, double condition) {
  CAPTURE(m);
  CAPTURE(n);
  CAPTURE(condition);
  const Grid mesh = grid();
  const Matrix<T> a = conditioned<T>(m, n, condition, 1);
  const auto [u, h] = polar(distribute<P...>(mesh, a));
  static_assert(std::is_same_v<decltype(u), const Tensor<T, 2, Grid, P...>>);
  const Matrix<T> of_u = full_tensor(u), of_h = full_tensor(h);
  CHECK(qr_excess<T>(a, of_u, of_h) <= 1);
  CHECK(norm_1(of_h - of_h.transpose()) == 0);
  if (n == 0) return;
  CHECK(smallest_eigenvalue(wide(of_h)) >= -10. * std::numeric_limits<T>::epsilon());
}
void check_orthonormal(const Matrix<double>& a) {
  CAPTURE(a.rows());
  const Matrix<double> u = full_tensor(polar(distribute<Shard<0>, Shard<1>>(grid(), a)).u);
  CHECK(norm_1(u.transpose() * u - identity<double>(a.cols())) <= 1e-12);
}
TEST_CASE("polar: orthonormal columns and a small residual, whatever the condition is") {
  for (const Index n : {0, 1, 2, 7, 100}) {
    for (const double condition : {1., 1e3, 1e12}) check_polar<double, Shard<0>, Shard<1>>(n, n, condition);
    check_polar<float, Shard<0>, Replicate>(n, n, 1e5);
    check_polar<double, Shard<1>, Shard<1>>(n + 10, n, 1e12);
  }
  check_polar<double, Replicate, Replicate>(40, 40, 1e10);
  check_polar<float, Reduced, Shard<1>>(40, 40, 10);
  check_polar<double, Shard<0>, Shard<0>>(40, 40, 1e2);
  check_polar<double, Replicate, Shard<0>>(50, 20, 1e2);
}

template <class T, class... P>
void check_roots(Index n, double condition) {
  CAPTURE(n);
  CAPTURE(condition);
  const Grid mesh = grid();
  const Matrix<T> a = positive<T>(n, condition);
  const auto x = distribute<P...>(mesh, a);
  const auto y = sqrtm(x);
  static_assert(std::is_same_v<decltype(y), const Tensor<T, 2, Grid, P...>>);
  const Matrix<double> root = wide(Matrix<T>(full_tensor(y)));
  const double size = static_cast<double>(std::max<Index>(n, 1));
  CHECK(excess<T>(product(root, root) - wide(a), size * std::sqrt(condition) * norm_1(a)) <= 1);
  const Matrix<double> half = wide(Matrix<T>(full_tensor(inverse_root<2>(x)))),
                       fourth = wide(Matrix<T>(full_tensor(inverse_root<4>(x))));
  CHECK(excess<T>(product(product(half, wide(a)), half) - identity<double>(n), size * condition) <= 1);
  CHECK(excess<T>(
            product(product(product(fourth, fourth), wide(a)), product(fourth, fourth)) - identity<double>(n),
            size * condition) <= 1);
  CHECK(norm_1(half - half.transpose()) == 0);
}
TEST_CASE("sqrtm and inverse_root: residuals") {
  for (const Index n : {0, 1, 2, 7, 100}) {
    for (const double condition : {1., 1e3, 1e9}) check_roots<double, Shard<0>, Shard<1>>(n, condition);
    check_roots<float, Shard<1>, Replicate>(n, 1e3);
  }
  check_roots<double, Replicate, Replicate>(40, 10);
  check_roots<double, Shard<0>, Shard<0>>(40, 10);
}

TEST_CASE("numbers in float whose squares overflow or vanish") {
  const Grid mesh = grid();
  for (const float unit : {1e-25f, 1e25f}) {
    const Matrix<float> a = positive<float>(7, 10) * unit;
    const auto x = distribute<Shard<0>, Shard<1>>(mesh, a);
    const Matrix<double> root = wide(Matrix<float>(full_tensor(sqrtm(x))));
    CHECK(excess<float>(root * root - wide(a), 7 * norm_1(a)) <= 1);
    CHECK(norm_1(wide(Matrix<float>(full_tensor(polar(x).u))) - identity<double>(7)) <= 1e-4);
  }
}

/// Each number of ranks makes other rounding errors of the inverse of such a matrix.
TEST_CASE("polar of a matrix that is singular up to rounding errors is an error, and of others orthonormal") {
  const Grid mesh = grid();
  const auto by = [](Index m, Index n, auto f) {
    Matrix<double> a(m, n);
    for (Index i = 0; i < m; ++i)
      for (Index j = 0; j < n; ++j) a(i, j) = f(static_cast<double>(i), static_cast<double>(j));
    return a;
  };
  const auto hilbert = [](double i, double j) { return 1 / (i + j + 1); };
  const auto sines = [](double i, double j) { return std::sin(i + 0.3 * j); };
  Matrix<double> magic(4, 4);
  magic << 16, 2, 3, 13, 5, 11, 10, 8, 9, 7, 6, 12, 4, 14, 15, 1;
  for (const Matrix<double>&a : {magic, by(5, 5, sines), by(15, 15, hilbert), by(9, 5, sines),
                                 by(3, 3, [](double i, double j) { return 3 * i + j + 1; }),
                                 by(6, 6, [](double i, double j) { return (i + 1) * (j + 1); })}) {
    CAPTURE(a.rows());
    for (const double unit : {1., 1e-170, 1e160}) {
      const std::string message = message_of<std::runtime_error>(
          [&] { polar(distribute<Shard<0>, Shard<1>>(mesh, Matrix<double>(a * unit))); });
      CHECK(message.find(
                "polar: the matrix is singular up to rounding errors: its condition number is above ") == 0);
    }
  }
  for (const Index n : {4, 8, 11}) check_orthonormal(by(n, n, hilbert));
  for (const double condition : {1e13, 1e14}) check_orthonormal(conditioned<double>(20, 20, condition, 3));
}

TEST_CASE("numbers in double whose squares overflow or vanish") {
  const Grid mesh = grid();
  for (const double unit : {1e-300, 1e-170, 1e160, 1e300, 1.2e308}) {
    CAPTURE(unit);
    const Matrix<double> a = identity<double>(5) * unit;
    const auto x = distribute<Shard<0>, Shard<1>>(mesh, a);
    const auto near = [](const auto& y, double expected) {
      return norm_1(Matrix<double>(full_tensor(y)) / expected - identity<double>(5)) <= 1e-13;
    };
    CHECK(near(polar(x).u, 1));
    CHECK(near(polar(x).h, unit));
    CHECK(near(sqrtm(x), std::sqrt(unit)));
    CHECK(near(inverse_root<2>(x), 1 / std::sqrt(unit)));
    const Matrix<double> tall = a.leftCols(3);
    CHECK(norm_1(Matrix<double>(full_tensor(polar(distribute<Shard<0>, Replicate>(mesh, tall)).u)) -
                 tall / unit) <= 1e-13);
  }
}

TEST_CASE("what has no such function is the same error on every rank") {
  const Grid mesh = grid();
  const auto cut = [&](const Matrix<double>& x) { return distribute<Shard<0>, Shard<1>>(mesh, x); };
  Matrix<double> a = identity<double>(20);
  a(7, 7) = 0;
  const std::string singular =
      "polar: the matrix is singular up to rounding errors: its condition number is above 1007035491024315";
  CHECK(message_of<std::runtime_error>([&] { polar(cut(a)); }) == singular);
  CHECK(message_of<std::runtime_error>([&] { polar(cut(0. * a)); }) == singular);
  a(7, 7) = -1;
  CHECK(message_of<std::runtime_error>([&] { sqrtm(cut(a)); }) ==
        "sqrtm: the matrix is not positive definite, or not finite: the pivot of row 7 is not a positive "
        "number");
  for (const double value :
       {std::numeric_limits<double>::infinity(), std::numeric_limits<double>::quiet_NaN()}) {
    a(7, 2) = a(12, 12) = value;
    CHECK(message_of<std::runtime_error>([&] { polar(cut(a)); }) ==
          "polar: row 7 of the matrix is not finite");
    CHECK(message_of<std::runtime_error>([&] { polar(cut(a.leftCols(15))); }) ==
          "polar: row 7 of the matrix is not finite");
    CHECK(message_of<std::runtime_error>([&] { inverse_root<2>(cut(a)); }) ==
          "inverse_root: row 7 of the matrix is not finite");
    CHECK(message_of<std::runtime_error>([&] { solve(cut(a), cut(a)); }) ==
          "solve: row 7 of the matrix is not finite");
  }
  const Matrix<double> wide_one = random_matrix<double>(5, 6, 1);
  CHECK(message_of<std::invalid_argument>([&] { polar(cut(wide_one)); }) ==
        "polar: a matrix of [5 x 6] has more columns than rows");
  CHECK(message_of<std::invalid_argument>([&] { sqrtm(cut(wide_one)); }) ==
        "sqrtm: a matrix [5 x 6] is not square");
}

TEST_CASE("the work of a plan, in products of the matrix") {
  const auto products = [](auto f) {
    const auto plan = trace<Mesh<tp>>({4}, [&](const auto& mesh) {
      f(empty<double, Shard<0>>(mesh, {1024, 1024}));
    });
    return static_cast<double>(plan.flops()) / (2. * 1024 * 1024 * 1024 / 4);
  };
  CHECK(products([](const auto& a) { polar(a); }) <= 15);
  CHECK(products([](const auto& a) { sqrtm(a); }) <= 25);
}

TEST_CASE("a run makes the collectives of its plan") {
  const Grid mesh = grid();
  const auto run = [](const auto& on) {
    const auto a = detail::identity_like(full<double, Shard<0>, Shard<1>>(on, {30, 30}, 0.));
    polar(a);
    inverse_root<4>(a);
  };
  Recording recording(mesh);
  run(mesh);
  CHECK(same_communication(recording.plan(), trace<Grid>({mesh.sizes()[0], mesh.sizes()[1]}, run,
                                                         {mesh.rank<dp>(), mesh.rank<tp>()})));
}

}  // namespace
}  // namespace shardwise::testing::linalg_functions
