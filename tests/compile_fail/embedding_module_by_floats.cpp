// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

// expect: LayoutError<Reason::operand_must_hold_integers, Got<float, float>, Cure<Hint::use_a_tensor_of_int32_or_int64>, Of<EmbeddingOp>, InA<Embedding>>

#include <shardwise/mesh/mesh.hpp>
#include <shardwise/nn/embedding.hpp>

using namespace shardwise;
template <class T>
using Tokens = Tensor<T, 1, Mesh<tp>, Replicate>;

#ifdef SHOULD_FAIL
auto call(const Embedding<Mesh<tp>, RowwiseParallel<tp>>& table, const Tokens<float>& tokens) {
  return table(tokens);
}
#else
auto call(const Embedding<Mesh<tp>, RowwiseParallel<tp>>& table, const Tokens<int>& tokens) {
  return table(tokens);
}
#endif
