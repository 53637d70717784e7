// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

// expect: LayoutError<Reason::name_or_form_of_another_library, Cure<Hint::pass_a_seed_as_the_next_argument>>

#include <shardwise/shardwise.hpp>

#include <shardwise/linalg/lstsq.hpp>

using namespace shardwise;
using Table = Tensor<double, 2, Mesh<tp>, Shard<0>>;

#ifdef SHOULD_FAIL
auto factors(const Table& x) {
  return svd_lowrank(x, 3);
}
#else
auto factors(const Table& x) {
  return svd_lowrank(x, 3, 1);
}
#endif
