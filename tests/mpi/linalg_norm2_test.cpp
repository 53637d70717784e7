// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// `norm2`: its bounds enclose the largest singular value, for spectra of every kind, in every layout.

#include <Eigen/SVD>
#include <shardwise/linalg/norm2.hpp>
#include <shardwise/shardwise.hpp>
#include <support/matrices.hpp>

#include "ops_check.hpp"

namespace shardwise::testing::linalg_norm2 {
namespace {

using Grid = Mesh<dp, tp>;

/// a with these singular values, in random directions.
Matrix<double> with_values(Index m, const Eigen::VectorXd& values) {
  const Index n = values.size();
  return product(product(conditioned<double>(m, n, 1, 1), Matrix<double>(values.asDiagonal())),
                 conditioned<double>(n, n, 1, 2));
}

template <class T, class... P>
double check(const Matrix<double>& of, double norm, const Norm2Options& options = {}) {
  const Matrix<T> a = of.template cast<T>();
  CAPTURE(a.rows());
  CAPTURE(a.cols());
  CAPTURE(norm);
  CAPTURE(options.tolerance);
  const auto [value, error] = norm2(distribute<P...>(grid(), a), options);
  const double rounding =
      4 * std::sqrt(static_cast<double>(a.cols() + 10)) * std::numeric_limits<T>::epsilon();
  const double tolerance = std::max(options.tolerance, 32. * std::numeric_limits<T>::epsilon());
  CHECK(value <= norm * (1 + rounding));
  CHECK(value + error >= norm * (1 - rounding));
  CHECK(error >= 0);
  CHECK(error <= tolerance * value * (1 + 1e-9));
  return value;
}
template <class... P>
void check_both(const Matrix<double>& a, double norm) {
  for (const double tolerance : {0.1, 1e-3, 1e-6}) {
    check<double, P...>(a, norm, {.tolerance = tolerance});
    check<float, P...>(a, norm, {.tolerance = tolerance, .seed = 7});
  }
}

TEST_CASE("norm2: bounds of the largest singular value, whatever the others are") {
  for (const Index n : {1, 2, 3, 20, 150}) {
    Eigen::VectorXd values =
        Eigen::VectorXd::LinSpaced(n, 1, static_cast<double>(n)) / static_cast<double>(n);
    check_both<Shard<0>, Shard<1>>(with_values(n + 9, values), 1);  // evenly spaced
    check_both<Shard<0>, Shard<0>>(with_values(n + 9, values.array().pow(-3)),
                                   std::pow(static_cast<double>(n), 3));
    values[0] = 1 + 1e-4;
    check_both<Shard<1>, Replicate>(with_values(n, values), 1 + 1e-4);  // two close together
    check_both<Reduced, Shard<0>>(with_values(n + 2, Eigen::VectorXd::Ones(n)), 1);
    values.setZero();
    values[0] = 3;
    check_both<Shard<1>, Shard<1>>(with_values(n, values), 3);  // of rank 1
    check_both<Shard<0>, Shard<1>>(with_values(n + 30, values).transpose(), 3);
  }
  const Matrix<double> noise = random_matrix<double>(200, 200, 3);
  const double largest = Eigen::BDCSVD<Eigen::MatrixXd>(noise).singularValues()[0];
  check_both<Shard<0>, Replicate>(noise, largest);
  check<double, Shard<0>, Shard<1>>(noise, largest, {.tolerance = 1e-13});
  for (std::uint64_t seed = 0; seed < 30; ++seed)
    check<double, Shard<1>, Shard<0>>(noise, largest, {.tolerance = 0.02, .seed = seed});
}

TEST_CASE("norm2: numbers of any size, zeros, and what is not a number") {
  const Matrix<double> a = with_values(30, Eigen::VectorXd::LinSpaced(20, 1, 2));
  const double value = check<double, Shard<0>, Replicate>(a, 2);
  CHECK(check<double, Shard<0>, Replicate>(std::ldexp(1., 1000) * a, std::ldexp(2., 1000)) ==
        std::ldexp(value, 1000));
  CHECK(check<double, Shard<0>, Replicate>(std::ldexp(1., -900) * a, std::ldexp(2., -900)) ==
        std::ldexp(value, -900));
  check<float, Shard<1>, Replicate>(1e37 * a, 2e37);
  check<float, Shard<1>, Replicate>(1e-30 * a, 2e-30);
  for (const auto& [m, n] : {std::pair<Index, Index>{0, 5}, {5, 0}, {0, 0}, {5, 7}}) {
    const auto [norm, error] = norm2(full<double, Shard<0>, Shard<1>>(grid(), {m, n}, 0.));
    CHECK(norm == 0);
    CHECK(error == 0);
  }
  for (const double bad : {std::nan(""), HUGE_VAL}) {
    Matrix<double> b = a;
    b(17, 3) = bad;
    CHECK_THROWS_WITH_AS(norm2(distribute<Shard<0>, Shard<1>>(grid(), b)),
                         "norm2: row 17 of the matrix is not finite", std::runtime_error);
  }
  CHECK_THROWS_WITH_AS(norm2(distribute<Shard<0>, Shard<1>>(grid(), a), {.tolerance = 0}),
                       "norm2: the tolerance is 0, expected above 0", std::invalid_argument);
}

}  // namespace
}  // namespace shardwise::testing::linalg_norm2
