// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

// expect: LayoutError<Reason::name_or_form_of_another_library, Cure<Hint::write_the_sizes_in_braces>>

#include <shardwise/shardwise.hpp>

using namespace shardwise;

#ifdef SHOULD_FAIL
void begin() {
  Mesh<dp, tp> mesh(world(), 1, any);
}
#else
void begin() {
  Mesh<dp, tp> mesh(world(), {1, any});
}
#endif
