// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

// expect: LayoutError<Reason::operand_must_hold_integers, Got<float, float>, Cure<Hint::use_a_tensor_of_int32_or_int64>, Of<EmbeddingOp>, InA<Embedding>, InA<llm::Llama>>

#include <shardwise/llm/models/llama/model.hpp>
#include <shardwise/mesh/mesh.hpp>

using namespace shardwise;
using namespace shardwise::llm;
template <class T>
using Ids = Tensor<T, 2, Mesh<dp, tp>, Shard<0>, Replicate>;

#ifdef SHOULD_FAIL
auto logits(const Llama<Mesh<dp, tp>>& model, const Ids<float>& ids) {
  return model(ids);
}
#else
auto logits(const Llama<Mesh<dp, tp>>& model, const Ids<int>& ids) {
  return model(ids);
}
#endif
