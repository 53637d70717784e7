// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

// expect: LayoutError<Reason::argument_is_not_a_tensor, Got<Var<.*>>, Cure<Hint::use_its_value>>

#include <shardwise/llm/data/token_ids.hpp>
#include <shardwise/llm/models/llama/model.hpp>
#include <shardwise/mesh/mesh.hpp>

using namespace shardwise;
using Model = llm::Llama<Mesh<dp, tp>>;

#ifdef SHOULD_FAIL
auto logits(const Model& model, Tape& tape, const llm::TokenIds<Mesh<dp, tp>>& ids) {
  auto cache = model.make_cache(ids, 32);
  return model.next(tape.constant(ids), cache);
}
#else
auto logits(const Model& model, Tape& tape, const llm::TokenIds<Mesh<dp, tp>>& ids) {
  auto cache = model.make_cache(ids, 32);
  return model.next(tape.constant(ids).value(), cache);
}
#endif
