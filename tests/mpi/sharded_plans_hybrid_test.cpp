// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// Sharding over one of two data axes, and beside sequence parallelism: what a step communicates on which axes, as
/// planned, as recorded and as MPI saw it.

#include <support/plans.hpp>
#include <support/sharded_step.hpp>

#include <vector>

namespace shardwise::testing {
namespace {

using namespace shardwise::llm;

constexpr auto forward = Phase::forward, backward = Phase::backward, optimizer = Phase::optimizer;
constexpr auto all_reduce = Collective::all_reduce, all_gather = Collective::all_gather,
               reduce_scatter = Collective::reduce_scatter;

template <MeshAxis... Axes>
Index calls(const CommunicationPlan<Axes...>& plan, Phase phase, Collective kind, AxisSet axes) {
  return traffic_on(plan, phase, kind, axes).calls;
}

// ---- Hybrid -------------------------------------------------------------------------------------------------------

using Hybrid = Mesh<replica, dp, tp>;
constexpr AxisSet on_replica = 1, on_dp = 2;

std::vector<Hybrid> hybrid_meshes() {
  const int ranks = world().size();
  std::vector<Hybrid> meshes;
  for (int replicas = 1; replicas <= ranks; ++replicas) {
    for (int data = 1; data <= ranks / replicas; ++data) {
      const int tensor = ranks / replicas / data;
      if (replicas * data * tensor == ranks)
        meshes.emplace_back(world(), Hybrid::SizesOf{replicas, data, tensor});
    }
  }
  return meshes;
}

template <int Level>
auto hybrid_plan(const Hybrid& mesh, const StepOptions& options) {
  return agreed_plan(mesh,
                     ShardedStep<PlanWith<LlamaTensorParallel<>, Zero<Level, dp>>, replica, dp, tp>{options});
}

}  // namespace

TEST_CASE("hybrid: gathered and scattered within a group, summed over the replicas once a step") {
  for (const Hybrid& mesh : hybrid_meshes()) {
    INFO("replica ", mesh.size<replica>(), " dp ", mesh.size<dp>(), " tp ", mesh.size<tp>());
    for (int micro : {1, 3}) {
      const bool replicas = mesh.size<replica>() > 1, data = mesh.size<dp>() > 1,
                 tensor = mesh.size<tp>() > 1;
      const auto plan = hybrid_plan<3>(mesh, {.micro_batches = micro});
      const Index units = data ? small_units * micro : 0;
      CHECK(calls(plan, forward, all_gather, on_dp) == units);
      const Index again =
          data ? (small_units - 2) * micro : 0;  // not the table, nor what the last unit keeps
      CHECK(calls(plan, backward, all_gather, on_dp) == again);
      CHECK(calls(plan, backward, reduce_scatter, on_dp) == units);
      CHECK(plan.count<dp>(all_gather) == units + again);
      CHECK(plan.count<dp>(reduce_scatter) == units);
      CHECK(plan.count<replica>(all_gather) + plan.count<replica>(reduce_scatter) == 0);
      const Index norm = replicas && !data && !tensor ? 1 : 0;
      CHECK(calls(plan, optimizer, all_reduce, on_replica) == (replicas ? 1 : 0) + norm);
      if (replicas && norm == 0) {  // the bucket is the shards
        CHECK(traffic_on(plan, optimizer, all_reduce, on_replica).bytes == plan.parameter_bytes());
      }
    }
  }
}

TEST_CASE("hybrid: shards go over the replicas in buckets") {
  for (const Hybrid& mesh : hybrid_meshes()) {
    if (mesh.size<replica>() == 1) continue;
    const Index norm = mesh.size<replica>() == mesh.size() ? 1 : 0;
    for (int background : {0, 2}) {
      const StepOptions alone{.micro_batches = 2,
                              .reduction = {.bucket_bytes = 0, .in_background = background}};
      const StepOptions some{.micro_batches = 2,
                             .reduction = {.bucket_bytes = 4000, .in_background = background}};
      CHECK(calls(hybrid_plan<3>(mesh, alone), optimizer, all_reduce, on_replica) == 30 + norm);
      const Index buckets = calls(hybrid_plan<3>(mesh, some), optimizer, all_reduce, on_replica) - norm;
      CHECK(buckets > 1);
      CHECK(buckets < 30);
    }
  }
}

TEST_CASE("hybrid: state and gradients sharded within a group") {
  for (const Hybrid& mesh : hybrid_meshes()) {
    INFO("replica ", mesh.size<replica>(), " dp ", mesh.size<dp>(), " tp ", mesh.size<tp>());
    const Index replicas = mesh.size<replica>() > 1, data = mesh.size<dp>() > 1;
    const Index norm = mesh.size<replica>() == mesh.size() ? replicas : 0;
    const auto state = hybrid_plan<1>(mesh, {.micro_batches = 3});
    CHECK(calls(state, optimizer, reduce_scatter, on_dp) == data);
    CHECK(calls(state, optimizer, all_gather, on_dp) == data);
    CHECK(calls(state, optimizer, all_reduce, on_replica) == replicas + norm);
    const auto gradients = hybrid_plan<2>(mesh, {.micro_batches = 3});
    CHECK(calls(gradients, backward, reduce_scatter, on_dp) == 3 * data);
    CHECK(calls(gradients, optimizer, all_gather, on_dp) == data);
    CHECK(calls(gradients, optimizer, all_reduce, on_replica) == replicas + norm);
  }
}

// ---- Sequence parallelism -----------------------------------------------------------------------------------------

namespace {

template <int Level>
auto sequence_plan(const Mesh<dp, tp>& mesh, const StepOptions& options) {
  return agreed_plan(mesh, ShardedStep<PlanWith<LlamaSequenceParallel<>, Zero<Level, dp>>, dp, tp>{options});
}

}  // namespace

TEST_CASE("under sequence parallelism the norms' gradients are pending on both axes") {
  constexpr AxisSet data_axis = 1, tensor_axis = 2, both = 3;
  for (const auto& mesh : data_by_tensor_meshes()) {
    INFO("dp ", mesh.size<dp>(), " tp ", mesh.size<tp>());
    const Index data = mesh.size<dp>() > 1, tensor = mesh.size<tp>() > 1;
    const auto norm_on = [&](AxisSet axes) { return Index{axes == (data ? 1u : 0u) + (tensor ? 2u : 0u)}; };

    const auto whole = sequence_plan<0>(mesh, {.micro_batches = 2});
    CHECK(calls(whole, optimizer, all_reduce, both) ==
          2 * data * tensor);  // norms' gradients, and the norm of all
    CHECK(calls(whole, optimizer, all_reduce, data_axis) == data + norm_on(data_axis));
    CHECK(calls(whole, optimizer, all_reduce, tensor_axis) == (data ? 0 : tensor) + norm_on(tensor_axis));

    // Sharded: along dp with all the others, by a reduce-scatter, then what is left along tp.
    const auto fully = sequence_plan<3>(mesh, {.micro_batches = 2});
    CHECK(calls(fully, backward, reduce_scatter, data_axis) == data * 2 * small_units);
    CHECK(calls(fully, optimizer, all_reduce, both) == data * tensor);
    CHECK(calls(fully, optimizer, all_reduce, tensor_axis) == tensor + norm_on(tensor_axis));
    CHECK(calls(fully, optimizer, all_reduce, data_axis) == norm_on(data_axis));
  }
}

}  // namespace shardwise::testing
