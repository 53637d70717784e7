// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

// expect: LayoutError<Reason::argument_is_not_a_tensor, Got<std::vector<int.*>>, Cure<Hint::pass_a_tensor_a_Var_or_a_parameter>.*Llama

#include <shardwise/llm/data/token_ids.hpp>
#include <shardwise/llm/models/llama/model.hpp>
#include <shardwise/mesh/mesh.hpp>

using namespace shardwise;
using Model = llm::Llama<Mesh<dp, tp>>;

#ifdef SHOULD_FAIL
auto logits(const Model& model, const std::vector<int>& ids) {
  return model(ids);
}
#else
auto logits(const Model& model, const llm::TokenIds<Mesh<dp, tp>>& ids) {
  return model(ids);
}
#endif
