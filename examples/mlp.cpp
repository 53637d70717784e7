// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// Trains an MLP, split over all ranks as in Megatron-LM. Prints the decreasing loss, and the communication.

#include <cstdio>

#include <shardwise/shardwise.hpp>

namespace sw = shardwise;

template <class Mesh>
struct Mlp : sw::Module<Mlp<Mesh>> {
  sw::Linear<Mesh, sw::ColwiseParallel<sw::tp>> up;    // each rank has some of the hidden features
  sw::Linear<Mesh, sw::RowwiseParallel<sw::tp>> down;  // and computes a term of the result

  constexpr explicit Mlp(const Mesh& mesh) : up(mesh, 256, 1024), down(mesh, 1024, 256) {}
  constexpr auto forward(const auto& x) const { return down(sw::gelu(up(x))); }
  constexpr void visit(auto&& f) { f("up", up), f("down", down); }
};

constexpr auto train_step(auto& model, auto& optimizer, const auto& x, const auto& y) {
  sw::Tape tape;
  const auto error = model(tape.input(x)) - tape.constant(y);
  const auto loss = sw::mean(sw::mul(error, error));
  tape.backward(loss);
  optimizer.step(model);
  return loss.value();
}

// The same step on a mesh of 8 ranks at compile time: Megatron's two all-reduces, of 512 x 256 floats each.
constexpr auto planned = sw::trace<sw::Mesh<sw::tp>>({8}, [](const auto& mesh) {
  Mlp model(mesh);
  sw::AdamW adamw;
  const auto batch = sw::empty<float, sw::Replicate>(mesh, {512, 256});
  train_step(model, adamw, batch, batch);
});
static_assert(planned.count(sw::Collective::all_reduce, sw::Phase::forward) == 1);
static_assert(planned.count(sw::Collective::all_reduce, sw::Phase::backward) == 1);
static_assert(planned.collectives() == 2 && planned.bytes() == 2 * 512 * 256 * sizeof(float));

int main(int argc, char** argv) {
  return sw::run(argc, argv, [&] {
    if (argc > 1) throw std::invalid_argument(std::string(argv[1]) + ": mlp takes no arguments");
    const sw::Mesh<sw::tp> mesh(sw::world(), {sw::any});
    Mlp model(mesh);
    sw::initialize(model, 1);  // the same weights on any number of ranks
    sw::AdamW adamw({.rate = 1e-3});
    const auto x = sw::randn<float, sw::Replicate>(mesh, {512, 256}, 2),
               y = sw::randn<float, sw::Replicate>(mesh, {512, 256}, 3);
    sw::Recording recording(mesh);
    for (int step = 1; step <= 50; ++step) {
      recording.restart();
      const float loss = sw::item(train_step(model, adamw, x, y));
      if (mesh.rank() == 0 && step % 10 == 0) std::printf("step %d: loss %.4f\n", step, double{loss});
    }
    if (mesh.rank() == 0) std::printf("%s", sw::plan_table("a step", recording.plan()).c_str());
  });
}
