// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

// expect: Reason::loss_is_not_a_scalar, .*Cure<Hint::pass_it_with_the_targets_to_a_loss_such_as_mse_loss_or_CrossEntropyLoss>>

#include <shardwise/llm/models/llama/model.hpp>
#include <shardwise/nn/linear_cross_entropy_loss.hpp>
#include <shardwise/shardwise.hpp>

using namespace shardwise;
using Model = llm::Llama<Mesh<tp>>;
using Ids = Tensor<std::int32_t, 2, Mesh<tp>, Replicate>;

#ifdef SHOULD_FAIL
void learn(Model& model, const Ids& ids, const Ids& targets) {
  Tape tape;
  tape.backward(model(tape.constant(ids), targets));
}
#else
void learn(Model& model, const Ids& ids, const Ids& targets) {
  Tape tape;
  tape.backward(model(tape.constant(ids), targets, LinearCrossEntropyLoss()));
}
#endif
