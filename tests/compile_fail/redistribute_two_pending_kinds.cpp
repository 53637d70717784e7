// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// A maximum over one axis and a sum over another do not commute: the order would change the result.
/// So a tensor is pending in one way only. Finish the first reduction, and then begin the next.
// expect: LayoutError<Reason::pending_reductions_of_different_kinds, Got<Partial<Max>, Partial<>>, Cure<Hint::redistribute_to_Replicate_first>>

#include <shardwise/mesh/mesh.hpp>
#include <shardwise/tensor/redistribute.hpp>

using namespace shardwise;
using Grid = Mesh<dp, tp>;
template <class... P>
using Matrix = Tensor<float, 2, Grid, P...>;

#ifdef SHOULD_FAIL
auto pending(const Matrix<Partial<Max>, Replicate>& x) {
  return redistribute<tp, Partial<>>(x);
}
#else
auto pending(const Matrix<Partial<Max>, Replicate>& x) {
  return redistribute<Replicate, Partial<>>(x);
}
#endif
