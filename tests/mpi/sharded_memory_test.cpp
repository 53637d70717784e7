// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// What sharding saves: exactly the ranks' share of parameters, gradients and state between steps; two units and their
/// gradients during one; and what a process really takes from the system is what the plan says.

#include <doctest/doctest.h>
#include <unistd.h>
#include <shardwise/mesh/trace.hpp>
#include <support/sharded_step.hpp>

#include <algorithm>
#include <array>
#include <cstring>
#include <fstream>
#include <vector>

namespace shardwise::testing {
namespace {

using Grid = Mesh<dp, tp>;
using TensorPlan = llm::LlamaTensorParallel<>;
template <int Level>
using AtLevel = PlanWith<TensorPlan, Zero<Level, dp>>;

Index live(const Grid& mesh, MemoryUse use) {
  return mesh.recorder()->record().memory[static_cast<std::size_t>(use)].live;
}

/// Bytes of the parameters of each unit of a small Llama of so many layers.
std::vector<Index> unit_bytes(Index layers) {
  const llm::LlamaConfig config = small_llama(false);
  const Index f = config.features, table = config.vocabulary * f;
  const Index layer = 4 * f * config.heads * config.head_dim + 3 * f * config.hidden + 2 * f;
  std::vector<Index> bytes(static_cast<std::size_t>(layers + 2), layer * Index{sizeof(float)});
  bytes.front() = table * Index{sizeof(float)};
  bytes.back() = (table + f) * Index{sizeof(float)};
  return bytes;
}
Index sum(const std::vector<Index>& numbers) {
  Index total = 0;
  for (Index number : numbers) total += number;
  return total;
}

template <class Model>
void pass(const Grid& mesh, Model& model, const ReduceOptions& options, Index kept = 0) {
  const auto ids = zeros<std::int32_t, Shard<0>, Replicate>(mesh, {12, 8});
  Tape tape;
  auto loss = CrossEntropyLoss()(model(tape.constant(ids)), ids);
  CHECK(live(mesh, MemoryUse::gathered) == kept);
  backward_and_reduce(loss, model, options);
  CHECK(live(mesh, MemoryUse::gathered) == 0);
}

/// Which part of all parameters is there of each, in steps with three micro-batches.
struct Shares {
  Index parameters, resting, finished, state;  ///< 1: all of it; else this rank's share
};
template <int Level>
void check_shares(const Grid& mesh, const Shares& shares, int lowered = Level) {
  INFO("level ", Level, " as ", lowered);
  const Index all = sum(unit_bytes(3)), ranks = mesh.size<dp>();
  const auto of = [&](Index share) { return share == 1 ? all : all / ranks; };
  Recording recording(mesh);
  llm::Llama<Grid, AtLevel<Level>> model(mesh, small_llama(false));
  CHECK(parameter_count(model) * Index{sizeof(float)} == all);
  if (lowered < Level) lower_zero_level(model, lowered);
  initialize(model, 1);
  AdamW adamw;
  for (int step = 0; step < 2; ++step) {
    CHECK(live(mesh, MemoryUse::parameter) == of(shares.parameters));
    CHECK(live(mesh, MemoryUse::gradient) == 0);
    CHECK(live(mesh, MemoryUse::optimizer_state) == (step == 0 ? 0 : 2 * of(shares.state)));
    for (bool last : {false, false, true}) {
      pass(mesh, model, {.last = last}, Level == 3 && ranks > 1 ? unit_bytes(3).back() : 0);
      CHECK(live(mesh, MemoryUse::gradient) == of(last ? shares.finished : shares.resting));
    }
    adamw.step(model);
    detail::parameters_of(model);  // waits for those that are gathered
    CHECK(live(mesh, MemoryUse::gathered) == 0);
  }
}

}  // namespace

TEST_CASE("between steps: this rank's share, to the byte") {
  const Grid mesh(world(), {any, 1});
  const Index d = mesh.size<dp>();
  CHECK(sum(unit_bytes(3)) % d == 0);
  const Index share = d == 1 ? 1 : 0;
  check_shares<0>(mesh, {1, 1, 1, 1});
  check_shares<1>(mesh, {1, 1, share, share});
  check_shares<2>(mesh, {1, share, share, share});
  check_shares<3>(mesh, {share, share, share, share});
  check_shares<2>(mesh, {1, 1, 1, 1}, 0);
  check_shares<2>(mesh, {1, 1, share, share}, 1);
  check_shares<1>(mesh, {1, 1, 1, 1}, 0);
  check_shares<3>(mesh, {share, share, share, share}, 0);
}

TEST_CASE("a lowered level: the numbers and the messages of that level") {
  const Grid mesh(world(), {any, 1});
  const auto compare = [&]<int Level>(std::integral_constant<int, Level>) {
    llm::Llama<Grid, AtLevel<Level>> other(mesh, small_llama(false));
    llm::Llama<Grid, AtLevel<2>> lowered(mesh, small_llama(false));
    lower_zero_level(lowered, Level);
    const auto train = [&](auto& model) {
      initialize(model, 1);
      AdamW adamw;
      Recording recording(mesh);
      for (int micro_batch = 0; micro_batch < 4; ++micro_batch) {
        pass(mesh, model, {.last = micro_batch % 2 == 1});
        if (micro_batch % 2 == 0) continue;
        clip_gradients(model, 0.5);
        adamw.step(model);
      }
      return recording.plan();
    };
    CHECK(train(other) == train(lowered));
    const auto one = detail::parameters_of(other), two = detail::parameters_of(lowered);
    REQUIRE(one.size() == two.size());
    for (std::size_t i = 0; i < one.size(); ++i) {
      CHECK(detail::numbers_of(one[i]->stored) == detail::numbers_of(two[i]->stored));
    }
    const Recording recording(mesh);
    pass(mesh, lowered, {});
    CHECK_THROWS_AS(lower_zero_level(lowered, 0), std::logic_error);
    if constexpr (Level == 0) CHECK_THROWS_AS(lowered.tokens->table.finished_gradient(), std::logic_error);
  };
  compare(std::integral_constant<int, 0>());
  compare(std::integral_constant<int, 1>());
}

TEST_CASE("gathered: two units, their message, and the gradients of one on their way") {
  const Grid mesh(world(), {any, 1});
  if (mesh.size() == 1) return;
  const Index d = mesh.size<dp>();
  for (int background : {0, 1, 2}) {
    Index peak_of_three = 0;
    for (Index layers : {3, 6}) {
      llm::LlamaConfig config = small_llama(false);
      config.layers = layers;
      llm::Llama<Grid, AtLevel<3>> model(mesh, config);
      initialize(model, 1);
      const std::vector<Index> units = unit_bytes(layers);
      const Index largest = *std::max_element(units.begin(), units.end());

      // A call: the unit at work; of the next one its parameters, and the message that they come in.
      Recording call(mesh);
      model(zeros<std::int32_t, Shard<0>, Replicate>(mesh, {12, 8}));
      CHECK(live(mesh, MemoryUse::gathered) == 0);
      CHECK(call.plan().peak_bytes(MemoryUse::gathered) == 3 * largest);

      // A backward pass: also the gradients of the unit at work, and the message that they leave in; and while that goes
      // on in the background, the message of the unit before, and what this rank gets of it.
      call.restart();
      pass(mesh, model, {.in_background = background}, units.back());
      const Index before = background > 0 ? largest + largest / d : 0;
      const Index peak = call.plan().peak_bytes(MemoryUse::gathered);
      CHECK(peak == 5 * largest + before);
      if (layers == 3) peak_of_three = peak;
      CHECK(peak == peak_of_three);  // however many layers there are
    }
  }
}

// ---- Really -------------------------------------------------------------------------------------------------------

namespace {

/// 16.7 million parameters, 67 MB.
struct LargeSteps {
  template <class MeshType>
  void operator()(const MeshType& mesh) const {
    llm::Llama<MeshType, AtLevel<3>> model(
        mesh, {.vocabulary = 4000, .features = 512, .layers = 4, .heads = 8, .kv_heads = 8, .hidden = 1376});
    if (!mesh.dry()) {  // their values do not matter, and to draw them would take longest
      for (detail::ParameterState* cell : detail::parameters_of(model)) {
        std::memset(cell->writable().buffer->data, 0, static_cast<std::size_t>(cell->stored.buffer->bytes));
      }
    }
    AdamW adamw;
    for (int step = 0; step < 2; ++step) {
      Tape tape;
      Tensor<std::int32_t, 2, MeshType, Shard<0>, Replicate> ids(mesh, {4, 8});
      if (!mesh.dry()) std::fill_n(ids.writable().data, ids.view().elements(), std::int32_t{step});
      auto loss = CrossEntropyLoss()(model(tape.constant(ids)), ids);
      backward_and_reduce(loss, model);
      clip_gradients(model, 1.0);
      adamw.step(model);
    }
  }
};

/// Bytes of this process in memory.
Index resident_bytes() {
  std::ifstream file("/proc/self/statm");
  Index total = 0, resident = 0;
  file >> total >> resident;
  return resident * static_cast<Index>(::sysconf(_SC_PAGESIZE));
}

}  // namespace

TEST_CASE("a process takes from the system what its plan says") {
  const Grid mesh(world(), {any, 1});
  const auto plan = trace<Mesh<dp, tp>>({mesh.size<dp>(), 1}, LargeSteps(), {mesh.rank<dp>(), 0});
  memory_pool().trim();
  const Index pool_before = memory_pool().system_bytes(), before = resident_bytes();
  LargeSteps()(mesh);
  const Index pool = memory_pool().system_bytes() - pool_before, resident = resident_bytes() - before;
  const auto mebibytes = [](Index bytes) { return bytes / (Index{1} << 20); };
  MESSAGE("planned ", mebibytes(plan.peak_bytes()), " MiB, of the pool ", mebibytes(pool), " MiB, resident ",
          mebibytes(resident), " MiB");
  CHECK(plan.peak_bytes() > Index{100} << 20);
  const auto planned = static_cast<double>(plan.peak_bytes());
  // The pool has holes between blocks of different sizes; MPI has buffers of its own.
  CHECK(static_cast<double>(pool) > 0.99 * planned);
  CHECK(static_cast<double>(pool) < 1.1 * planned);
  CHECK(static_cast<double>(resident) > 0.9 * planned);
  CHECK(resident < pool + (Index{100} << 20));
  memory_pool().trim();
}

}  // namespace shardwise::testing
