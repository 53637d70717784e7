// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

// expect: Reason::loss_depends_on_nothing_that_has_a_gradient, Got<Linear<.*Cure<Hint::pass_the_loss_first_and_then_the_model>>

#include <shardwise/shardwise.hpp>

using namespace shardwise;
using Matrix = Tensor<float, 2, Mesh<dp>, Shard<0>>;
using Model = Linear<Mesh<dp>>;

#ifdef SHOULD_FAIL
void learn(Model& model, const Matrix& x) {
  Tape tape;
  auto loss = redistribute<Replicate>(mean(model(tape.constant(x))));
  backward_and_reduce(model, loss);
}
#else
void learn(Model& model, const Matrix& x) {
  Tape tape;
  auto loss = redistribute<Replicate>(mean(model(tape.constant(x))));
  backward_and_reduce(loss, model);
}
#endif
