// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

// expect: LayoutError<Reason::name_or_form_of_another_library, Cure<Hint::pass_the_value_after_the_shape>>

#include <shardwise/shardwise.hpp>

using namespace shardwise;

using Rows = Shard<0>;

#ifdef SHOULD_FAIL
auto table(const Mesh<tp>& mesh) {
  return full<double, Rows>(mesh, {4, 4});
}
#else
auto table(const Mesh<tp>& mesh) {
  return full<double, Rows>(mesh, {4, 4}, 1);
}
#endif
