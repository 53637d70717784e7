// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

// expect: LayoutError<Reason::style_does_not_suit_the_module, Got<SequenceParallel<tp, 1>>, Cure<Hint::see_which_modules_the_style_applies_to>>

#include <shardwise/mesh/mesh.hpp>
#include <shardwise/nn/linear.hpp>
#include <shardwise/parallel/plan.hpp>

using namespace shardwise;

#ifdef SHOULD_FAIL
auto make(const Mesh<tp>& mesh) {
  return Linear<Mesh<tp>, SequenceParallel<tp>>(mesh, 64, 256);
}
#else
auto make(const Mesh<tp>& mesh) {
  return Linear<Mesh<tp>, ColwiseParallel<tp>>(mesh, 64, 256);
}
#endif
