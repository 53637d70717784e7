// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

// title: A checkpoint of which a piece is not read
// thread: sgl-project/sglang #36438
// thread: KempnerInstitute/KempnerForge #202
// thread: vllm-project/vllm-gguf-plugin #103
// there: More ranks wrote a checkpoint than read it, or every rank wrote, or read, the same piece. Each name was there, so the load was not refused, and experts were missing.
// here: refused when called
/// A checkpoint records which elements of the whole tensor each piece has, and any mesh
/// reads the elements that it needs. If some are missing, every rank refuses the checkpoint.

#include <shardwise/checkpoint/load.hpp>
#include <shardwise/checkpoint/save.hpp>
#include <shardwise/mesh/mesh.hpp>
#include <shardwise/tensor/distribute.hpp>

#include "mpi/scratch_folder.hpp"

using namespace shardwise;

TEST_CASE("written in rows, read in columns, and refused without a file") {
  const Mesh<tp> mesh(world(), {any});
  const ScratchFolder folder;
  auto experts = randn<double, Shard<0>>(mesh, {8, 6}, 1);
  CheckpointContents written(mesh);
  written.add("experts", experts);
  save_checkpoint(folder / "run", written);

  auto columns = zeros<double, Shard<1>>(mesh, {8, 6});
  CheckpointContents read(mesh);
  read.add("experts", columns);
  load_checkpoint(folder / "run", read);
  CHECK(full_tensor(columns) == full_tensor(experts));

  if (mesh.rank() == 0) {
    for (const auto& file : std::filesystem::directory_iterator(folder / "run")) {
      if (file.path().extension() != ".json") std::filesystem::remove(file.path());
    }
  }
  world().barrier();
  CHECK_THROWS_AS(load_checkpoint(folder / "run", read), std::runtime_error);
}
