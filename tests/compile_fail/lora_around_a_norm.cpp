// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

// expect: LayoutError<Reason::style_does_not_suit_the_module, Got<LowRank<8(, 8)?>>, Cure<Hint::see_which_modules_the_style_applies_to>>

#include <shardwise/mesh/mesh.hpp>
#include <shardwise/nn/linear.hpp>
#include <shardwise/nn/rms_norm.hpp>

using namespace shardwise;

#ifdef SHOULD_FAIL
auto make(const Mesh<tp>& mesh) {
  return RMSNorm<Mesh<tp>, Lora<NoParallel, 8>>(mesh, 64);
}
#else
auto make(const Mesh<tp>& mesh) {
  return RMSNorm<Mesh<tp>, Frozen>(mesh, 64);
}
#endif
