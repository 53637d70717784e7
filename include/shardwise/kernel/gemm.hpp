// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Matrix products: C[m, n] = op(A)[m, k] · op(B)[k, n], or C += …, or C −= …, all row-major, each with a leading
/// dimension: the distance between the starts of successive rows *as stored*.
///
///     gemm(Transpose::no, Transpose::yes, rows, out, in, x, in, w, in, y, out, false);   // y = x · wᵀ
///     subtract_product(Transpose::no, Transpose::no, m, n, k, a, k, b, n, c, n);         // c −= a · b
///
/// The implementation is oneDNN if SHARDWISE_GEMM_ONEDNN is defined (for float; for double then Eigen, unless
/// SHARDWISE_GEMM_BLAS is also defined), else a BLAS if SHARDWISE_GEMM_BLAS is defined, else Eigen. Products with a
/// single row or column, which are memory-bound, use Eigen for float and double. A product x · wᵀ of up to `few_rows`
/// rows x, as in decoding, is a `row_product` unless it accumulates: each row gets the bits that it gets alone. Other
/// products of bfloat16, and all where the program is compiled without AVX512_BF16, use oneDNN if the processor has
/// instructions for them; otherwise they are converted to float, which is slower than float itself. All translation
/// units of a program must define the same of these macros, or linking fails.

#include <algorithm>
#include <stdexcept>

#include <shardwise/base/bodies.hpp>
#include <shardwise/kernel/element.hpp>
#include <shardwise/kernel/onednn.hpp>
#include <shardwise/kernel/row_product.hpp>
#include <shardwise/version.hpp>

#if defined(SHARDWISE_GEMM_BLAS)
#include <Eigen/src/misc/blas.h>

#include <limits>
#endif

namespace shardwise::detail {

/// Translation units with different libraries, or of different versions of Shardwise, would have different bodies for
/// the same functions, of which the linker keeps one. So each unit defines one symbol, in a section group named after
/// its macros: linkers keep one group per name, and reject a second definition of the symbol.
#define SHARDWISE_MARK_OF(onednn, blas, major, minor, patch) \
  "shardwise_" #major "_" #minor "_" #patch "_onednn_" #onednn "_blas_" #blas
#define SHARDWISE_MARK(...) SHARDWISE_MARK_OF(__VA_ARGS__)
#define SHARDWISE_UNIT_MARK                                                           \
  SHARDWISE_MARK(SHARDWISE_GEMM_ONEDNN, SHARDWISE_GEMM_BLAS, SHARDWISE_VERSION_MAJOR, \
                 SHARDWISE_VERSION_MINOR, SHARDWISE_VERSION_PATCH)
inline void mark_unit() __asm__(SHARDWISE_UNIT_MARK);
[[gnu::used]] inline void mark_unit() {
  __asm__(".pushsection .rodata.shardwise_unit,\"aG\",%progbits," SHARDWISE_UNIT_MARK
          "_group,comdat\n.globl units_differ_in_SHARDWISE_GEMM_or_VERSION\n"
          "units_differ_in_SHARDWISE_GEMM_or_VERSION: .byte 0\n.popsection");
}

}  // namespace shardwise::detail

