// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// Equations with triangular matrices:
///
///     solve_triangular<Side::left>(n, columns, {}, l, n, b, columns);                // b := l⁻¹ · b
///     solve_triangular<Side::right>(n, rows, {.transposed = true}, l, n, b, n);      // b := b · l⁻ᵀ
///
/// The unknowns are halved down to 64, so nearly all work is in products. 64 unknowns of many equations are a product
/// with an inverse, if the triangle is far from singular; else 32 go through many equations at once, as instructions on
/// vectors. OpenBLAS's trsm reaches 8 GFLOP/s for 64 unknowns and 19 for 256, of the 65 of products (a Xeon with
/// AVX-512, 1024 equations in double).

#include <shardwise/kernel/gemm.hpp>

namespace shardwise::kernel {

enum class Side : bool { left, right };

/// How a triangular matrix is stored, and whether its transpose is meant.
struct Triangular {
  bool upper = false;
  bool transposed = false;
  bool unit = false;  ///< with ones on the diagonal, which is not read
};

namespace detail {

/// Equations Σ_k x_k · factor(k, j) = b_j for `other` vectors x, with which they overwrite b. The vectors are the rows
/// of b, or on the left its columns.
template <Side side, class T>
class TriangularEquations {
 public:
  TriangularEquations(Index other, Triangular how, const T* l, Index ldl, T* b, Index ldb)
      : other_(other),
        turned_(how.transposed == right),
        forward_(how.upper != turned_),
        unit_(how.unit),
        l_(l),
        ldl_(ldl),
        b_(b),
        ldb_(ldb) {}

  /// For n unknowns, of which those before `first` do not count.
  void solve(Index first, Index n) const {
    if (n <= product_width && invert(first, n)) return;
    if (n <= vector_width) return substitute(first, n);
    const Index step = n > product_width ? product_width : vector_width;
    const Index half = (n / 2 + step - 1) / step * step, middle = first + half, rest = n - half;
    forward_ ? solve(first, half) : solve(middle, rest);
    forward_ ? subtract(first, half, middle, rest) : subtract(middle, rest, first, half);
    forward_ ? solve(middle, rest) : solve(first, half);
  }

 private:
  static constexpr bool right = side == Side::right;
  static constexpr Index product_width = 64, vector_width = 32;
  T factor(Index k, Index j) const { return turned_ ? l_[j * ldl_ + k] : l_[k * ldl_ + j]; }
  T diagonal(Index k) const { return unit_ ? T{1} : factor(k, k); }
  T* unknown(Index k) const { return b_ + k * (right ? 1 : ldb_); }

  /// Subtracts from the sums b_j, j in [to, to + m), what n unknowns that are known contribute.
  void subtract(Index from, Index n, Index to, Index m) const {
    using enum Transpose;
    const T* const factors = turned_ ? l_ + to * ldl_ + from : l_ + from * ldl_ + to;
    right ? subtract_product(no, turned_ ? yes : no, other_, m, n, unknown(from), ldb_, factors, ldl_,
                             unknown(to), ldb_)
          : subtract_product(turned_ ? no : yes, no, m, other_, n, factors, ldl_, unknown(from), ldb_,
                             unknown(to), ldb_);
  }

