// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

// expect: Reason::no_matching_const_forward, .*Cure<Hint::pass_what_its_forward_takes_or_define_a_const_one_of_these>

#include <shardwise/llm/models/llama/model.hpp>
#include <shardwise/nn/linear_cross_entropy_loss.hpp>
#include <shardwise/shardwise.hpp>

using namespace shardwise;
using Model = llm::Llama<Mesh<tp>>;
using Ids = Tensor<std::int32_t, 2, Mesh<tp>, Replicate>;

#ifdef SHOULD_FAIL
void learn(Model& model, const Ids& ids, const Ids& targets) {
  Tape tape;
  tape.backward(model(tape.constant(ids), LinearCrossEntropyLoss(), targets));
}
#else
void learn(Model& model, const Ids& ids, const Ids& targets) {
  Tape tape;
  tape.backward(model(tape.constant(ids), targets, LinearCrossEntropyLoss()));
}
#endif
