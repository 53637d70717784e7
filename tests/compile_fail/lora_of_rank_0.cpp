// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// The rank of an adapter is the number of features between its two weights, at least 1.
// expect: LayoutError<Reason::adapter_needs_rank_and_alpha_of_1_or_more, Got<LowRank<0(, 0)?>>, Cure<Hint::use_1_or_more>>

#include <shardwise/mesh/mesh.hpp>
#include <shardwise/nn/linear.hpp>

using namespace shardwise;

#ifdef SHOULD_FAIL
auto make(const Mesh<tp>& mesh) {
  return Linear<Mesh<tp>, Lora<ColwiseParallel<tp>, 0>>(mesh, 64, 256);
}
#else
auto make(const Mesh<tp>& mesh) {
  return Linear<Mesh<tp>, Lora<ColwiseParallel<tp>, 1>>(mesh, 64, 256);
}
#endif
