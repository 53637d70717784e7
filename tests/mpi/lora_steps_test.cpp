// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// Adapters: what a step communicates and keeps; a layer by itself.

#include <support/plans.hpp>

#include "lora_reference.hpp"
#include "outcome.hpp"

namespace shardwise::testing {
namespace {

// ---- What it costs ------------------------------------------------------------------------------------------------

using Grid = Mesh<dp, tp>;
using OnGrid = llm::LlamaAdapted<llm::LlamaTensorParallel<>, 3, 6>;

// A second adapter is not overlooked where the first is within a style of its own.
using Sharded = Styles<Lora<ColwiseParallel<tp>, 8>, Zero<1, dp>>;
static_assert(WellFormed<detail::style_problem<Grid, ModuleKind::linear, Sharded>>);
static_assert(IllFormed<detail::style_problem<Grid, ModuleKind::linear, Lora<Sharded, 4>>>);

template <class PlanType>
struct Step {
  template <class MeshType>
  constexpr void operator()(const MeshType& mesh) const {
    llm::Llama<MeshType, PlanType, double> model(
        mesh, {.vocabulary = 24, .features = 16, .layers = 3, .heads = 4, .kv_heads = 4, .hidden = 12});
    initialize(model, 5);
    Tensor<std::int32_t, 2, MeshType, Shard<0>, Replicate> ids(mesh, {4, 6});
    if (!mesh.dry()) std::fill_n(ids.writable().data, ids.view().elements(), 1);
    AdamW adamw;
    Tape tape;
    backward_and_reduce(CrossEntropyLoss()(model(tape.constant(ids)), ids), model);
    adamw.step(model);
  }
};

template <class PlanType>
std::int64_t traffic(const PlanType& plan, Collective kind, AxisSet axes, std::initializer_list<Phase> phases,
                     bool calls = false) {
  std::int64_t sum = 0;
  for (const Phase phase : phases) {
    const Traffic& cell = plan.record().traffic[static_cast<int>(phase)][static_cast<int>(kind)][axes];
    sum += calls ? cell.calls : cell.bytes;
  }
  return sum;
}

TEST_CASE("adapters share the collectives of their layers; what is reduced and kept is theirs alone") {
  using Phase::forward, Phase::backward, Phase::optimizer;
  constexpr AxisSet on_dp = 1, on_tp = 2;
  for (const Grid& mesh : data_by_tensor_meshes()) {
    const std::int64_t data = mesh.size<dp>(), tensor = mesh.size<tp>();
    INFO("dp ", data, " tp ", tensor);
    const auto plan = agreed_plan(mesh, Step<PlanWith<OnGrid, Zero<1, dp>>>());
    const auto whole = dry_plan(mesh, Step<PlanWith<llm::LlamaTensorParallel<>, Zero<1, dp>>>());

    // In the layers: the same, but that nobody wants the gradient of what the first layer takes.
    for (const bool calls : {true, false}) {
      CHECK(traffic(plan, Collective::all_reduce, on_tp, {forward}, calls) ==
            traffic(whole, Collective::all_reduce, on_tp, {forward}, calls));
    }
    if (tensor > 1) {
      CHECK(plan.template count<tp>(Collective::all_reduce, backward) ==
            whole.template count<tp>(Collective::all_reduce, backward) - 1);
    }
    // The adapters, counted by hand: of 3 layers, 7 with A [3, in] and B [out, 3], of which one is cut along tp.
    llm::Llama<Grid, PlanWith<OnGrid, Zero<1, dp>>, double> model(
        mesh, {.vocabulary = 24, .features = 16, .layers = 3, .heads = 4, .kv_heads = 4, .hidden = 12});
    CHECK(trained_parameter_count(model) == 3 * 3 * (4 * (16 + 16) + 3 * (16 + 12)));
    std::int64_t trained = 0, whole_on_tp = 0, state = 0;
    for (const auto& each : llm::detail::adapters_of(model).parameters) {
      const auto& stored = each.cell->stored;
      const std::int64_t bytes = stored.local_elements() * 8;
      const std::int64_t own = stored.with_layout(each.cell->layouts.finished).local_elements() * 8;
      trained += bytes;
      state += 2 * own;
      if (tensor > 1 && !stored.layout[1].is_shard()) whole_on_tp += own;
    }
    CHECK(plan.peak_bytes(MemoryUse::parameter) == trained);
    CHECK(plan.peak_bytes(MemoryUse::optimizer_state) == state);
    CHECK(plan.peak_bytes(MemoryUse::gradient) <= 2 * trained);
    CHECK(traffic(plan, Collective::reduce_scatter, on_dp, {forward, backward, optimizer}) ==
          (data > 1 ? trained : 0));
    CHECK(traffic(plan, Collective::all_gather, on_dp, {forward, backward, optimizer}) ==
          (data > 1 ? trained : 0));
    CHECK(traffic(plan, Collective::all_reduce, on_tp, {optimizer}) == whole_on_tp);
  }
}

// ---- Layers -------------------------------------------------------------------------------------------------------

TEST_CASE("a layer with a bias: what is pending is reduced once, and the merged layer gives the same") {
  using Line = Mesh<tp>;
  const Line mesh(world(), {any});
  const auto check = [&](auto style, int all_reduces) {
    Linear<Line, Lora<decltype(style), 2, 5>, double> layer(mesh, 9, 7);
    Linear<Line, decltype(style), double> merged(mesh, 9, 7);
    initialize(layer, 1);
    layer.adapter.up.assign(redistribute_to<typename decltype(layer.adapter.up)::Stored>(
        randn<double, Replicate>(mesh, {7, 2}, 3)));
    merged.weight.assign(layer.adapter.merged_with(layer.weight));
    merged.bias.assign(layer.bias.stored());
    const auto x = randn<double, Replicate>(mesh, {3, 4, 9}, 2);
    mpi_counter::reset();
    const auto y = layer(x);
    if (mpi_counter::counting() && world().size() > 1)
      CHECK(mpi_counter::counts().all_reduce.calls == all_reduces);
    const auto right = whole(merged(x));
    CHECK(error(whole(y), right) < 1e-15 * 20);
    initialize(merged, 1);
    CHECK(error(whole(merged(x)), right) > 1e-2);
  };
  check(ColwiseParallel<tp>(), 0);
  check(RowwiseParallel<tp>(), 1);
  check(CopyParallel<tp>(), 0);
  check(NoParallel(), 0);
}

}  // namespace
}  // namespace shardwise::testing
