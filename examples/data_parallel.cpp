// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// Data parallelism with the four levels of ZeRO. Prints the loss and a rank's peak memory for each level.

#include <cstdio>

#include <shardwise/shardwise.hpp>

namespace sw = shardwise;

using Mesh = sw::Mesh<sw::dp>;

template <class Style>
struct Net : sw::Module<Net<Style>> {
  sw::Linear<Mesh, Style> first, second;
  sw::Unit unit;  // its parameters are gathered and its gradients reduced together

  explicit Net(const Mesh& mesh) : first(mesh, 256, 1024), second(mesh, 1024, 256), unit(first, second) {}
  auto forward(const auto& x) const {
    return unit(x, [&](const auto& in) { return second(sw::gelu(first(in))); });
  }
  void visit(auto&& f) { f("first", first), f("second", second); }
};

template <int Level>
void train(const Mesh& mesh) {
  sw::Recording recording(mesh);
  Net<sw::Zero<Level, sw::dp>> net(mesh);
  sw::initialize(net, 1);
  sw::AdamW adamw({.rate = 1e-3});
  float loss_now = 0;
  for (int step = 0; step < 40; ++step) {
    const auto x =
        sw::randn<float, sw::Shard<0>>(mesh, {256, 256}, 2 + step % 4);  // each rank has some samples
    sw::Tape tape;
    const auto error = sw::sub(net(tape.constant(x)), tape.constant(sw::relu(x)));  // it learns relu
    const auto loss = sw::redistribute<sw::Replicate>(sw::mean(sw::mul(error, error)));
    sw::backward_and_reduce(loss, net);  // reductions start during the pass
    adamw.step(net);
    loss_now = sw::item(loss.value());
  }
  const auto plan = recording.plan();
  const auto most = [&](auto... use) { return sw::bytes_text(plan.peak_bytes(use...)); };
  if (mesh.rank() == 0) {
    std::printf("ZeRO %d: loss %.4f, parameters %s, gradients %s, optimizer state %s, all together %s\n",
                Level, double{loss_now}, most(sw::MemoryUse::parameter).c_str(),
                most(sw::MemoryUse::gradient).c_str(), most(sw::MemoryUse::optimizer_state).c_str(),
                most().c_str());
  }
}

int main(int argc, char** argv) {
  return sw::run(argc, argv, [&] {
    if (argc > 1) throw std::invalid_argument(std::string(argv[1]) + ": data_parallel takes no arguments");
    const Mesh mesh(sw::world(), {sw::any});
    train<0>(mesh), train<1>(mesh), train<2>(mesh), train<3>(mesh);
  });
}
