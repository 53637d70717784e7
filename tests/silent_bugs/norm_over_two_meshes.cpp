// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

// title: One norm over two meshes
// thread: NVIDIA/Megatron-LM #6489
// there: Gradients of experts are on other ranks than those of the other layers, and the norm of all was computed as if they were on the same ranks.
// here: refused when called
/// A model with parameters on two meshes has two norms, and the program states how to combine them.

#include <shardwise/mesh/mesh.hpp>
#include <shardwise/nn/linear.hpp>
#include <shardwise/ops/reduction.hpp>
#include <shardwise/tensor/distribute.hpp>
#include <shardwise/train/clip.hpp>

using namespace shardwise;
using Layer = Linear<Mesh<tp>, NoParallel>;

struct Model {
  Layer dense, expert;
  void visit(auto&& f) { f("dense", dense), f("expert", expert); }
};

void learn(Layer& layer, const Mesh<tp>& mesh) {
  Tape tape;
  tape.backward(sum(layer(tape.constant(full<float, Replicate>(mesh, {2, 4}, 1.F)))));
}

TEST_CASE("a norm of the gradients on each mesh") {
  const Mesh<tp> mesh(world(), {any}), other(world(), {any});
  Model model{Layer(mesh, 4, 8), Layer(other, 4, 2)};
  initialize(model, 1);
  learn(model.dense, mesh);
  learn(model.expert, other);
  CHECK_THROWS_AS(gradient_norm(model), std::invalid_argument);
  CHECK_THROWS_WITH(gradient_norm(model),
                    "gradient_norm: the module's parameters live on two different meshes");

  CHECK(gradient_norm(model.dense) == Approx(std::sqrt(8 * (4 * 4 + 4))));
  CHECK(gradient_norm(model.expert) == Approx(std::sqrt(2 * (4 * 4 + 4))));
}
