// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

// expect: LayoutError<Reason::name_or_form_of_another_library, Cure<Hint::it_is_read_only_so_make_another_with_from_local>>

#include <shardwise/shardwise.hpp>

using namespace shardwise;
using Rows = Tensor<double, 1, Mesh<tp>, Shard<0>>;

#ifdef SHOULD_FAIL
void halve(Rows& x) {
  x.local() = 0.5 * x.local();
}
#else
void halve(Rows& x) {
  x = from_local<Shard<0>>(x.mesh(), 0.5 * x.local());
}
#endif
