// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// `backward` differentiates one number, and a matrix has many.
// expect: LayoutError<Reason::loss_is_not_a_scalar, Got<Tensor<float, 2, Mesh<tp>, Replicate>>, Cure<Hint::pass_it_with_the_targets_to_a_loss_such_as_mse_loss_or_CrossEntropyLoss>>

#include <shardwise/shardwise.hpp>

using namespace shardwise;
template <class P>
using Matrix = Tensor<float, 2, Mesh<tp>, P>;

#ifdef SHOULD_FAIL
void learn(Tape& tape, const Var<Matrix<Replicate>>& y) {
  tape.backward(y);
}
#else
void learn(Tape& tape, const Var<Matrix<Replicate>>& y) {
  tape.backward(mean(y));
}
#endif
