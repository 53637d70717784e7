// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Eigenvalues of symmetric matrices, and singular values, of whole matrices of `float` or `double`, row-major and
/// without gaps. The implementation is that of kernel/factor.hpp.

#include <shardwise/kernel/factor.hpp>
#include <shardwise/kernel/sums.hpp>

#if !defined(SHARDWISE_GEMM_BLAS)
#include <Eigen/Eigenvalues>
#endif

namespace shardwise::kernel {

namespace detail {

template <class T>
bool all_finite(Index n, const T* x) {
  const NonFinite found = count_non_finite(n, x);
  return found.nans + found.infinities == 0;
}

}  // namespace detail

/// (a + aᵀ) / 2 = v · diag(w) · vᵀ, all [n, n], w [n] in increasing order. Returns false if a is not finite, or if the
/// iteration does not converge.
template <class T>
bool eigh(Index n, const T* a, T* w, T* v) {
  if (!detail::all_finite(n * n, a)) return false;
  if (n == 0) return true;
  auto vectors = detail::mapped(n, n, v);
  vectors =
      detail::mapped(n, n, a) / T{2} + detail::mapped(n, n, a).transpose() / T{2};  // the sum may overflow
#if defined(SHARDWISE_GEMM_BLAS)
  const int size = detail::lapack_int(n);
  int info = 0, integers = 0, query = -1;
  T best = 0;
  detail::Lapack<T>::syevd("V", "L", &size, v, &size, w, &best, &query, &integers, &query, &info);
  std::vector<int> indices(static_cast<std::size_t>(integers));
  detail::with_lapack_work<T>([&](T* work, const int* bytes) {
    const int* count = *bytes < 0 ? bytes : &integers;
    detail::Lapack<T>::syevd("V", "L", &size, v, &size, w, work, bytes, indices.data(), count, &info);
  });
  vectors.transposeInPlace();
  return info == 0;
#else
  const Eigen::SelfAdjointEigenSolver<Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic>> f(vectors);
  if (f.info() != Eigen::Success) return false;
  vectors = f.eigenvectors();
  std::copy_n(f.eigenvalues().data(), n, w);
  return true;
#endif
}

#if !defined(SHARDWISE_GEMM_BLAS)
namespace detail {

/// The SVD of a finite a [m, n] with m ≥ n by rotations that make its columns orthogonal (Hestenes, 1958). Eigen's own
/// takes a minute to compile.
template <class T, class Matrix>
bool jacobi_svd(Index m, Index n, const Matrix& a, T* u, T* s, T* v) {
  struct Columns;
  const T tolerance = std::numeric_limits<T>::epsilon() * std::sqrt(static_cast<T>(m));
  const T largest = a.cwiseAbs().maxCoeff(), unit = largest > 0 ? largest : T{1};
  const Index length = m + n;  // a column of a, and one of v
  auto columns = mapped(n, length, scratch<Columns, T>(n * length));
  columns.leftCols(m) = a.transpose() / unit;
  columns.rightCols(n).setIdentity();
  bool rotated = true;
  for (int sweep = 0; rotated; ++sweep) {
    if (sweep == 60) return false;
    rotated = false;
    for (Index i = 0; i < n; ++i) {
      for (Index j = i + 1; j < n; ++j) {
        const auto x = columns.row(i).head(m), y = columns.row(j).head(m);
        const T xx = x.squaredNorm(), yy = y.squaredNorm(), xy = x.dot(y);
        const T least = std::max(tolerance * std::sqrt(xx) * std::sqrt(yy), std::numeric_limits<T>::min());
        if (!(std::abs(xy) > least)) continue;  // also of squares that underflow
        rotated = true;
        const T half = (yy - xx) / (2 * xy);
        const T t = (half < 0 ? -1 : 1) / (std::abs(half) + std::hypot(T{1}, half));
        const T cosine = 1 / std::hypot(T{1}, t), sine = cosine * t;
        T *p = &columns(i, 0), *q = &columns(j, 0);
        for (Index k = 0; k < length; ++k) {
          const T before = p[k];
          p[k] = cosine * before - sine * q[k];
          q[k] = sine * before + cosine * q[k];
        }
      }
    }
  }
  std::vector<std::pair<T, Index>> order;
  for (Index i = 0; i < n; ++i) order.emplace_back(-columns.row(i).head(m).norm(), i);
  std::sort(order.begin(), order.end());
  for (Index i = 0; i < n; ++i) {
    const auto column = columns.row(order[static_cast<std::size_t>(i)].second);
    mapped(m, n, u).col(i) = column.head(m).transpose();
    mapped(n, n, v).col(i) = column.tail(n).transpose();
  }
  // A QR completes u where a singular value is 0.
  std::vector<T> r(static_cast<std::size_t>(n * n));
  qr_of_block(m, n, u, r.data());
  for (Index i = 0; i < n; ++i) {
    s[i] = -order[static_cast<std::size_t>(i)].first * unit;
    if (r[static_cast<std::size_t>(i * n + i)] < 0) mapped(m, n, u).col(i) *= T{-1};
  }
  return true;
}

}  // namespace detail
#endif

/// a = u · diag(s) · vᵀ, where a is [m, n], u is [m, k], v is [n, k] and s is [k] in decreasing order, with
/// k = min(m, n). Returns false if a is not finite, or if the iteration does not converge.
template <class T>
bool svd(Index m, Index n, const T* a, T* u, T* s, T* v) {
  if (!detail::all_finite(m * n, a)) return false;
  const Index k = std::min(m, n);
  if (k == 0) return true;
#if defined(SHARDWISE_GEMM_BLAS)
  // For LAPACK this is aᵀ = v · diag(s) · uᵀ.
  struct Copies;
  const int rows = detail::lapack_int(m), columns = detail::lapack_int(n), rank = detail::lapack_int(k);
  int info = 0;
  T* copy = scratch<Copies, T>(m * n + n * k);
  T* right = copy + m * n;
  std::copy_n(a, m * n, copy);
  std::vector<int> indices(static_cast<std::size_t>(8 * k));
  detail::with_lapack_work<T>([&](T* work, const int* size) {
    detail::Lapack<T>::gesdd("S", &columns, &rows, copy, &columns, s, right, &columns, u, &rank, work, size,
                             indices.data(), &info);
  });
  detail::mapped(n, k, v) = detail::mapped(k, n, right).transpose();
  return info == 0;
#else
  return m < n ? detail::jacobi_svd(n, m, detail::mapped(m, n, a).transpose(), v, s, u)
               : detail::jacobi_svd(m, n, detail::mapped(m, n, a), u, s, v);
#endif
}

}  // namespace shardwise::kernel
