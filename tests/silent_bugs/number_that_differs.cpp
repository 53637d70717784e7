// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

// title: A number that differs between ranks
// thread: NVIDIA/Megatron-LM #7452 (finding 3)
// thread: allenai/OLMo-core #319
// thread: facebookresearch/detr #544
// there: Each rank multiplied its loss by a factor that it computed from its own number of tokens, and a gradient was 14/3 instead of 4. In other cases ranks initialised the model from different seeds, so there were as many models as replicas.
// here: not covered
/// A factor or a seed is a number, and numbers have no layout. If it differs between ranks, the result
/// has a type that says otherwise. Shardwise offers these instead: `mean` and `CrossEntropyLoss`
/// divide by counts over all ranks. No function mixes the rank into a seed, so one seed in the program
/// is one model. `from_local<Replicate>` compares the blocks. With SHARDWISE_CHECK=1 `initialize`,
/// `randn` and `uniform` compare seeds, and `distribute` compares values. The program computes the
/// gradient of a factor that all tokens share. On 2 ranks 3 tokens count on one, and 1 on the other.

#include <shardwise/autograd/redistribute.hpp>
#include <shardwise/autograd/tape.hpp>
#include <shardwise/mesh/mesh.hpp>
#include <shardwise/ops/arithmetic.hpp>
#include <shardwise/ops/linear.hpp>
#include <shardwise/ops/reduction.hpp>
#include <shardwise/tensor/distribute.hpp>

using namespace shardwise;

/// The gradient of a factor that all tokens share. On 2 ranks 3 tokens count on one, and 1 on the other.
double gradient(const Mesh<dp>& mesh, double divisor) {
  Tape tape;
  const auto factor = tape.input(full<double, Replicate>(mesh, {1, 1}, 1.));
  const auto tokens = distribute<Shard<0>>(mesh, Eigen::MatrixXd{{3, 3, 4, 0, 6, 0, 0, 0}}.transpose());
  const auto losses = linear(tape.constant(tokens), redistribute<dp, Reduced>(factor));
  tape.backward(redistribute<dp, Replicate>(sum(scale(losses, 1 / divisor))));
  return full_tensor(factor.gradient())(0, 0);
}

TEST_CASE("one divisor is one loss, and two are two") {
  const Mesh<dp> mesh(world(), {any});
  CHECK(gradient(mesh, 4) == Approx(4));
  if (mesh.size() == 2) {
    const int count_here = mesh.rank() == 0 ? 3 : 1;  // the mistake, which nothing reports
    CHECK(gradient(mesh, 2 * count_here) == Approx(14. / 3));
  }
}

TEST_CASE("one seed is one tensor, and two are two") {
  const Mesh<dp> mesh(world(), {any});
  const auto of_first = full_tensor(randn<double, Shard<0>>(mesh, {4}, 0));
  const bool same = full_tensor(randn<double, Replicate>(mesh, {4}, 0)) == of_first;
  CHECK(same);
  const auto seed = static_cast<std::uint64_t>(mesh.rank());  // the mistake, which nothing reports
  const bool is_first = full_tensor(randn<double, Replicate>(mesh, {4}, seed)) == of_first;
  CHECK(is_first == (mesh.rank() == 0));
}

TEST_CASE("blocks that are not the same, but should be") {
  const Mesh<dp> mesh(world(), {any});
  if (mesh.size() == 1) return;
  CHECK_THROWS_WITH_AS(from_local<Replicate>(mesh, Eigen::VectorXd::Constant(2, mesh.rank())),
                       "from_local: rank 1 brings other values than rank 0, which should hold the same",
                       std::invalid_argument);
}
