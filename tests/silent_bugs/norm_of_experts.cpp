// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

// title: The norm of gradients of experts
// about: mixtures of experts
// thread: NVIDIA/Megatron-LM #5916 (also #6099)
// thread: deepspeedai/DeepSpeed #8475
// thread: NVIDIA-NeMo/Automodel #3816
// there: The code that clips gradients took all ranks for copies. It averaged the norms of different experts (7.236 instead of 10.954, the root of 120), left out experts of all ranks but one, or clipped by another norm on each rank.
// here: cannot be written
/// `gradient_norm` and `clip_gradients` add up the squares over the axes on which a parameter is sharded, and over no
/// others. The type of a parameter names these axes, so no call takes a group of ranks.

#include <shardwise/mesh/mesh.hpp>
#include <shardwise/module/module.hpp>
#include <shardwise/train/clip.hpp>

using namespace shardwise;

struct Experts : Module<Experts> {
  Parameter<Tensor<double, 1, Mesh<ep>, Shard<0>>> own;   // one number for each expert
  Parameter<Tensor<double, 1, Mesh<ep>, Reduced>> dense;  // the same on all ranks

  explicit Experts(const Mesh<ep>& mesh)
      : own(mesh, {4}, Init::constant(1)), dense(mesh, {4}, Init::constant(1)) {}
  auto forward(const auto& x) const {
    return add(mul(x, own), mul(x, alongside(redistribute<ep, Shard<0>>(dense.value()), x)));
  }
  void visit(auto&& f) { f("own", own), f("dense", dense); }
};

TEST_CASE("squares of 20 on one rank and of 100 on the other") {
  const Mesh<ep> mesh(world(), {any});
  Experts experts(mesh);
  initialize(experts, 1);
  Tape tape;
  const auto y = experts(tape.constant(distribute<Shard<0>>(mesh, Eigen::Vector4d(2, 4, 8, 6))));
  tape.backward(redistribute<ep, Replicate>(sum(y)));
  reduce_gradients(experts);
  CHECK(gradient_norm(experts) == Approx(std::sqrt(120.)));
}
