// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// QR factorizations of blocks of rows by Householder reflections:
///
///     qr(m, n, a, r, q);                    // a = q · r: a is [m, n], and is overwritten; r is [min(m, n), n]
///     const HouseholderQr f(m, n, a, r);    // the same without q; it keeps a
///     f.multiply(columns, c, y);            // y [m, columns] := q · c, where c is [k, columns]

#include <shardwise/kernel/factor.hpp>
#include <shardwise/kernel/permute.hpp>

namespace shardwise::kernel {

/// The first rows are factorized at once. Each later block of rows B then reduces r further: [r; B] = (1 - v t vᵀ) [r';
/// 0] with v = [1; V] and an upper triangular t. So a block is read while it is in the cache, and q · c is computed
/// from the last block to the first: M = t c, q · c of these rows is -V M, and c - M is what the rows before multiply.
template <class T>
class HouseholderQr {
 public:
  constexpr HouseholderQr(Index m, Index n, T* a, T* r);  // constexpr for dry runs in constant evaluation
  void multiply(Index columns, const T* c, T* y) const;

 private:
  static constexpr Index panel = 8;  ///< columns that LAPACK reduces before it multiplies
  static void transpose(Index rows, Index columns, const T* from, T* to) {
    const Index extents[]{columns, rows}, source[]{1, columns}, target[]{rows, 1};
    copy_box(2, extents, from, source, to, target);
  }
  T* block(Index i) const { return a_ + (first_ + i * height_) * n_; }  ///< V by columns, [n, height]

  Index m_, n_;
  T* a_;  ///< q of the first rows, and the blocks
  Index height_, blocks_ = 0, first_;
  std::vector<T> scales_;  ///< the diagonal of each block's t
};

template <class T>
constexpr HouseholderQr<T>::HouseholderQr(Index m, Index n, T* a, T* r)
    : m_(m), n_(n), a_(a), height_(std::max<Index>(256, 2 * n)) {
#if defined(SHARDWISE_GEMM_BLAS)
  if (n > 0) blocks_ = std::max<Index>(0, m / height_ - 1);
#endif
  first_ = m - blocks_ * height_;
  detail::qr_of_block(first_, n, a, r);
#if defined(SHARDWISE_GEMM_BLAS)
  if (blocks_ == 0) return;
  struct Rows;
  struct Upper;
  T *const rows = scratch<Rows, T>(height_ * n), *const upper = scratch<Upper, T>(n * n + 2 * panel * n);
  T *const triangles = upper + n * n, *const work = triangles + panel * n;
  const int height = detail::lapack_int(height_), width = detail::lapack_int(n), zero = 0,
            step = detail::lapack_int(std::min(panel, n));
  scales_.resize(static_cast<std::size_t>(blocks_ * n));
  transpose(n, n, r, upper);
  for (Index i = 0; i < blocks_; ++i) {
    std::copy_n(block(i), height_ * n, rows);
    transpose(height_, n, rows, block(i));
    int info = 0;
    detail::Lapack<T>::tpqrt(&height, &width, &zero, &step, upper, &width, block(i), &height, triangles,
                             &step, work, &info);
    for (Index j = 0; j < n; ++j)
      scales_[static_cast<std::size_t>(i * n + j)] = triangles[j * step + j % step];
  }
  transpose(n, n, upper, r);
#endif
}

template <class T>
void HouseholderQr<T>::multiply(Index columns, const T* c, T* y) const {
  using enum Transpose;
  const Index k = std::min(first_, n_);
  if (columns == 0) return;
  struct Rest;
  struct Triangle;
  T *const rest = scratch<Rest, T>(k * columns), *const t = scratch<Triangle, T>(2 * n_ * n_ + n_ * columns);
  T *const products = t + n_ * n_, *const minus_m = products + n_ * n_;
  std::copy_n(c, k * columns, rest);
  for (Index i = blocks_; i-- > 0;) {
    std::fill_n(products, n_ * n_, T{0});
    subtract_gram(false, n_, height_, block(i), height_, products, n_);
    for (Index j = 0; j < n_; ++j) {  // row j of -tᵀ
      T* const row = t + j * n_;
      std::fill_n(row, n_, T{0});
      for (Index l = 0; l < j; ++l) {
        const T factor = products[j * n_ + l];
        for (Index s = 0; s < j; ++s) row[s] += factor * t[l * n_ + s];
      }
      const T scale = scales_[static_cast<std::size_t>(i * n_ + j)];
      for (Index s = 0; s < j; ++s) row[s] *= scale;
      row[j] = -scale;
    }
    gemm(yes, no, n_, columns, n_, t, n_, rest, columns, minus_m, columns, false);
    gemm(yes, no, height_, columns, n_, block(i), height_, minus_m, columns,
         y + (first_ + i * height_) * columns, columns, false);
    for (Index j = 0; j < n_ * columns; ++j) rest[j] += minus_m[j];
  }
  gemm(no, no, first_, columns, k, a_, k, rest, columns, y, columns, false);
}

/// q · r = a, where a is [m, n] and is overwritten, q is [m, k], and r is [k, n] with k = min(m, n).
template <class T>
void qr(Index m, Index n, T* a, T* r, T* q) {
  const Index k = std::min(m, n);
  const Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic> one = decltype(one)::Identity(k, k);
  HouseholderQr<T>(m, n, a, r).multiply(k, one.data(), q);
}
SHARDWISE_COMPILE_BOTH(qr)
SHARDWISE_COMPILE_MEMBER(class HouseholderQr<float>)
SHARDWISE_COMPILE_MEMBER(class HouseholderQr<double>)

}  // namespace shardwise::kernel
