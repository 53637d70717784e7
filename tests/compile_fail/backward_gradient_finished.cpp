// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

// expect: LayoutError<Reason::pending_sum_meets_a_finished_value, On<tp>, Expected<Partial<>>, Got<Replicate>, Cure<Hint::redistribute_to_what_is_Expected>>

#include <shardwise/autograd/tape.hpp>
#include <shardwise/mesh/mesh.hpp>

using namespace shardwise;
template <class P>
using Vector = Tensor<float, 1, Mesh<tp>, P>;

#ifdef SHOULD_FAIL
void learn(Tape& tape, const Var<Vector<Reduced>>& y, const Vector<Replicate>& dy) {
  tape.backward(y, dy);
}
#else
void learn(Tape& tape, const Var<Vector<Reduced>>& y, const Vector<Partial<Sum>>& dy) {
  tape.backward(y, dy);
}
#endif
