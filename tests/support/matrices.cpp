// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// What takes time in matrices.hpp. This file is optimized; the tests themselves are not.

#include <Eigen/Eigenvalues>
#include <cmath>
#include <support/matrices.hpp>

namespace shardwise::testing {

Matrix<double> product(const Matrix<double>& a, const Matrix<double>& b) {
  Matrix<double> c = Matrix<double>::Zero(a.rows(), b.cols());
  for (Index i = 0; i < a.rows(); ++i) {
    for (Index k = 0; k < a.cols(); ++k) c.row(i) += a(i, k) * b.row(k);
  }
  return c;
}

double smallest_eigenvalue(const Matrix<double>& symmetric) {
  return Eigen::SelfAdjointEigenSolver<Matrix<double>>(symmetric, Eigen::EigenvaluesOnly).eigenvalues()[0];
}

namespace {

/// Orthonormal rows, from random ones: Gram-Schmidt, twice.
Matrix<double> orthonormal_rows(Index rows, Index columns, std::uint64_t seed) {
  Matrix<double> q = random_matrix<double>(rows, columns, seed);
  for (Index i = 0; i < rows; ++i) {
    for (int twice = 0; twice < 2; ++twice) {
      for (Index j = 0; j < i; ++j) q.row(i) -= q.row(i).dot(q.row(j)) * q.row(j);
    }
    q.row(i).normalize();
  }
  return q;
}

}  // namespace

Matrix<double> conditioned(Index m, Index n, double condition, std::uint64_t seed) {
  Matrix<double> scaled = orthonormal_rows(n, m, seed).transpose();
  for (Index j = 0; j < n; ++j) {
    scaled.col(j) *= std::pow(condition, n > 1 ? -static_cast<double>(j) / static_cast<double>(n - 1) : 0.);
  }
  return product(scaled, orthonormal_rows(n, n, seed + 1));
}

}  // namespace shardwise::testing
