// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

#include <shardwise/shardwise.hpp>

using namespace shardwise;

#ifdef SHOULD_FAIL
auto layer(const Mesh<tp>& mesh) {
  return Linear<Mesh<tp>>(mesh, 8, 8, false);
}
#else
auto layer(const Mesh<tp>& mesh) {
  return Linear<Mesh<tp>, NoParallel, float, 1, 1, false>(mesh, 8, 8);
}
#endif
