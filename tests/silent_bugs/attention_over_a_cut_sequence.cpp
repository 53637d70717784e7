// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

// title: Attention over a sequence that is cut
// thread: NVIDIA/Megatron-LM #1464
// there: With the sequence cut over ranks, the gradients of queries, keys and values were wrong by up to 1.2 of their size.
// here: does not compile
/// Every query needs every key, so the keys must be whole. Heads may be cut, and queries too.
/// (`InnerAttention` has styles for cut sequences: see [long contexts](../learn/long-contexts.md).)
// expect: LayoutError<Reason::operation_needs_this_dimension_whole_on_every_rank, On<tp>, Expected<Shard<1>, Reduced, Reduced>, Got<Shard<1>, Shard<1>, Shard<1>>, Cure<Hint::redistribute_to_what_is_Expected>>

#include <shardwise/autograd/redistribute.hpp>
#include <shardwise/autograd/tape.hpp>
#include <shardwise/mesh/mesh.hpp>
#include <shardwise/ops/attention.hpp>
#include <shardwise/ops/reduction.hpp>
#include <shardwise/tensor/distribute.hpp>

using namespace shardwise;
template <class P>
using Heads = Var<Tensor<double, 4, Mesh<tp>, P>>;  // [batch, sequence, heads, features]

#ifdef SHOULD_FAIL
auto attend(const Heads<Shard<1>>& q, const Heads<Shard<1>>& k, const Heads<Shard<1>>& v) {
  return attention(q, k, v);
}
#else
auto attend(const Heads<Shard<1>>& q, const Heads<Shard<1>>& k, const Heads<Shard<1>>& v) {
  return attention(redistribute<tp, Shard<2>>(q), redistribute<tp, Shard<2>>(k),
                   redistribute<tp, Shard<2>>(v));
}

TEST_CASE("gradients of attention over a cut sequence") {
  const Mesh<tp> mesh(world(), {any});
  const auto numbers = [&](auto placement, int seed) {
    return randn<double, decltype(placement)>(mesh, {1, 8, 4, 2}, static_cast<std::uint64_t>(seed));
  };
  Tape cut, whole;
  const auto q = cut.input(numbers(Shard<1>(), 1)), k = cut.input(numbers(Shard<1>(), 2)),
             v = cut.input(numbers(Shard<1>(), 3));
  cut.backward(redistribute<tp, Replicate>(sum_of_squares(attend(q, k, v))));
  const auto q1 = whole.input(numbers(Replicate(), 1)), k1 = whole.input(numbers(Replicate(), 2)),
             v1 = whole.input(numbers(Replicate(), 3));
  whole.backward(sum_of_squares(attention(q1, k1, v1)));
  CHECK(full_tensor(q.gradient()).isApprox(full_tensor(q1.gradient())));
  CHECK(full_tensor(k.gradient()).isApprox(full_tensor(k1.gradient())));
  CHECK(full_tensor(v.gradient()).isApprox(full_tensor(v1.gradient())));
}
#endif
