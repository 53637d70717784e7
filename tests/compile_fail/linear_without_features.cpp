// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

// A layer needs its two numbers of features.
// expect: pass two extents: input features and output features

#include <shardwise/shardwise.hpp>

using namespace shardwise;

#ifdef SHOULD_FAIL
auto layer(const Mesh<tp>& mesh) {
  return Linear<Mesh<tp>>(mesh);
}
#else
auto layer(const Mesh<tp>& mesh) {
  return Linear<Mesh<tp>>(mesh, 4, 4);
}
#endif
