// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// A layer has one adapter: two adapters would equal one of a higher rank.
// expect: LayoutError<Reason::layer_has_two_adapters, Got<ColwiseParallel<tp>, LowRank<8(, 8)?>, LowRank<4(, 4)?>>, Cure<Hint::keep_one_of_the_two>>

#include <shardwise/mesh/mesh.hpp>
#include <shardwise/nn/linear.hpp>

using namespace shardwise;

#ifdef SHOULD_FAIL
auto make(const Mesh<tp>& mesh) {
  return Linear<Mesh<tp>, Lora<Lora<ColwiseParallel<tp>, 8>, 4>>(mesh, 64, 256);
}
#else
auto make(const Mesh<tp>& mesh) {
  return Linear<Mesh<tp>, Lora<ColwiseParallel<tp>, 8>>(mesh, 64, 256);
}
#endif
