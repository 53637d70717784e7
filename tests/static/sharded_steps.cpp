// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// Training steps with sharded parameters, gradients and state, counted by the compiler: collectives along dp, and
/// memory.

#include <shardwise/mesh/trace.hpp>
#include <shardwise/ops/reshape.hpp>
#include <support/sharded_step.hpp>

namespace shardwise::testing {
namespace {

using namespace shardwise::llm;

using Grid = Mesh<dp, tp>;
using TensorPlan = LlamaTensorParallel<>;
template <int Level>
using AtLevel = PlanWith<TensorPlan, Zero<Level, dp>>;
constexpr AxisSet on_dp = 1, on_tp = 2;
constexpr auto forward = Phase::forward, backward = Phase::backward, optimizer = Phase::optimizer;
constexpr auto all_reduce = Collective::all_reduce, all_gather = Collective::all_gather,
               reduce_scatter = Collective::reduce_scatter;

template <int Level>
constexpr auto step(int data, int tensor, int micro_batches) {
  return trace<Grid>({data, tensor}, ShardedStep<AtLevel<Level>, dp, tp>{{.micro_batches = micro_batches}});
}
/// Calls on dp alone; of the optimizer's all-reduces, those of gradients.
constexpr auto calls = [](const auto& plan, Phase phase, Collective kind) {
  return traffic_on(plan, phase, kind, on_dp).calls;
};

// Data parallel: one bucket, one all-reduce a step. Each micro-batch has one of the loss.
constexpr auto whole = step<0>(4, 2, 3);
static_assert(calls(whole, optimizer, all_reduce) == 1 && calls(whole, forward, all_reduce) == 3);
static_assert(whole.count<dp>(all_gather) == 0 && whole.count<dp>(reduce_scatter) == 0);

// State sharded: a reduce-scatter and an all-gather instead.
constexpr auto state = step<1>(4, 2, 3);
static_assert(calls(state, optimizer, reduce_scatter) == 1 && calls(state, optimizer, all_gather) == 1);
static_assert(state.count<dp>(reduce_scatter) == 1 && state.count<dp>(all_gather) == 1);
static_assert(calls(state, optimizer, all_reduce) == 0);

// Gradients sharded: the reduce-scatter in every micro-batch.
constexpr auto gradients = step<2>(4, 2, 3);
static_assert(calls(gradients, backward, reduce_scatter) == 3 && gradients.count<dp>(reduce_scatter) == 3);
static_assert(calls(gradients, optimizer, all_gather) == 1 && gradients.count<dp>(all_gather) == 1);

// Parameters sharded: for each unit and micro-batch two gathers and one scatter. But the last unit keeps what it has
// gathered for its part of the backward pass, and the pullback of the first, an embedding, reads none.
constexpr auto fully = step<3>(4, 2, 3);
static_assert(calls(fully, forward, all_gather) == 3 * small_units);
static_assert(calls(fully, backward, all_gather) == 3 * (small_units - 2));
static_assert(calls(fully, backward, reduce_scatter) == 3 * small_units);
static_assert(fully.count<dp>(all_gather) == 3 * (2 * small_units - 2) &&
              fully.count<dp>(reduce_scatter) == 3 * small_units);

// Along tp nothing changes.
static_assert(traffic_on(fully, forward, all_reduce, on_tp) == traffic_on(whole, forward, all_reduce, on_tp));
static_assert(traffic_on(fully, backward, all_reduce, on_tp) ==
              traffic_on(whole, backward, all_reduce, on_tp));

// Bytes: whole parameters go through each collective, as often as it is called for all of them.
constexpr auto bytes = [](const auto& plan, Phase phase, Collective kind) {
  return traffic_on(plan, phase, kind, on_dp).bytes;
};
constexpr std::int64_t all_parameters = whole.parameter_bytes();
constexpr LlamaConfig config = small_llama(false);
constexpr std::int64_t tables =  // and a norm: the first and the last unit, on 2 tensor-parallel ranks
    (2 * config.vocabulary / 2 + 1) * config.features * std::int64_t{sizeof(float)};
static_assert(bytes(whole, optimizer, all_reduce) == all_parameters);
static_assert(bytes(state, optimizer, reduce_scatter) == all_parameters);
static_assert(bytes(state, optimizer, all_gather) == all_parameters);
static_assert(bytes(gradients, backward, reduce_scatter) == 3 * all_parameters);
static_assert(bytes(fully, forward, all_gather) == 3 * all_parameters);
static_assert(bytes(fully, backward, all_gather) == 3 * (all_parameters - tables));
static_assert(bytes(fully, backward, reduce_scatter) == 3 * all_parameters);

// Memory of a rank: what is sharded is a quarter.
constexpr auto memory = [](const auto& plan, MemoryUse use) { return plan.peak_bytes(use); };
static_assert(memory(state, MemoryUse::parameter) == all_parameters);
static_assert(memory(whole, MemoryUse::optimizer_state) == 2 * all_parameters);
static_assert(memory(state, MemoryUse::optimizer_state) == 2 * all_parameters / 4);
static_assert(memory(fully, MemoryUse::parameter) == all_parameters / 4);
static_assert(memory(fully, MemoryUse::optimizer_state) == 2 * all_parameters / 4);

// Hybrid: sharded among 2, with 3 replicas: once a step the shards are summed over the replicas.
using Hybrid = Mesh<replica, dp, tp>;
constexpr auto hybrid =
    trace<Hybrid>({3, 2, 2}, ShardedStep<AtLevel<3>, replica, dp, tp>{{.micro_batches = 2}});
static_assert(hybrid.count<replica>(all_gather) == 0 && hybrid.count<replica>(reduce_scatter) == 0);
static_assert(traffic_on(hybrid, optimizer, all_reduce, 1u).calls == 1);
static_assert(traffic_on(hybrid, optimizer, all_reduce, 1u).bytes == all_parameters / 2);
// So few tokens are looked up where the table's shards are: their ids are gathered, and no gradient of it is reduced.
static_assert(traffic_on(hybrid, forward, all_gather, 2u).calls == 2 * small_units);
static_assert(traffic_on(hybrid, backward, all_gather, 2u).calls == 2 * (small_units - 2));
static_assert(traffic_on(hybrid, backward, reduce_scatter, 2u).calls == 2 * (small_units - 1));

// A gathered parameter is an operand like any other: what is made of it outlives the call. (clang's constant evaluation finds
// what is used after its end.)
constexpr auto reshaped_weight = trace<Grid>({4, 1}, [](const Grid& mesh) {
  using Matrix = Tensor<float, 2, Grid, Reduced, Replicate>;
  Parameter<Matrix, packed(Sharding{0, {3, 0}})> weight(mesh, {4, 6}, Init::constant(1));
  weight.cell()->users = 1;  // as in a unit, which gathers it
  if (reshape(weight.value(), {24}).shape()[0] != 24) throw std::logic_error("as many elements");
});
static_assert(reshaped_weight.count<dp>(all_gather) == 1);

// Of layers with a bias too: that of the first reads its input alone, as nobody wants the gradient of what comes in.
struct ThreeUnits : Module<ThreeUnits> {
  Linear<Grid, FullyShard<dp>> a, b, c;
  Unit of_a, of_b, of_c;
  constexpr explicit ThreeUnits(const Grid& mesh)
      : a(mesh, 12, 24), b(mesh, 24, 24), c(mesh, 24, 8), of_a(a), of_b(b), of_c(c) {
    of_a.link(of_b), of_b.link(of_c);
  }
  constexpr auto forward(const auto& x) const {
    auto h = of_a(x, [&](const auto& in) { return a(in); });
    h = of_b(h, [&](const auto& in) { return b(in); });
    return of_c(h, [&](const auto& in) { return c(in); });
  }
  constexpr void visit(auto&& f) { f("a", a), f("b", b), f("c", c); }
};
template <bool WantsInput>
constexpr auto three_units = trace<Grid>({2, 1}, [](const Grid& mesh) {
  ThreeUnits model(mesh);
  Tape tape;
  const auto x = empty<float, Shard<0>, Replicate>(mesh, {4, 12});
  auto y = [&] {
    if constexpr (WantsInput) {
      return model(tape.input(x));
    } else {
      return model(tape.constant(x));
    }
  }();
  backward_and_reduce(redistribute<Replicate, Replicate>(mean(y)), model);
});
static_assert(three_units<false>.count(all_gather, forward) == 3 &&
              three_units<false>.count(all_gather, backward) == 1);
static_assert(three_units<true>.count(all_gather, forward) == 3 &&
              three_units<true>.count(all_gather, backward) == 2);

}  // namespace
}  // namespace shardwise::testing
