// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// A steady training step takes nothing from the system: the pool does not grow, nor does the heap.

#include <doctest/doctest.h>
#include <malloc.h>
#include <shardwise/comm/progress.hpp>
#include <shardwise/llm/models/llama/model.hpp>
#include <shardwise/mesh/mesh.hpp>
#include <shardwise/nn/cross_entropy_loss.hpp>
#include <shardwise/nn/linear_cross_entropy_loss.hpp>
#include <shardwise/ops/reduction.hpp>
#include <shardwise/pipeline/pipeline.hpp>
#include <shardwise/schedule/one_forward_one_backward.hpp>
#include <shardwise/schedule/v_shapes.hpp>
#include <shardwise/train/adamw.hpp>
#include <shardwise/train/sgd.hpp>
#include "support/gpt.hpp"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <new>
#include <vector>

namespace sw = shardwise;
using sw::dp;
using sw::Index;
using sw::Replicate;
using sw::Shard;
using sw::tp;

namespace {

long allocations = 0;

void* counted(std::size_t bytes, std::size_t alignment = alignof(std::max_align_t)) {
  ++allocations;
  void* memory = nullptr;
  if (posix_memalign(&memory, alignment, bytes == 0 ? 1 : bytes) != 0) throw std::bad_alloc();
  return memory;
}

}  // namespace

[[gnu::noinline]] void* operator new(std::size_t bytes) { return counted(bytes); }
[[gnu::noinline]] void* operator new(std::size_t bytes, std::align_val_t alignment) {
  return counted(bytes, static_cast<std::size_t>(alignment));
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t, std::align_val_t) noexcept {
  std::free(memory);
}

namespace {

/// Bytes that malloc has from the system.
std::size_t heap() {
  const auto info = mallinfo2();
  return info.arena + info.hblkhd;
}

struct Growth {
  Index pool;
  std::size_t heap;
  long allocations;
};

/// What 20 steps take from the system, after three. Ranks keep together, or MPI must store what comes early; it still may
/// at times, in the same heap. So of the heap's growth the least of up to five rounds counts: what the steps themselves
/// took would be taken in every round.
template <class Step>
Growth growth(Step once) {
  auto step = [&] {
    once();
    sw::world().barrier();
  };
  sw::detail::Progress::get();  // else made when a rank first waits for a millisecond
  for (int i = 0; i < 3; ++i) step();
  const Index pool_before = sw::memory_pool().system_bytes();
  Growth least{0, ~std::size_t{0}, 0};
  for (int round = 0, grown = 1; round < 5 && grown != 0; ++round) {
    const std::size_t heap_before = heap();
    const long allocations_before = allocations;
    for (int i = 0; i < 20; ++i) step();
    least.heap = std::min(least.heap, heap() - heap_before);
    least.allocations = std::max(least.allocations, allocations - allocations_before);
    const int mine = least.heap != 0;
    sw::world().all_reduce(&mine, &grown, 1, sw::DataType::i32, sw::ReduceOp::max);
  }
  least.pool = sw::memory_pool().system_bytes() - pool_before;
  return least;
}

using Mesh = sw::Mesh<dp, tp>;

std::vector<Mesh> meshes() {
  const int ranks = sw::world().size();
  std::vector<Mesh> all;
  for (int data = 1; data <= ranks; ++data) {
    if (ranks % data == 0) all.emplace_back(sw::world(), Mesh::SizesOf{data, ranks / data});
  }
  return all;
}

}  // namespace

TEST_CASE("a language model") {
  for (const Mesh& mesh : meshes()) {
    INFO("dp ", mesh.size<dp>(), " tp ", mesh.size<tp>());
    Gpt<Mesh> model(
        mesh, {.vocabulary = 61, .context = 32, .features = 40, .heads = 5, .hidden = 160, .layers = 2});
    sw::initialize(model, 1);
    sw::AdamW adamw;
    auto ids = sw::zeros<std::int32_t, Shard<0>, Replicate>(mesh, {5, 32});
    const Growth grown = growth([&] {
      sw::Tape tape;
      tape.backward(sw::CrossEntropyLoss()(model(tape.constant(ids)), ids));
      adamw.step(model);
    });
    CHECK(grown.pool == 0);
    CHECK(grown.heap == 0);
    // Only the lists of counts of the logits' gather: a few words, which the heap has.
    CHECK(grown.allocations <= 20 * 10);
  }
}

