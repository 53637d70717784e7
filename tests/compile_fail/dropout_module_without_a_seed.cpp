// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

// expect: LayoutError<Reason::name_or_form_of_another_library, Cure<Hint::pass_a_seed_as_the_next_argument>>

#include <shardwise/shardwise.hpp>

using namespace shardwise;
using Table = Tensor<double, 2, Mesh<tp>, Shard<0>>;

#ifdef SHOULD_FAIL
auto drop(const Table& x) {
  return Dropout(0.1)(x);
}
#else
auto drop(const Table& x) {
  return Dropout(0.1, 1)(x);
}
#endif
