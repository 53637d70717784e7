// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// The samples are `Replicate` on a data axis, and a module has used them as
/// `Reduced`, which is free. So all ranks of the axis have computed the loss of the
/// same samples. Shard the samples there or, if you mean this, go to `Replicate`.
// expect: LayoutError<Reason::samples_are_not_sharded, Got<Tensor<float, 0, Mesh<dp>, Reduced>>, Cure<Hint::shard_the_samples_or_redistribute_to_Replicate>>

#include <shardwise/shardwise.hpp>

using namespace shardwise;
template <class P>
using Matrix = Tensor<float, 2, Mesh<dp>, P>;

#ifdef SHOULD_FAIL
void learn(Tape& tape, const Linear<Mesh<dp>>& layer, const Matrix<Replicate>& x) {
  tape.backward(mean(layer(tape.constant(x))));
}
#else
void learn(Tape& tape, const Linear<Mesh<dp>>& layer, const Matrix<Shard<0>>& x) {
  tape.backward(redistribute<Replicate>(mean(layer(tape.constant(x)))));
}
#endif