TEST_CASE("a sequence-parallel MLP, with gathers and scatters in both directions") {
  for (const Mesh& mesh : meshes()) {
    INFO("dp ", mesh.size<dp>(), " tp ", mesh.size<tp>());
    using Down = sw::RowwiseParallel<tp, sw::output<Shard<1>>>;
    sw::Mlp<Mesh, float, sw::ColwiseParallel<tp>, Down> mlp(mesh, 48, 100);
    sw::initialize(mlp, 1);
    sw::AdamW adamw;
    const auto x = sw::randn<float, Shard<0>, Shard<1>>(mesh, {5, 7, 48}, 1);
    const Growth grown = growth([&] {
      sw::Tape tape;
      auto y = mlp(tape.input(x));
      tape.backward(sw::redistribute<Replicate, Replicate>(sw::mean(std::move(y))));
      adamw.step(mlp);
    });
    CHECK(grown.pool == 0);
    CHECK(grown.heap == 0);
  }
}

TEST_CASE("without gathers there is no call of the allocator at all") {
  for (const Mesh& mesh : meshes()) {
    INFO("dp ", mesh.size<dp>(), " tp ", mesh.size<tp>());
    sw::Mlp<Mesh> mlp(mesh, 48, 100);
    sw::initialize(mlp, 1);
    sw::AdamW adamw;
    const auto x = sw::randn<float, Shard<0>, Replicate>(mesh, {5, 48}, 1);
    const Growth grown = growth([&] {
      sw::Tape tape;
      auto y = mlp(tape.input(x));
      tape.backward(sw::redistribute<Replicate, Replicate>(sw::mean(std::move(y))));
      adamw.step(mlp);
    });
    CHECK(grown.pool == 0);
    CHECK(grown.heap == 0);
    CHECK(grown.allocations == 0);
  }
}

TEST_CASE("a pipeline") {
  const int ranks = sw::world().size();
  const sw::Mesh<sw::pp, dp, tp> job(sw::world(), {ranks, 1, 1});
  using Part = sw::llm::Llama<Mesh>;
  const sw::llm::LlamaConfig config{
      .vocabulary = 61, .features = 40, .layers = 8, .heads = 4, .kv_heads = 4, .hidden = 60, .tied = true};
  for (const sw::PipelineSchedule& schedule :
       {sw::one_forward_one_backward(ranks, 4), sw::zb_h1(ranks, 4), sw::zb_v(ranks, 4)}) {
    const sw::Pipeline pipeline(job, schedule);
    auto stages = pipeline.stages([&](int stage, const Mesh& mesh) {
      return Part(mesh, config, sw::llm::LlamaPart::of(config, pipeline.schedule().rank_of_stage, stage));
    });
    sw::initialize(stages, 1);
    sw::AdamW adamw;
    auto ids = sw::zeros<std::int32_t, Shard<0>, Replicate>(pipeline.mesh(), {2, 32});
    const Growth grown = growth([&] {
      pipeline.run(
          stages, {2, 32, config.features},
          [&](sw::Tape& tape, Part& part, int) { return part.begin(tape.constant(ids)); },
          [](Part& part, const auto& x) { return part.middle(x); },
          [&](Part& part, const auto& x, int) { return part.end(x, ids, sw::LinearCrossEntropyLoss()); });
      pipeline.clip_gradients(stages, 1);
      adamw.step(stages);
    });
    INFO(ranks, " ranks, ", pipeline.stage_count(), " stages");
    CHECK(grown.pool == 0);
    CHECK(grown.heap == 0);
    // Only messages call the allocator: lists of a few words, which the heap has.
    if (ranks == 1) CHECK(grown.allocations == 0);
  }
}

TEST_CASE("the pool gives back what is not in use") {
  {
    auto x = sw::zeros<float, Replicate, Replicate>(Mesh(sw::world(), {1, sw::any}), {1000, 1000});
    CHECK(sw::memory_pool().system_bytes() >= 4000000);
  }
  const Index before = sw::memory_pool().system_bytes();
  sw::memory_pool().trim();
  CHECK(sw::memory_pool().system_bytes() <= before - 4000000);
}

TEST_CASE("what a recording has counted may outlive the mesh, and is then nobody's") {
  sw::SGD sgd({.rate = 0.1, .momentum = 0.9});
  auto kept = [&] {
    Mesh mesh(sw::world(), {1, sw::any});
    sw::Recording recording(mesh);
    sw::Parameter<sw::Tensor<float, 1, Mesh, Replicate, Replicate>> weight(mesh, {100},
                                                                           sw::Init::constant(1));
    weight.initialize(1);
    weight.slot()->add(sw::zeros<float, Replicate, Replicate>(mesh, {100}));
    sgd.step(weight);
    CHECK(recording.plan().peak_bytes(sw::MemoryUse::optimizer_state) == 400);
    return sw::zeros<float, Replicate, Replicate>(mesh, {50});
  }();
  kept = decltype(kept)();  // the last that held the mesh
  Mesh next(sw::world(), {1, sw::any});
  sw::Recording recording(next);
  sgd = sw::SGD({.rate = 0.1});
  const auto plan = recording.plan();
  for (const sw::Memory& memory : plan.record().memory) CHECK(memory.live == 0);
}
