// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Matrices for the tests of linear algebra, and how far a factorization is from exact, in units of its bound.

#include <Eigen/Core>
#include <cstdint>
#include <limits>
#include <shardwise/kernel/random.hpp>

namespace shardwise::testing {

template <class T>
using Matrix = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

/// Normal numbers.
template <class T>
Matrix<T> random_matrix(Index m, Index n, std::uint64_t seed) {
  Matrix<T> x(m, n);
  kernel::fill_normal(m * n, seed, 0, 0., 1., x.data());
  return x;
}

/// a · b.
Matrix<double> product(const Matrix<double>& a, const Matrix<double>& b);

double smallest_eigenvalue(const Matrix<double>& symmetric);

/// An m x n matrix (m ≥ n) whose singular values fall from 1 to 1 / condition, in equal ratios.
Matrix<double> conditioned(Index m, Index n, double condition, std::uint64_t seed);
template <class T>
Matrix<T> conditioned(Index m, Index n, double condition, std::uint64_t seed) {
  return conditioned(m, n, condition, seed).template cast<T>();
}

/// The largest sum of the magnitudes of a column.
template <class Derived>
double norm_1(const Eigen::MatrixBase<Derived>& x) {
  if (x.size() == 0) return 0;
  return x.template cast<double>().cwiseAbs().colwise().sum().maxCoeff();
}

/// ‖difference‖₁ / scale, as a multiple of the bound 25 ε of `T`: at most 1 where a factorization is good.
template <class T, class Derived>
double excess(const Eigen::MatrixBase<Derived>& difference, double scale) {
  const double off = norm_1(difference);
  if (!(off > 0)) return off;
  return off / (25. * static_cast<double>(std::numeric_limits<T>::epsilon()) * scale);
}

template <class T>
Matrix<double> wide(const Matrix<T>& x) {
  return x.template cast<double>();
}

/// How far q is from orthonormal columns, and q · r from a.
template <class T>
double qr_excess(const Matrix<T>& a, const Matrix<T>& q, const Matrix<T>& r) {
  const double off =
      excess<T>(product(wide(q), wide(r)) - wide(a), static_cast<double>(a.rows()) * norm_1(a));
  const Matrix<double> products = product(wide(q).transpose(), wide(q));
  return std::max(
      off, excess<T>(products - Matrix<double>::Identity(q.cols(), q.cols()), static_cast<double>(q.cols())));
}

}  // namespace shardwise::testing
