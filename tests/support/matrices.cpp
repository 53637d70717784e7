// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// What takes time in matrices.hpp. This file is optimized; the tests themselves are not.

#include <Eigen/Eigenvalues>
#include <Eigen/QR>
#include <cmath>
#include <support/matrices.hpp>

namespace shardwise::testing {

Matrix<double> product(const Matrix<double>& a, const Matrix<double>& b) { return a * b; }

double smallest_eigenvalue(const Matrix<double>& symmetric) {
  return Eigen::SelfAdjointEigenSolver<Matrix<double>>(symmetric, Eigen::EigenvaluesOnly).eigenvalues()[0];
}

Matrix<double> conditioned(Index m, Index n, double condition, std::uint64_t seed) {
  if (n == 0) return Matrix<double>(m, 0);
  const auto orthonormal = [](Index rows, Index columns, std::uint64_t s) -> Matrix<double> {
    const Eigen::HouseholderQR<Matrix<double>> f(random_matrix<double>(rows, columns, s));
    return f.householderQ() * Matrix<double>::Identity(rows, columns);
  };
  Matrix<double> scaled = orthonormal(m, n, seed);
  for (Index j = 0; j < n; ++j) {
    scaled.col(j) *= std::pow(condition, n > 1 ? -static_cast<double>(j) / static_cast<double>(n - 1) : 0.);
  }
  return scaled * orthonormal(n, n, seed + 1).transpose();
}

}  // namespace shardwise::testing
