// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Factorizations of whole matrices of `float` or `double`, all row-major and without gaps.
///
///     const Index pivot = cholesky(n, a, l);                                   // l · lᵀ = (a + aᵀ) / 2
///     solve_triangular<Side::left>(n, columns, {}, l, b);                      // b := l⁻¹ · b
///
/// The implementation is LAPACK if SHARDWISE_GEMM_BLAS is defined, else Eigen. OpenBLAS and MKL contain LAPACK; with
/// another BLAS a program that uses them also links LAPACK. No function hangs on NaN or infinity.

#include <limits>

#include <shardwise/kernel/gemm.hpp>

#if !defined(SHARDWISE_GEMM_BLAS)
#include <Eigen/Cholesky>
#include <Eigen/QR>
#endif

namespace shardwise::kernel {

#if defined(SHARDWISE_GEMM_BLAS)
namespace detail {

template <class T>
struct Lapack;
// NOLINTBEGIN(bugprone-macro-parentheses): types
#define SHARDWISE_LAPACK(T, letter)                                                                        \
  extern "C" {                                                                                             \
  void letter##potrf_(const char*, const int*, T*, const int*, int*);                                      \
  void letter##geqrf_(const int*, const int*, T*, const int*, T*, T*, const int*, int*);                   \
  void letter##orgqr_(const int*, const int*, const int*, T*, const int*, const T*, T*, const int*, int*); \
  void letter##syevd_(const char*, const char*, const int*, T*, const int*, T*, T*, const int*, int*,      \
                      const int*, int*);                                                                   \
  void letter##gesdd_(const char*, const int*, const int*, T*, const int*, T*, T*, const int*, T*,         \
                      const int*, T*, const int*, int*, int*);                                             \
  }                                                                                                        \
  template <>                                                                                              \
  struct Lapack<T> {                                                                                       \
    static constexpr auto potrf = &letter##potrf_;                                                         \
    static constexpr auto geqrf = &letter##geqrf_;                                                         \
    static constexpr auto orgqr = &letter##orgqr_;                                                         \
    static constexpr auto syevd = &letter##syevd_;                                                         \
    static constexpr auto gesdd = &letter##gesdd_;                                                         \
    static constexpr auto trsm = &letter##trsm_;                                                           \
    static constexpr auto syrk = &letter##syrk_;                                                           \
  };
// NOLINTEND(bugprone-macro-parentheses)
SHARDWISE_LAPACK(float, s)
SHARDWISE_LAPACK(double, d)
#undef SHARDWISE_LAPACK

inline int lapack_int(Index value) {
  if (value > std::numeric_limits<int>::max()) {
    throw std::length_error("shardwise: a matrix is too large for LAPACK, which counts in int");
  }
  return static_cast<int>(value);
}

struct LapackWork;
/// Calls f(work, &size) twice: for the best size of the working memory, and with this memory.
template <class T, class F>
void with_lapack_work(F f) {
  T best = 0;
  int size = -1;
  f(&best, &size);
  size =
      lapack_int(static_cast<Index>(best * (1 + std::numeric_limits<T>::epsilon())) + 1);  // a rounded `best`
  f(scratch<LapackWork, T>(size), &size);
}

}  // namespace detail
#endif

enum class Side : bool { left, right };

/// How a triangular matrix is stored, and whether its transpose is meant.
struct Triangular {
  bool upper = false;
  bool transposed = false;
};

namespace detail {

/// Eigen's view of n rows and `columns` columns without gaps.
template <class T>
auto mapped(Index n, Index columns, T* x) {
  using Matrix = Eigen::Matrix<std::remove_const_t<T>, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  return Eigen::Map<std::conditional_t<std::is_const_v<T>, const Matrix, Matrix>>(x, n, columns);
}

}  // namespace detail

/// c := xᵀ · x, where x is [m, n]. It computes one triangle, half the flops of a product.
template <class T>
void gram(Index m, Index n, const T* x, T* c) {
  if (n == 0) return;
  std::fill_n(c, n * n, T{0});
  auto square = detail::mapped(n, n, c);
  if (m > 0) {
#if defined(SHARDWISE_GEMM_BLAS)
    const int rows = detail::lapack_int(m), columns = detail::lapack_int(n);
    const T one = 1, zero = 0;
    detail::Lapack<T>::syrk("U", "N", &columns, &rows, &one, x, &columns, &zero, c, &columns);
#else
    square.template selfadjointView<Eigen::Lower>().rankUpdate(detail::mapped(m, n, x).transpose());
#endif
  }
  square.template triangularView<Eigen::StrictlyUpper>() = square.transpose();
}

