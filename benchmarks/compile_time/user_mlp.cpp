// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// A user's translation unit: trains an MLP whose layers are split over all ranks.

#include <cstdio>

#include <shardwise/shardwise.hpp>

namespace sw = shardwise;

int main(int argc, char** argv) {
  return sw::run(argc, argv, [] {
    sw::Mesh<sw::tp> mesh(sw::world(), {sw::any});
    sw::Mlp model(mesh, 1024, 4096);
    sw::initialize(model, 1);
    sw::SGD sgd({.rate = 0.1});
    const auto x = sw::randn<float, sw::Replicate>(mesh, {2048, 1024}, 2);
    const auto target = sw::randn<float, sw::Replicate>(mesh, {2048, 1024}, 3);
    for (int step = 1; step <= 10; ++step) {
      sw::Tape tape;
      auto difference = sw::sub(model(tape.constant(x)), tape.constant(target));
      auto loss = sw::scale(sw::sum_of_squares(difference), 1.0 / (2048 * 1024));
      tape.backward(loss);
      sgd.step(model);
      if (mesh.rank() == 0)
        std::printf("step %d: loss %f\n", step, static_cast<double>(sw::item(loss.value())));
    }
  });
}
