// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

// title: The state of an optimizer that comes back wrong
// thread: huggingface/transformers #48569
// there: Under tensor parallelism the loaded state of the optimizer was not that of the sharded parameters, and saving from one rank hung.
// here: numerics only
/// The state has the layout of the gradient, and all ranks together save it like any
/// tensor. A test checks that the right numbers come back, in another layout too.

#include <shardwise/checkpoint/load.hpp>
#include <shardwise/checkpoint/save.hpp>
#include <shardwise/mesh/mesh.hpp>
#include <shardwise/nn/linear.hpp>
#include <shardwise/ops/reduction.hpp>
#include <shardwise/tensor/distribute.hpp>
#include <shardwise/train/sgd.hpp>

#include "mpi/scratch_folder.hpp"

using namespace shardwise;

template <class Style>
struct Run {
  explicit Run(const Mesh<tp>& mesh) : layer(mesh, 4, 6), contents(mesh) {
    contents.add("layer", layer);
    contents.add("momentum", sgd, layer);
  }
  void step(const Mesh<tp>& mesh) {
    Tape tape;
    const auto y = layer(tape.constant(full<float, Replicate>(mesh, {2, 4}, 1.F)));
    tape.backward(redistribute<tp, Replicate>(sum(y)));
    sgd.step(layer);
  }
  Linear<Mesh<tp>, Style> layer;
  SGD sgd{{.rate = 0.5, .momentum = 0.5}};
  CheckpointContents contents;
};

TEST_CASE("momentum goes on where it was, in another layout") {
  const Mesh<tp> mesh(world(), {any});
  const ScratchFolder folder;
  Run<ColwiseParallel<tp>> first(mesh);
  initialize(first.layer, 1);
  first.step(mesh);
  save_checkpoint(folder / "run", first.contents);
  first.step(mesh);

  Run<NoParallel> second(mesh);
  load_checkpoint(folder / "run", second.contents);
  second.step(mesh);
  CHECK(full_tensor(second.layer.weight.value()).isApprox(full_tensor(first.layer.weight.value())));
}
