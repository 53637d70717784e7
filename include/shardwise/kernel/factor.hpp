// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Factorizations of whole matrices of `float` or `double`, all row-major and without gaps.
///
///     const Index pivot = cholesky(n, a, l);                                   // l · lᵀ = (a + aᵀ) / 2
///
/// The implementation is LAPACK if SHARDWISE_GEMM_BLAS is defined, else Eigen. OpenBLAS and MKL contain LAPACK; with
/// another BLAS a program that uses them also links LAPACK. No function hangs on NaN or infinity.

#include <shardwise/kernel/triangular.hpp>

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
  void letter##geqp3_(const int*, const int*, T*, const int*, int*, T*, T*, const int*, int*);             \
  void letter##tpqrt_(const int*, const int*, const int*, const int*, T*, const int*, T*, const int*, T*,  \
                      const int*, T*, int*);                                                               \
  void letter##syevd_(const char*, const char*, const int*, T*, const int*, T*, T*, const int*, int*,      \
                      const int*, int*);                                                                   \
  void letter##gesdd_(const char*, const int*, const int*, T*, const int*, T*, T*, const int*, T*,         \
                      const int*, T*, const int*, int*, int*);                                             \
  }                                                                                                        \
  template <>                                                                                              \
  struct Lapack<T> {                                                                                       \
    static constexpr auto potrf = &letter##potrf_;                                                         \
    static constexpr auto geqrf = &letter##geqrf_;                                                         \
    static constexpr auto geqp3 = &letter##geqp3_;                                                         \
    static constexpr auto tpqrt = &letter##tpqrt_;                                                         \
    static constexpr auto orgqr = &letter##orgqr_;                                                         \
    static constexpr auto syevd = &letter##syevd_;                                                         \
    static constexpr auto gesdd = &letter##gesdd_;                                                         \
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
  size = lapack_int(static_cast<Index>(best * (1 + std::numeric_limits<T>::epsilon())) + 1);  // rounded up
  f(scratch<LapackWork, T>(size), &size);
}

}  // namespace detail
#endif

namespace detail {

/// Eigen's view of n rows and `columns` columns, without gaps or with rows that start at multiples of `ld`.
template <class T>
auto mapped(Index n, Index columns, T* x) {
  using Matrix = Eigen::Matrix<std::remove_const_t<T>, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  return Eigen::Map<std::conditional_t<std::is_const_v<T>, const Matrix, Matrix>>(x, n, columns);
}
template <class T>
auto mapped(Index n, Index columns, T* x, Index ld) {
  using Matrix = Eigen::Matrix<std::remove_const_t<T>, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  using Mapped = std::conditional_t<std::is_const_v<T>, const Matrix, Matrix>;
  return Eigen::Map<Mapped, 0, Eigen::OuterStride<>>(x, n, columns, Eigen::OuterStride<>(ld));
}

}  // namespace detail

/// Adds xᵀ · x to the lower triangle of c, where x is [m, n] and c [n, n]: half the flops of a product.
template <class T>
void add_gram(Index m, Index n, const T* x, T* c) {
  if (m == 0 || n == 0) return;
#if defined(SHARDWISE_GEMM_BLAS)
  const int rows = detail::lapack_int(m), columns = detail::lapack_int(n);
  const T one = 1;
  detail::Lapack<T>::syrk("U", "N", &columns, &rows, &one, x, &columns, &one, c, &columns);
#else
  detail::mapped(n, n, c).template selfadjointView<Eigen::Lower>().rankUpdate(
      detail::mapped(m, n, x).transpose());
#endif
}
SHARDWISE_COMPILE_BOTH(add_gram)
/// Copies the lower triangle of c [n, n] to the upper one.
template <class T>
void mirror(Index n, T* c) {
  auto square = detail::mapped(n, n, c);
  square.template triangularView<Eigen::StrictlyUpper>() = square.transpose();
}
SHARDWISE_COMPILE_BOTH(mirror)
/// c := xᵀ · x, where x is [m, n].
template <class T>
void gram(Index m, Index n, const T* x, T* c) {
  std::fill_n(c, n * n, T{0});
  add_gram(m, n, x, c);
  mirror(n, c);
}

/// Subtracts a · aᵀ from the lower or the upper triangle of c, where a is [m, k] and c [m, m].
template <class T>
void subtract_gram(bool upper, Index m, Index k, const T* a, Index lda, T* c, Index ldc) {
  if (m == 0 || k == 0) return;
#if defined(SHARDWISE_GEMM_BLAS)
  using detail::lapack_int;
  const int rows = lapack_int(m), columns = lapack_int(k), a_step = lapack_int(lda), c_step = lapack_int(ldc);
  const T minus = -1, one = 1;
  detail::Lapack<T>::syrk(upper ? "L" : "U", "T", &rows, &columns, &minus, a, &a_step, &one, c, &c_step);
#else
  auto square = detail::mapped(m, m, c, ldc);
  const auto of_a = detail::mapped(m, k, a, lda);
  if (upper) {
    square.template selfadjointView<Eigen::Upper>().rankUpdate(of_a, T{-1});
  } else {
    square.template selfadjointView<Eigen::Lower>().rankUpdate(of_a, T{-1});
  }
#endif
}
SHARDWISE_COMPILE_BOTH(subtract_gram)