  /// Multiplies by the inverse of the factors. Returns false, with b unchanged, if this would lose digits or is slower.
  bool invert(Index first, Index n) const {
    using enum Transpose;
    constexpr Index width = product_width, at_once = 1024;
    constexpr T largest_condition = 100;
    if (other_ < width) return false;
    struct Inverse;
    struct Copy;
    T* const inverse = scratch<Inverse, T>(width * width);
    T size = 0, size_of_inverse = 0;
    using Row = Eigen::Array<T, 1, width>;
    for (Index s = 0; s < n; ++s) {  // row i of factors · inverse = 1
      const Index i = forward_ ? n - 1 - s : s;
      Row row = Row::Zero();
      T sum = std::abs(diagonal(first + i));
      for (Index k = forward_ ? i + 1 : 0; k < (forward_ ? n : i); ++k) {
        const T each = factor(first + i, first + k);
        row -= each * Eigen::Map<const Row>(inverse + k * width);
        sum += std::abs(each);
      }
      row[i] += 1;
      row /= diagonal(first + i);
      Eigen::Map<Row>(inverse + i * width) = row;
      const T sum_of_inverse = row.abs().sum();
      if (!shardwise::detail::is_finite(sum_of_inverse)) return false;
      size = std::max(size, sum), size_of_inverse = std::max(size_of_inverse, sum_of_inverse);
      if (size * size_of_inverse > largest_condition) return false;
    }
    for (Index v = 0; v < other_; v += at_once) {
      const Index count = std::min(at_once, other_ - v), rows = right ? count : n,
                  columns = right ? n : count;
      T* const to = unknown(first) + v * (right ? ldb_ : 1);
      T* const copy = scratch<Copy, T>(width * at_once);
      for (Index i = 0; i < rows; ++i) std::copy_n(to + i * ldb_, columns, copy + i * columns);
      right ? gemm(no, no, count, n, n, copy, n, inverse, width, to, ldb_, false)
            : gemm(yes, no, n, count, n, inverse, width, copy, count, to, ldb_, false);
    }
    return true;
  }

  /// Solves for at most `vector_width` unknowns, many equations at once.
  void substitute(Index first, Index w) const {
    constexpr Index width = vector_width, lanes = 32;
    const Index element = right ? 1 : ldb_, vector = right ? ldb_ : 1;
    T triangle[width * width];
    const auto place = [&](Index j) { return forward_ ? j : w - 1 - j; };  // in the order of the solution
    for (Index j = 0; j < w; ++j) {
      for (Index k = 0; k < j; ++k) triangle[j * width + k] = factor(first + place(k), first + place(j));
      triangle[j * width + j] = 1 / diagonal(first + place(j));
    }
    for (Index v = 0; v < other_; v += lanes) {
      const Index count = std::min(lanes, other_ - v);
      Eigen::Array<T, lanes, 1> x[width];
      T* const block = unknown(first) + v * vector;
      const auto each = [&](auto f) {  // in the order of memory
        for (Index slow = 0; slow < (right ? count : w); ++slow) {
          for (Index fast = 0; fast < (right ? w : count); ++fast) {
            const Index j = right ? fast : slow, i = right ? slow : fast;
            f(x[j][i], block[place(j) * element + i * vector]);
          }
        }
      };
      if (count < lanes) std::fill_n(x, w, Eigen::Array<T, lanes, 1>::Zero());
      each([](T& to, const T& from) { to = from; });
      for (Index j = 0; j < w; ++j) {
        Eigen::Array<T, lanes, 1> sum = x[j];
        for (Index k = 0; k < j; ++k) sum -= triangle[j * width + k] * x[k];
        x[j] = sum * triangle[j * width + j];
      }
      each([](const T& from, T& to) { to = from; });
    }
  }

  Index other_;
  bool turned_;   ///< factor(k, j) is element (j, k) of l
  bool forward_;  ///< the first unknown is solved for first
  bool unit_;
  const T* l_;
  Index ldl_;
  T* b_;
  Index ldb_;
};

}  // namespace detail

/// b := op(l)⁻¹ · b on the left, where b is [n, other]; b := b · op(l)⁻¹ on the right, where b is [other, n]. The rows
/// of b start at multiples of `ld`, those of l at multiples of `ldl`. l is [n, n], of which it reads one triangle.
template <Side side, class T>
void solve_triangular(Index n, Index other, Triangular how, const T* l, Index ldl, T* b, Index ld) {
  if (n > 0 && other > 0) detail::TriangularEquations<side, T>(other, how, l, ldl, b, ld).solve(0, n);
}
SHARDWISE_COMPILE(solve_triangular<Side::left, float>)
SHARDWISE_COMPILE(solve_triangular<Side::left, double>)
SHARDWISE_COMPILE(solve_triangular<Side::right, float>)
SHARDWISE_COMPILE(solve_triangular<Side::right, double>)

}  // namespace shardwise::kernel
