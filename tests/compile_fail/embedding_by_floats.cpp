// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// This operand counts something: rows of a table, or classes.
// expect: LayoutError<Reason::operand_must_hold_integers, Got<float, float>, Cure<Hint::use_a_tensor_of_int32_or_int64>>

#include <shardwise/mesh/mesh.hpp>
#include <shardwise/ops/embedding.hpp>

using namespace shardwise;
template <class P>
using Matrix = Tensor<float, 2, Mesh<tp>, P>;
template <class P>
using Vector = Tensor<float, 1, Mesh<tp>, P>;

#ifdef SHOULD_FAIL
auto rows(const Vector<Replicate>& tokens, const Matrix<Replicate>& table) {
  return embedding(tokens, table);
}
#else
auto rows(const Tensor<int, 1, Mesh<tp>, Replicate>& tokens, const Matrix<Replicate>& table) {
  return embedding(tokens, table);
}
#endif