/// l := the lower triangular factor of the symmetric part of a, (a + aᵀ) / 2 = l · lᵀ; both [n, n]. Returns the first
/// pivot that is not a positive finite number, or -1. The rows of l are NaN from this pivot on.
template <class T>
Index cholesky(Index n, const T* a, T* l) {
  if (n == 0) return -1;
  auto factor = detail::mapped(n, n, l);
  factor.setZero();
  for (Index i = 0; i < n; ++i) {
    for (Index j = 0; j <= i; ++j) l[i * n + j] = (a[i * n + j] + a[j * n + i]) / 2;
  }
#if defined(SHARDWISE_GEMM_BLAS)
  const int size = detail::lapack_int(n);
  int info = 0;
  detail::Lapack<T>::potrf("U", &size, l, &size, &info);  // columns of LAPACK are rows here
  Index failed = info > 0 ? info - 1 : -1;
#else
  Index failed = Eigen::internal::llt_inplace<T, Eigen::Lower>::blocked(factor);
#endif
  const Index done = failed < 0 ? n : failed;
  for (Index i = 0; i < done; ++i) {
    if (shardwise::detail::is_finite(l[i * n + i])) continue;  // a NaN that passed as a pivot
    failed = i;
    break;
  }
  if (failed >= 0) std::fill(l + failed * n, l + n * n, std::numeric_limits<T>::quiet_NaN());
  return failed;
}

/// b := op(l)⁻¹ · b on the left, where b is [n, other]; b := b · op(l)⁻¹ on the right, where b is [other, n]. l is
/// [n, n], of which it reads one triangle.
template <Side side, class T>
void solve_triangular(Index n, Index other, Triangular how, const T* l, T* b) {
  if (n == 0 || other == 0) return;
#if defined(SHARDWISE_GEMM_BLAS)
  constexpr bool left = side == Side::left;  // columns of LAPACK are rows here
  const int size = detail::lapack_int(n), rest = detail::lapack_int(other);
  const T one = 1;
  detail::Lapack<T>::trsm(left ? "R" : "L", how.upper ? "L" : "U", how.transposed ? "T" : "N", "N",
                          left ? &rest : &size, left ? &size : &rest, &one, l, &size, b,
                          left ? &rest : &size);
#else
  constexpr int on = side == Side::left ? Eigen::OnTheLeft : Eigen::OnTheRight;
  auto solved = detail::mapped(side == Side::left ? n : other, side == Side::left ? other : n, b);
  const auto triangle = detail::mapped(n, n, l);
  const auto lower = triangle.template triangularView<Eigen::Lower>();
  const auto upper = triangle.template triangularView<Eigen::Upper>();
  if (how.transposed) {
    how.upper ? upper.transpose().template solveInPlace<on>(solved)
              : lower.transpose().template solveInPlace<on>(solved);
  } else {
    how.upper ? upper.template solveInPlace<on>(solved) : lower.template solveInPlace<on>(solved);
  }
#endif
}

/// a = q · r by Householder reflections, where a is [m, n], q is [m, k] and r is [k, n] with k = min(m, n). `a` is
/// overwritten by q.
template <class T>
void qr(Index m, Index n, T* a, T* r) {
  const Index k = std::min(m, n);
  std::fill_n(r, k * n, T{0});
  if (k == 0) return;
  auto upper = detail::mapped(k, n, r);
#if defined(SHARDWISE_GEMM_BLAS)
  // A copy by columns: LAPACK's LQ of the rows takes twice the time.
  struct Columns;
  struct Factors;
  const int rows = detail::lapack_int(m), width = detail::lapack_int(n), rank = detail::lapack_int(k);
  int info = 0;
  T *copy = scratch<Columns, T>(m * n), *tau = scratch<Factors, T>(k);
  Eigen::Map<Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic>> columns(copy, m, n);
  columns = detail::mapped(m, n, a);
  detail::with_lapack_work<T>([&](T* work, const int* size) {
    detail::Lapack<T>::geqrf(&rows, &width, copy, &rows, tau, work, size, &info);
  });
  upper.template triangularView<Eigen::Upper>() = columns.topRows(k);
  detail::with_lapack_work<T>([&](T* work, const int* size) {
    detail::Lapack<T>::orgqr(&rows, &rank, &rank, copy, &rows, tau, work, size, &info);
  });
  detail::mapped(m, k, a) = columns.leftCols(k);
#else
  using Matrix = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic>;
  const T largest = detail::mapped(m, n, a).cwiseAbs().maxCoeff();  // Eigen squares numbers
  const T unit = largest > 0 && shardwise::detail::is_finite(largest) ? largest : T{1};
  const Eigen::HouseholderQR<Matrix> f(detail::mapped(m, n, a) / unit);
  upper.template triangularView<Eigen::Upper>() = f.matrixQR().topRows(k) * unit;
  detail::mapped(m, k, a) = f.householderQ() * Matrix::Identity(m, k);
#endif
}

}  // namespace shardwise::kernel
