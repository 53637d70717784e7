// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// QR with column pivoting of a whole matrix of `float` or `double`. The implementation is that of kernel/factor.hpp.

#include <shardwise/kernel/factor.hpp>

namespace shardwise::kernel {

/// The upper triangular r [n, n] of a[:, permutation] = q · r, where a is [m, n] with m ≥ n. Each column is the largest
/// of those that are left.
template <class T>
void pivoted_triangle(Index m, Index n, const T* a, T* r, Index* permutation) {
  std::fill_n(r, n * n, T{0});
  if (n == 0) return;
  using Matrix = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic>;
#if defined(SHARDWISE_GEMM_BLAS)
  struct Columns;
  struct Factors;
  const int rows = detail::lapack_int(m), width = detail::lapack_int(n);
  int info = 0;
  T *copy = scratch<Columns, T>(m * n), *tau = scratch<Factors, T>(n);
  Eigen::Map<Matrix> columns(copy, m, n);
  columns = detail::mapped(m, n, a);
  std::vector<int> order(static_cast<std::size_t>(n), 0);
  detail::with_lapack_work<T>([&](T* work, const int* size) {
    detail::Lapack<T>::geqp3(&rows, &width, copy, &rows, order.data(), tau, work, size, &info);
  });
  for (std::size_t j = 0; j < order.size(); ++j) permutation[j] = order[j] - 1;
  detail::mapped(n, n, r).template triangularView<Eigen::Upper>() = columns.topRows(n);
#else
  const Eigen::ColPivHouseholderQR<Matrix> f(detail::mapped(m, n, a));
  for (Index j = 0; j < n; ++j) permutation[j] = f.colsPermutation().indices()[j];
  detail::mapped(n, n, r).template triangularView<Eigen::Upper>() = f.matrixQR().topRows(n);
#endif
}

}  // namespace shardwise::kernel
