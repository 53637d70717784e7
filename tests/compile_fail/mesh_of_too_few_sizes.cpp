// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

// expect: LayoutError<Reason::this_is_written_otherwise_here, Cure<Hint::give_one_size_per_axis>>

#include <shardwise/shardwise.hpp>

using namespace shardwise;

#ifdef SHOULD_FAIL
void begin() {
  Mesh<dp, tp> mesh(world(), {any});
}
#else
void begin() {
  Mesh<dp, tp> mesh(world(), {any, 1});
}
#endif
