// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// A plain tensor has no history: a tape records an operation only if an operand is on it. Give the
/// model `tape.constant(x)`, or `tape.input(x)` if you need the gradient of x. The loss is then a `Var`.
// expect: LayoutError<Reason::loss_depends_on_nothing_that_has_a_gradient, Got<Tensor<float, 0, Mesh<tp>, Replicate>>, Cure<Hint::put_its_inputs_on_the_tape_with_input_or_constant>>

#include <shardwise/autograd/tape.hpp>
#include <shardwise/mesh/mesh.hpp>

using namespace shardwise;
template <class P>
using Scalar = Tensor<float, 0, Mesh<tp>, P>;

#ifdef SHOULD_FAIL
void learn(Tape& tape, const Scalar<Replicate>& loss) {
  tape.backward(loss);
}
#else
void learn(Tape& tape, const Var<Scalar<Replicate> >& loss) {
  tape.backward(loss);
}
#endif
