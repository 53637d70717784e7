// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

// expect: LayoutError<Reason::name_or_form_of_another_library, Cure<Hint::write_the_sizes_in_braces>>

#include <shardwise/shardwise.hpp>

using namespace shardwise;

using Rows = Shard<0>;

#ifdef SHOULD_FAIL
auto table(const Mesh<tp>& mesh) {
  return zeros<double, Rows>(mesh, 4, 4);
}
#else
auto table(const Mesh<tp>& mesh) {
  return zeros<double, Rows>(mesh, {4, 4});
}
#endif
