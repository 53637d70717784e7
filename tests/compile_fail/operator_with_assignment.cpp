// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// An operation makes a new tensor: blocks that handles share do not change.
// expect: LayoutError<Reason::name_or_form_of_another_library, Cure<Hint::write_x_equals_x_plus_y>>

#include <shardwise/shardwise.hpp>

using namespace shardwise;

using Rows = Var<Tensor<float, 2, Mesh<tp>, Shard<0>>>;

#ifdef SHOULD_FAIL
void add_to(Rows& x, const Rows& y) {
  x += y;
}
#else
void add_to(Rows& x, const Rows& y) {
  x = x + y;
}
#endif
