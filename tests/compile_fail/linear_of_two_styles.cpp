// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

// A layer has one style, which may combine several.
// expect: combine several styles: Styles<First, Second>

#include <shardwise/shardwise.hpp>

using namespace shardwise;

#ifdef SHOULD_FAIL
auto layer(const Mesh<dp, tp>& mesh) {
  return Linear<Mesh<dp, tp>, ColwiseParallel<tp>, FullyShard<dp>>(mesh, 4, 4);
}
#else
auto layer(const Mesh<dp, tp>& mesh) {
  return Linear<Mesh<dp, tp>, Styles<ColwiseParallel<tp>, FullyShard<dp>>>(mesh, 4, 4);
}
#endif
