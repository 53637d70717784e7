// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// A message travels in one number of pieces. A plan with `InPieces` in all layers gives it to this one as well.
// expect: LayoutError<Reason::layer_has_two_numbers_of_pieces, Got<ColwiseParallel<tp>, InPieces<2>, InPieces<4>>, Cure<Hint::keep_one_of_the_two>>

#include <shardwise/shardwise.hpp>

using namespace shardwise;

#ifdef SHOULD_FAIL
Linear<Mesh<tp>, Styles<ColwiseParallel<tp>, InPieces<2>, InPieces<4>>> up(const Mesh<tp>& mesh) {
#else
Linear<Mesh<tp>, Styles<ColwiseParallel<tp>, InPieces<2>>> up(const Mesh<tp>& mesh) {
#endif
  return {mesh, 4, 4};
}
