// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

// title: Clipping that scales nothing, and gradients reduced over the wrong ranks
// thread: huggingface/transformers #46113
// thread: NVIDIA/Megatron-LM #6080
// there: The reported norm was right, but no gradient was multiplied by a factor. In the other case a flag of a parameter was not set, which says over which ranks its gradient is summed, and gradients were scrambled.
// here: numerics only
/// The layout of a gradient determines the ranks over which it is summed: there is no flag. A test
/// checks that clipping really clips. With all gradients 1 the norm is the root of their number.

#include <shardwise/mesh/mesh.hpp>
#include <shardwise/nn/linear.hpp>
#include <shardwise/ops/reduction.hpp>
#include <shardwise/train/clip.hpp>

using namespace shardwise;

TEST_CASE("the norm of 48 + 8 ones, and after clipping") {
  const Mesh<dp, tp> mesh(world(), {world().size() % 2 == 0 ? 2 : 1, any});
  Linear<Mesh<dp, tp>, ColwiseParallel<tp>> layer(mesh, 6, 8);
  initialize(layer, 1);
  Tape tape;
  const auto y = layer(tape.constant(full<float, Shard<0>, Replicate>(mesh, {4, 6}, 0.25F)));
  tape.backward(redistribute<Replicate, Replicate>(sum(y)));
  CHECK(clip_gradients(layer, 1) == Approx(std::sqrt(6 * 8 * 1 + 8 * 16)));
  CHECK(gradient_norm(layer) == Approx(1));
}
