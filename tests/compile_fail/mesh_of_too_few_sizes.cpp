// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

// expect: LayoutError<Reason::name_or_form_of_another_library, Cure<Hint::pass_one_size_per_axis>>

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
