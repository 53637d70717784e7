// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

// expect: Reason::module_does_not_name_its_members, .*Cure<Hint::pass_the_model_whose_parameters_backward_gave_gradients>>

#include <shardwise/shardwise.hpp>

using namespace shardwise;
using Matrix = Tensor<float, 2, Mesh<dp>, Shard<0>>;
using Model = Linear<Mesh<dp>>;

#ifdef SHOULD_FAIL
void learn(SGD& sgd, Model&, const Matrix& x) {
  Tape tape;
  auto loss = redistribute<Replicate>(mean(tape.input(x)));
  tape.backward(loss);
  sgd.step(loss);
}
#else
void learn(SGD& sgd, Model& model, const Matrix& x) {
  Tape tape;
  auto loss = redistribute<Replicate>(mean(model(tape.constant(x))));
  tape.backward(loss);
  sgd.step(model);
}
#endif
