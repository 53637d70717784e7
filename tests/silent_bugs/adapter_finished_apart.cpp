// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

// title: An adapter that is finished apart from its layer
// thread: NVIDIA-NeMo/Megatron-Bridge #5634 (mended by #5635)
// there: A layer left its terms of a sum for a later, single reduction. Its adapter gathered its own contribution by itself, so the sum counted it once for each rank. Training ran to its end, and the adapter was wrong.
// here: does not compile
/// The result of a layer and the contribution of its adapter are both terms, or both finished. (`Lora`
/// around the style of a `Linear` ensures this by itself: see [adapters](../learn/adapters.md).)
// expect: LayoutError<Reason::pending_sum_meets_a_finished_value, On<tp>, Expected<Partial<>, Partial<>>, Got<Partial<>, Replicate>, Cure<Hint::redistribute_to_what_is_Expected>>

#include <shardwise/mesh/mesh.hpp>
#include <shardwise/ops/add.hpp>
#include <shardwise/ops/linear.hpp>
#include <shardwise/tensor/distribute.hpp>

using namespace shardwise;
using Columns = Tensor<double, 2, Mesh<tp>, Shard<1>>;  // of x, of the layer's weight, and of A
using Whole = Tensor<double, 2, Mesh<tp>, Reduced>;     // B

#ifdef SHOULD_FAIL
auto adapted(const Columns& x, const Columns& weight, const Columns& a, const Whole& b) {
  return redistribute<tp, Replicate>(
      add(linear(x, weight), redistribute<tp, Replicate>(linear(linear(x, a), b))));
}
#else
auto adapted(const Columns& x, const Columns& weight, const Columns& a, const Whole& b) {
  return redistribute<tp, Replicate>(add(linear(x, weight), linear(linear(x, a), b)));
}

TEST_CASE("an adapter of ones adds the sum of the features, once") {
  const Mesh<tp> mesh(world(), {any});
  const auto x = full<double, Shard<1>>(mesh, {2, 8}, 1.), weight = full<double, Shard<1>>(mesh, {3, 8}, 2.);
  const auto a = full<double, Shard<1>>(mesh, {1, 8}, 1.);
  const auto b = full<double, Reduced>(mesh, {3, 1}, 1.);
  CHECK(full_tensor(adapted(x, weight, a, b)).isApproxToConstant(16 + 8));
}
#endif
