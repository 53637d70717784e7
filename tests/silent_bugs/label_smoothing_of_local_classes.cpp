// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

// title: Label smoothing over the classes of one rank
// thread: NVIDIA/Megatron-LM #7452 (finding 1, also #737 and #7464)
// there: Label smoothing mixes the loss with the mean over all classes. Here each rank took the mean over its own classes: another loss on each rank, and wrong gradients.
// here: does not compile
/// `mean` divides by the number of all classes, and its result over cut classes is
/// pending. (`CrossEntropyLoss` has `label_smoothing`; here it is written by hand.)
// expect: LayoutError<Reason::pending_sum_meets_a_finished_value, On<tp>, Expected<Partial<>, Partial<>>, Got<Replicate, Partial<>>, Cure<Hint::redistribute_to_what_is_Expected>>

#include <shardwise/mesh/mesh.hpp>
#include <shardwise/nn/cross_entropy_loss.hpp>
#include <shardwise/ops/arithmetic.hpp>
#include <shardwise/ops/reduction.hpp>

using namespace shardwise;
using Logits = Tensor<double, 2, Mesh<tp>, Shard<1>>;    // [tokens, classes]
using LogSums = Tensor<double, 1, Mesh<tp>, Replicate>;  // log Σ exp, of each token

#ifdef SHOULD_FAIL
auto smooth_loss(const LogSums& log_sums, const Logits& logits) { return sub(log_sums, mean<1>(logits)); }
#else
auto smooth_loss(const LogSums& log_sums, const Logits& logits) {
  return sub(log_sums, redistribute<tp, Replicate>(mean<1>(logits)));
}

TEST_CASE("smoothing goes over all classes") {
  const Mesh<tp> mesh(world(), {any});
  const auto logits = distribute<Shard<1>>(mesh, Eigen::MatrixXd{{0, 1, 2, 3}});
  const auto log_sums = full<double, Replicate>(mesh, {1}, 3.44019);
  CHECK(full_tensor(smooth_loss(log_sums, logits))[0] == Approx(1.94019));
  const auto target = full<std::int32_t, Replicate>(mesh, {1}, 3);
  CHECK(item(CrossEntropyLoss({.label_smoothing = 1})(logits, target)) == Approx(1.94019));
}
#endif
