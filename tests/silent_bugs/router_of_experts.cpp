// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

// title: A router whose gradient is not reduced
// thread: pytorch/torchtitan #2387 (mended by #2416)
// thread: pytorch/torchtitan #1805 (mended by #1878)
// thread: pytorch/torchtitan #4054
// about: mixtures of experts
// thread: huggingface/transformers #48205
// there: Each rank weighed the results of its own experts with scores that all ranks have. The gradient of the scores stayed a term on each rank. The router learned from one rank's share of it, and the losses looked normal.
// here: does not compile
/// From scores that all ranks have, a rank takes those of its experts: `Shard<1>`, a
/// slice, which sends nothing. The backward pass gathers the gradients of all experts.
// expect: LayoutError<Reason::dimension_sharded_on_one_side_only, On<tp>, Expected<Shard<1>, Shard<1>>, Got<Replicate, Shard<1>>, Cure<Hint::redistribute_to_what_is_Expected>>

#include <shardwise/autograd/redistribute.hpp>
#include <shardwise/autograd/tape.hpp>
#include <shardwise/mesh/mesh.hpp>
#include <shardwise/ops/arithmetic.hpp>
#include <shardwise/ops/reduction.hpp>

using namespace shardwise;
template <class P>
using OfExperts = Var<Tensor<double, 2, Mesh<tp>, P>>;  // [tokens, experts]

#ifdef SHOULD_FAIL
auto weighed(const OfExperts<Replicate>& scores, const OfExperts<Shard<1>>& results) {
  return mul(scores, results);
}
#else
auto weighed(const OfExperts<Replicate>& scores, const OfExperts<Shard<1>>& results) {
  return mul(redistribute<tp, Shard<1>>(scores), results);
}

TEST_CASE("the gradient of the scores comes from all experts") {
  const Mesh<tp> mesh(world(), {any});
  const Eigen::MatrixXd values{{1, 2, 3, 4}, {5, 6, 7, 8}};
  Tape tape;
  const auto scores = tape.input(full<double, Replicate>(mesh, {2, 4}, 0.25));
  const auto results = tape.input(distribute<Shard<1>>(mesh, values));
  tape.backward(redistribute<tp, Replicate>(sum(weighed(scores, results))));
  CHECK(full_tensor(scores.gradient()).isApprox(values));
}
#endif
