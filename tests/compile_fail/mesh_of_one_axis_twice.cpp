// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

// in a header
// expect: an axis is named twice

#include <shardwise/mesh/mesh.hpp>

using namespace shardwise;

#ifdef SHOULD_FAIL
auto make(const Communicator& ranks) {
  return Mesh<tp, tp>(ranks, {any, 1});
}
#else
auto make(const Communicator& ranks) {
  return Mesh<dp, tp>(ranks, {any, 1});
}
#endif