/// Overwrites the lower triangle of a [n, n] by the factor l with a = l · lᵀ, and reads nothing above it. Returns the
/// first pivot that is not a positive finite number, or -1.
template <class T>
Index cholesky_in_place(Index n, T* a, Index ld) {
  constexpr Index unblocked = 64;
  if (n <= unblocked) {
    if (n == 0) return -1;
#if defined(SHARDWISE_GEMM_BLAS)
    const int size = detail::lapack_int(n), step = detail::lapack_int(ld);
    int info = 0;
    detail::Lapack<T>::potrf("U", &size, a, &step, &info);  // columns of LAPACK are rows here
    const Index failed = info > 0 ? info - 1 : n;
#else
    auto factor = detail::mapped(n, n, a, ld);
    const Index pivot = Eigen::internal::llt_inplace<T, Eigen::Lower>::unblocked(factor);
    const Index failed = pivot < 0 ? n : pivot;
#endif
    for (Index i = 0; i < failed; ++i) {
      if (!shardwise::detail::is_finite(a[i * (ld + 1)])) return i;  // a NaN that passed as a pivot
    }
    return failed < n ? failed : -1;
  }
  const Index half = (n / 2 + unblocked - 1) / unblocked * unblocked, rest = n - half;
  T *const below = a + half * ld, *const corner = below + half;
  if (const Index failed = cholesky_in_place(half, a, ld); failed >= 0) return failed;
  solve_triangular<Side::right>(half, rest, {.transposed = true}, a, ld, below, ld);
  subtract_gram(false, rest, half, below, ld, corner, ld);
  const Index failed = cholesky_in_place(rest, corner, ld);
  return failed < 0 ? -1 : half + failed;
}
SHARDWISE_COMPILE_BOTH(cholesky_in_place)

/// l := the lower triangular factor of the symmetric part of a, (a + aᵀ) / 2 = l · lᵀ; both [n, n]. Returns the first
/// pivot that is not a positive finite number, or -1. The rows of l are NaN from this pivot on.
template <class T>
Index cholesky(Index n, const T* a, T* l) {
  if (n == 0) return -1;
  std::fill_n(l, n * n, T{0});
  for (Index i = 0; i < n; ++i) {
    for (Index j = 0; j <= i; ++j) l[i * n + j] = (a[i * n + j] + a[j * n + i]) / 2;
  }
  const Index failed = cholesky_in_place(n, l, n);
  if (failed >= 0) std::fill(l + failed * n, l + n * n, std::numeric_limits<T>::quiet_NaN());
  return failed;
}
SHARDWISE_COMPILE_BOTH(cholesky)

namespace detail {

/// a = q · r at once, where a is [m, n], q is [m, k] and r is [k, n] with k = min(m, n). `a` is overwritten by q.
template <class T>
void qr_of_block(Index m, Index n, T* a, T* r) {
  const Index k = std::min(m, n);
  std::fill_n(r, k * n, T{0});
  if (k == 0) return;
  auto upper = mapped(k, n, r);
#if defined(SHARDWISE_GEMM_BLAS)
  // A copy by columns: LAPACK's LQ of the rows takes twice the time.
  struct Columns;
  struct Factors;
  const int rows = lapack_int(m), width = lapack_int(n), rank = lapack_int(k);
  int info = 0;
  T *copy = scratch<Columns, T>(m * n), *tau = scratch<Factors, T>(k);
  Eigen::Map<Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic>> columns(copy, m, n);
  columns = mapped(m, n, a);
  with_lapack_work<T>([&](T* work, const int* size) {
    Lapack<T>::geqrf(&rows, &width, copy, &rows, tau, work, size, &info);
  });
  upper.template triangularView<Eigen::Upper>() = columns.topRows(k);
  with_lapack_work<T>([&](T* work, const int* size) {
    Lapack<T>::orgqr(&rows, &rank, &rank, copy, &rows, tau, work, size, &info);
  });
  mapped(m, k, a) = columns.leftCols(k);
#else
  using Matrix = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic>;
  // Eigen squares numbers, so each column is scaled.
  Eigen::Array<T, 1, Eigen::Dynamic> unit = mapped(m, n, a).cwiseAbs().colwise().maxCoeff();
  for (T& each : unit) each = each > 0 && shardwise::detail::is_finite(each) ? each : T{1};
  const Eigen::HouseholderQR<Matrix> f((mapped(m, n, a).array().rowwise() / unit).matrix());
  upper.template triangularView<Eigen::Upper>() = (f.matrixQR().topRows(k).array().rowwise() * unit).matrix();
  mapped(m, k, a) = f.householderQ() * Matrix::Identity(m, k);
#endif
}
SHARDWISE_COMPILE_BOTH(qr_of_block)

}  // namespace detail

}  // namespace shardwise::kernel
