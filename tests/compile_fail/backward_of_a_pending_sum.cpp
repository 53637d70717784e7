// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// The gradient of a loss with respect to itself is 1 on every rank, so every rank must hold
/// the same finished value. Redistribute a pending sum, or a `Reduced` value, to `Replicate`.
// expect: LayoutError<Reason::loss_is_not_the_same_finished_value_on_every_rank, Got<Tensor<float, 0, Mesh<dp>, Partial<>>>, Cure<Hint::redistribute_to_Replicate_to_finish_the_reduction>>

#include <shardwise/shardwise.hpp>

using namespace shardwise;
template <class P>
using Matrix = Tensor<float, 2, Mesh<dp>, P>;

#ifdef SHOULD_FAIL
void learn(Tape& tape, const Var<Matrix<Shard<0>>>& y) {
  auto loss = mean(y);  // each rank's share of the mean: Partial<Sum>
  tape.backward(loss);
}
#else
void learn(Tape& tape, const Var<Matrix<Shard<0>>>& y) {
  auto loss = mean(y);
  tape.backward(redistribute<dp, Replicate>(loss));
}
#endif
