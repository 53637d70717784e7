// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// The operation does not take tensors with these numbers of dimensions. The comment
/// above each operation gives its shapes, like `x: [r…, in…], w: [out…, in…]`.
// expect: LayoutError<Reason::operands_do_not_fit_in_rank, Got<Tensor<float, 0, Mesh<tp>, Replicate>, Tensor<float, 2, Mesh<tp>, Replicate>>, Cure<Hint::see_the_shapes_it_takes>>

#include <shardwise/mesh/mesh.hpp>
#include <shardwise/ops/linear.hpp>

using namespace shardwise;
template <class P>
using Matrix = Tensor<float, 2, Mesh<tp>, P>;
template <class P>
using Scalar = Tensor<float, 0, Mesh<tp>, P>;

#ifdef SHOULD_FAIL
auto product(const Scalar<Replicate>& x, const Matrix<Replicate>& weight) {
  return linear(x, weight);
}
#else
auto product(const Matrix<Replicate>& x, const Matrix<Replicate>& weight) {
  return linear(x, weight);
}
#endif