namespace shardwise::kernel {

enum class Transpose : bool { no, yes };

/// The implementation of matrix products of `float`.
constexpr const char* gemm_name() {
#if defined(SHARDWISE_GEMM_ONEDNN)
  return "oneDNN";
#elif defined(SHARDWISE_GEMM_BLAS)
  return "BLAS";
#elif EIGEN_WORLD_VERSION > 3
  return "Eigen 5";
#else
  return "Eigen 3.4";
#endif
}

namespace detail {

template <class C>
struct GemmArguments {
  Transpose ta, tb;
  Index m, n, k;
  const C *a, *b;
  Index lda, ldb;
  C* c;
  Index ldc;
  bool accumulate;
  C alpha = 1;  ///< of the product
};

/// Eigen's blocked product without its expression templates, which take ten times longer to compile. Its result is
/// column-major, so it computes Cᵀ = op(B)ᵀ · op(A)ᵀ.
template <class C>
class EigenBlocking : public Eigen::internal::level3_blocking<C, C> {
 public:
  EigenBlocking(Index rows, Index cols, Index depth) {
    this->m_mc = rows;
    this->m_nc = cols;
    this->m_kc = depth;
    Eigen::internal::computeProductBlockingSizes<C, C>(this->m_kc, this->m_mc, this->m_nc);
    const Index left = (this->m_mc * this->m_kc + 63) / 64 * 64;
    this->m_blockA = scratch<EigenBlocking, C>(left + this->m_nc * this->m_kc);
    this->m_blockB = this->m_blockA + left;
  }
};

template <Transpose ta, Transpose tb, class C>
void eigen_gemm(const GemmArguments<C>& g) {
  constexpr int left = tb == Transpose::no ? Eigen::ColMajor : Eigen::RowMajor;
  constexpr int right = ta == Transpose::no ? Eigen::ColMajor : Eigen::RowMajor;
  if (!g.accumulate) {
    for (Index i = 0; i < g.m; ++i) std::fill_n(g.c + i * g.ldc, g.n, C{0});
  }
  EigenBlocking<C> blocking(g.n, g.m, g.k);
  Eigen::internal::general_matrix_matrix_product<Index, C, left, false, C, right, false, Eigen::ColMajor,
                                                 1>::run(g.n, g.m, g.k, g.b, g.ldb, g.a, g.lda, g.c, 1, g.ldc,
                                                         g.alpha, blocking, nullptr);
}

struct GemvVectors;

/// y[j·incy] (+)= alpha · Σ_i x[i·incx] · op(B)[i, j], for j < n, i < k; B is stored [k, n], or [n, k] if
/// transposed. For Eigen, op(B)ᵀ times a column.
template <Transpose tb, class C>
void gemv(Index n, Index k, const C* b, Index ldb, const C* x, Index incx, C* y, Index incy, bool accumulate,
          C alpha) {
  constexpr int order = tb == Transpose::yes ? Eigen::RowMajor : Eigen::ColMajor;
  using Matrix = Eigen::internal::const_blas_data_mapper<C, Index, order>;
  using Vector = Eigen::internal::const_blas_data_mapper<C, Index, 1 - order>;
  C* in = scratch<GemvVectors, C>(k + n);
  C* out = incy == 1 ? y : in + k;
  if (incx != 1) {
    for (Index i = 0; i < k; ++i) in[i] = x[i * incx];
  }
  for (Index j = 0; j < n; ++j) out[j] = accumulate ? y[j * incy] : C{0};
  Eigen::internal::general_matrix_vector_product<Index, C, Matrix, order, false, C, Vector, false>::run(
      n, k, Matrix(b, ldb), Vector(incx == 1 ? x : in, 1), out, 1, alpha);
  if (incy != 1) {
    for (Index j = 0; j < n; ++j) y[j * incy] = out[j];
  }
}

template <class C>
void multiply_matrices(const GemmArguments<C>& g) {
#if defined(SHARDWISE_GEMM_ONEDNN)
  if constexpr (std::is_same_v<C, float>) {
    const HeldSignals held;
    const auto letter = [](Transpose t) { return t == Transpose::yes ? 'T' : 'N'; };
    check_onednn(dnnl_sgemm(letter(g.ta), letter(g.tb), g.m, g.n, g.k, g.alpha, g.a, g.lda, g.b, g.ldb,
                            g.accumulate ? 1.f : 0.f, g.c, g.ldc),
                 "sgemm");
    return;
  }
#endif
#if defined(SHARDWISE_GEMM_BLAS)
  const auto narrow_index = [](Index value) {
    if (value > std::numeric_limits<int>::max()) {
      throw std::length_error("shardwise: a matrix product is too large for the BLAS, which counts in int");
    }
    return static_cast<int>(value);
  };
  const char *ta = g.ta == Transpose::yes ? "T" : "N", *tb = g.tb == Transpose::yes ? "T" : "N";
  const int m = narrow_index(g.m), n = narrow_index(g.n), k = narrow_index(g.k);
  const int lda = narrow_index(g.lda), ldb = narrow_index(g.ldb), ldc = narrow_index(g.ldc);
  const C beta = g.accumulate ? C{1} : C{0};
  if constexpr (std::is_same_v<C, float>) {
    sgemm_(tb, ta, &n, &m, &k, &g.alpha, g.b, &ldb, g.a, &lda, &beta, g.c, &ldc);
  } else {
    dgemm_(tb, ta, &n, &m, &k, &g.alpha, g.b, &ldb, g.a, &lda, &beta, g.c, &ldc);
  }
#else
  constexpr auto no = Transpose::no, yes = Transpose::yes;
  if (g.ta == no) {
    g.tb == no ? eigen_gemm<no, no>(g) : eigen_gemm<no, yes>(g);
  } else {
    g.tb == no ? eigen_gemm<yes, no>(g) : eigen_gemm<yes, yes>(g);
  }
#endif
}

/// A product of float or double, by the function that suits its extents.
template <class C>
void multiply_by_extents(const GemmArguments<C>& g) {
  const bool turn_a = g.ta == Transpose::yes, turn_b = g.tb == Transpose::yes;
  if (g.m == 1) {  // c = op(B)ᵀ · a
    const auto of_b = turn_b ? gemv<Transpose::yes, C> : gemv<Transpose::no, C>;
    of_b(g.n, g.k, g.b, g.ldb, g.a, turn_a ? g.lda : 1, g.c, 1, g.accumulate, g.alpha);
  } else if (g.n == 1) {  // c = op(A) · b
    const auto of_a = turn_a ? gemv<Transpose::no, C> : gemv<Transpose::yes, C>;
    of_a(g.m, g.k, g.a, g.lda, g.b, turn_b ? 1 : g.ldb, g.c, g.ldc, g.accumulate, g.alpha);
  } else {
    multiply_matrices(g);
  }
}

/// A contiguous copy, with bfloat16 converted to float.
template <class Purpose, class T>
const compute_t<T>* widen_rows(Index rows, Index cols, const T* x, Index ld) {
  auto* wide = scratch<Purpose, compute_t<T>>(rows * cols);
  for (Index r = 0; r < rows; ++r) {
    for (Index c = 0; c < cols; ++c) wide[r * cols + c] = widen(x[r * ld + c]);
  }
  return wide;
}

struct WideA;
struct WideB;
struct WideC;

}  // namespace detail

/// C (+)= op(A) · op(B). A is stored [m, k], or [k, m] if transposed; B [k, n], or [n, k]. C overlaps neither.
/// `accumulate` adds to C; otherwise C is not read. C has the element type of A and B, or the compute type:
/// accumulate many products of bfloat16 in float.
template <class T, class Out>
  requires std::is_same_v<Out, T> || std::is_same_v<Out, compute_t<T>>
void gemm(Transpose ta, Transpose tb, Index m, Index n, Index k, const T* a, Index lda, const T* b, Index ldb,
          Out* c, Index ldc, bool accumulate) {
  if (m == 0 || n == 0) return;
  const bool turn_a = ta == Transpose::yes, turn_b = tb == Transpose::yes;
  if (k == 0) {
    for (Index i = 0; i < m && !accumulate; ++i) std::fill_n(c + i * ldc, n, Out{0});
    return;
  }
  if constexpr (std::is_same_v<T, Out> && std::is_same_v<T, typename detail::RowLanes<T>::Stored>) {
    if (m <= few_rows && !turn_a && turn_b && !accumulate)
      return row_product(m, n, k, a, lda, b, ldb, c, ldc);
  }
  if constexpr (!std::is_same_v<T, compute_t<T>>) {
#if defined(SHARDWISE_GEMM_ONEDNN)
    if (detail::multiplies_bfloat16()) {
      constexpr bool wide = !std::is_same_v<Out, T>;
      return detail::multiply({turn_a, turn_b, m, n, k, lda, ldb, ldc, wide, accumulate}, a, b, c);
    }
#endif
    if constexpr (std::is_same_v<Out, T>) {
      auto* wide = scratch<detail::WideC, compute_t<T>>(m * n);
      gemm(ta, tb, m, n, k, a, lda, b, ldb, wide, n, false);
      for (Index i = 0; i < m; ++i) {
        for (Index j = 0; j < n; ++j) {
          c[i * ldc + j] = narrow<T>(wide[i * n + j] + (accumulate ? widen(c[i * ldc + j]) : 0));
        }
      }
    } else {
      const Out* wide_a = detail::widen_rows<detail::WideA>(turn_a ? k : m, turn_a ? m : k, a, lda);
      const Out* wide_b = detail::widen_rows<detail::WideB>(turn_b ? n : k, turn_b ? k : n, b, ldb);
      gemm(ta, tb, m, n, k, wide_a, turn_a ? m : k, wide_b, turn_b ? k : n, c, ldc, accumulate);
    }
  } else {
    detail::multiply_by_extents(
        detail::GemmArguments<T>{ta, tb, m, n, k, a, b, lda, ldb, c, ldc, accumulate});
  }
}
SHARDWISE_COMPILE(gemm<float, float>)
SHARDWISE_COMPILE(gemm<double, double>)
SHARDWISE_COMPILE(gemm<Eigen::bfloat16, Eigen::bfloat16>)
SHARDWISE_COMPILE(gemm<Eigen::bfloat16, float>)

/// C −= op(A) · op(B), of float or double, stored as for `gemm`.
template <std::floating_point T>
void subtract_product(Transpose ta, Transpose tb, Index m, Index n, Index k, const T* a, Index lda,
                      const T* b, Index ldb, T* c, Index ldc) {
  if (m == 0 || n == 0 || k == 0) return;
  detail::multiply_by_extents(detail::GemmArguments<T>{ta, tb, m, n, k, a, b, lda, ldb, c, ldc, true, T{-1}});
}
SHARDWISE_COMPILE(subtract_product<float>)
SHARDWISE_COMPILE(subtract_product<double>)

}  // namespace shardwise::kernel
