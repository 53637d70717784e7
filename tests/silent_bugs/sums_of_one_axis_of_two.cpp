// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

// title: A count summed over one axis of two
// thread: verl-project/verl #5983
// there: The counted tokens were summed over the data-parallel ranks alone, although the sequence was cut as well. So the loss was divided by too few tokens.
// here: does not compile
// expect: LayoutError<Reason::value_is_pending_on_every_rank, Got<Tensor<double, 0, Mesh<dp, cp>, Replicate, Partial<>>>, Cure<Hint::redistribute_to_Replicate_to_finish_the_reduction>>

#include <shardwise/mesh/mesh.hpp>
#include <shardwise/ops/reduction.hpp>
#include <shardwise/tensor/distribute.hpp>

using namespace shardwise;
using Counts = Tensor<double, 2, Mesh<dp, cp>, Shard<0>, Shard<1>>;  // [sequences, tokens]

#ifdef SHOULD_FAIL
double counted(const Counts& counts) { return item(redistribute<dp, Replicate>(sum(counts))); }
#else
double counted(const Counts& counts) { return item(redistribute<Replicate, Replicate>(sum(counts))); }

TEST_CASE("4 sequences of 6 tokens") {
  const Mesh<dp, cp> mesh(world(), {world().size() % 2 == 0 ? 2 : 1, any});
  CHECK(counted(full<double, Shard<0>, Shard<1>>(mesh, {4, 6}, 1.)) == 24);
}
#endif
