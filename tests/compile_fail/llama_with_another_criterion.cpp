// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

// expect: LayoutError<Reason::name_or_form_of_another_library, Cure<Hint::use_LinearCrossEntropyLoss_which_takes_the_head_too>,

#include <shardwise/llm/models/llama/model.hpp>
#include <shardwise/nn/linear_cross_entropy_loss.hpp>
#include <shardwise/shardwise.hpp>

using namespace shardwise;
using Model = llm::Llama<Mesh<tp>>;
using Ids = Tensor<std::int32_t, 2, Mesh<tp>, Replicate>;

#ifdef SHOULD_FAIL
void learn(Model& model, const Ids& ids, const Ids& targets) {
  Tape tape;
  tape.backward(model(tape.constant(ids), targets, CrossEntropyLoss()));
}
#else
void learn(Model& model, const Ids& ids, const Ids& targets) {
  Tape tape;
  tape.backward(model(tape.constant(ids), targets, LinearCrossEntropyLoss()));
}
#endif
