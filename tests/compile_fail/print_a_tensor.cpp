// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// Each rank has a block. Print that, or call `full_tensor` on all ranks, and print what it gives on one.
// expect: LayoutError<Reason::blocks_lie_on_many_ranks, Got<Tensor<float, 2, Mesh<tp>, Shard<0>>>, Cure<Hint::print_local_or_full_tensor>>

#include <iostream>
#include <shardwise/shardwise.hpp>

using namespace shardwise;

#ifdef SHOULD_FAIL
void print(const Tensor<float, 2, Mesh<tp>, Shard<0>>& x) {
  std::cout << x;
}
#else
void print(const Tensor<float, 2, Mesh<tp>, Shard<0>>& x) {
  std::cout << x.local();
}
#endif
