// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// @file
/// A check whether a matrix whose rows are cut is symmetric: one sum of 2 n numbers, where a transpose moves n².

#include <cmath>

#include <shardwise/kernel/random.hpp>
#include <shardwise/linalg/elimination.hpp>
#include <shardwise/tensor/redistribute.hpp>

namespace shardwise::detail {

/// Throws, on all ranks, unless (a - aᵀ) v is as good as 0 for a random v. The rows of a [n, n] are cut over all axes;
/// for_rows(visit) calls visit(i, row) for each of this rank's.
template <class T>
constexpr void check_symmetric(const char* name, const RankLine& line, const AnyTensor& a, auto for_rows) {
  const Index n = a.shape[0], own = a.box().size[0];
  const AnyTensor sums = line.summed<T>(2, n, [&](T* off) {
    using Vector = Eigen::Matrix<T, Eigen::Dynamic, 1>;
    Vector v(n);
    kernel::fill_normal(n, 1, 0, 0., 1., v.data());
    const Vector sizes_of_v = v.cwiseAbs();
    Eigen::Map<Vector> difference(off, n);
    const Index begin = a.box().begin[0];
    for_rows([&](Index i, const T* from) {
      const Eigen::Map<const Vector> of_row(from, n);
      off[begin + i] += of_row.dot(v);
      off[n + begin + i] = of_row.cwiseAbs().dot(sizes_of_v);
      difference -= v[begin + i] * of_row;
    });
  });
  line.compute(6 * own * n, own * n * static_cast<Index>(sizeof(T)));
  if (a.mesh.dry()) return;
  const T* const all = static_cast<const T*>(sums.buffer->data);
  const T least = std::sqrt(std::numeric_limits<T>::epsilon());
  for (Index i = 0; i < n; ++i) {
    const T off = std::abs(all[i]), size = all[n + i];
    if (!is_finite(size)) fail<std::runtime_error>({name, ": row ", i, " of the matrix is not finite"});
    if (off > least * size)
      fail({name, ": the matrix is not symmetric: row ", i, " is not equal to column ", i});
  }
}
/// The same for a whole tensor.
template <TensorType A>
constexpr void check_symmetric(const char* name, const A& a) {
  using T = typename A::Element;
  const RankLine line{MeshView(a.mesh()), data_type_of<T>()};
  const AnyTensor x = redistributed_to(AnyTensor(a), line.rows(), line.type);
  check_symmetric<T>(name, line, x, [&](auto visit) {
    for (Index i = 0; i < x.box().size[0]; ++i)
      visit(i, static_cast<const T*>(x.buffer->data) + i * x.shape[1]);
  });
}

}  // namespace shardwise::detail
