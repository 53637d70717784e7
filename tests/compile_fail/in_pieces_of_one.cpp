// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

// expect: LayoutError<Reason::argument_of_the_style_is_not_allowed, Got<InPieces<1>>, Cure<Hint::name_two_to_eight_pieces>>

#include <shardwise/shardwise.hpp>

using namespace shardwise;

#ifdef SHOULD_FAIL
Linear<Mesh<tp>, Styles<ColwiseParallel<tp>, InPieces<1>>> up(const Mesh<tp>& mesh) {
#else
Linear<Mesh<tp>, Styles<ColwiseParallel<tp>, InPieces<2>>> up(const Mesh<tp>& mesh) {
#endif
  return {mesh, 4, 4};
}
