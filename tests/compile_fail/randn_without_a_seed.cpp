// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

// expect: LayoutError<Reason::name_or_form_of_another_library, Cure<Hint::pass_a_seed_as_the_next_argument>>

#include <shardwise/shardwise.hpp>

using namespace shardwise;

using Rows = Shard<0>;

#ifdef SHOULD_FAIL
auto table(const Mesh<tp>& mesh) {
  return randn<double, Rows>(mesh, {4, 4});
}
#else
auto table(const Mesh<tp>& mesh) {
  return randn<double, Rows>(mesh, {4, 4}, 1);
}
#endif
