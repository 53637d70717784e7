// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

// expect: LayoutError<Reason::loss_depends_on_nothing_that_has_a_gradient, Got<Var<Tensor<float, 0,

#include <shardwise/autograd/tape.hpp>
#include <shardwise/mesh/mesh.hpp>

using namespace shardwise;
template <class P>
using Scalar = Tensor<float, 0, Mesh<tp>, P>;

#ifdef SHOULD_FAIL
void learn(Tape& tape, const Var<Scalar<Replicate>, false>& loss) {
  tape.backward(loss);
}
#else
void learn(Tape& tape, const Var<Scalar<Replicate>, true>& loss) {
  tape.backward(loss);
}
#endif
