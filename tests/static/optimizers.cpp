// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// Optimizer steps in the compiler: what they keep, gather and compute, on every level of ZeRO; and a whole step of
/// training with all its parts.

#include <shardwise/mesh/trace.hpp>
#include <shardwise/train/adamw.hpp>
#include <shardwise/train/check_finite.hpp>
#include <shardwise/train/clip.hpp>
#include <shardwise/train/rate_schedule.hpp>
#include <shardwise/train/reduce_gradients.hpp>
#include <shardwise/train/sgd.hpp>

namespace shardwise {
namespace {

using Grid = Mesh<dp, tp>;

// What is cut on two axes nests: an axis has at most the level of those to its left.
static_assert(Sharding{0, {3, 1}}.nests() && Sharding{0, {2, 2, 0}}.nests() && Sharding{0, {0, 3}}.nests());
static_assert(!Sharding{0, {1, 2}}.nests() && !Sharding{0, {1, 0, 3}}.nests());
static_assert(packed(Sharding{}) == 0 && unpacked(packed(Sharding{3, {0, 3, 1}})).levels[1] == 3 &&
              unpacked(packed(Sharding{3, {0, 3, 1}})).dim == 3);

/// A weight that is used as `Reduced`, `Shard<0>`, by level: what is stored, what rests, what is finished.
constexpr Layout used{reduced, shard(0)};
static_assert(stored_layout(used, {1, {2}}) == used &&
              stored_layout(used, {1, {3}}) == Layout{shard(1), shard(0)});
static_assert(resting_layout(used, {1, {1}}) == Layout{partial_sum, shard(0)} &&
              resting_layout(used, {1, {2}}) == Layout{shard(1), shard(0)});
static_assert(finished_layout(used, {1, {0}}) == Layout{replicate, shard(0)} &&
              finished_layout(used, {1, {1}}) == Layout{shard(1), shard(0)});

/// Two matrices [10, 8], [8] of them on this rank's side of tp 2; and a vector of 6.
template <int Level, class T>
struct Model {
  template <int Rank, class OnTp, int Dim>
  using Weight = Parameter<Tensor<T, Rank, Grid, Reduced, OnTp>, packed(Sharding{Dim, {Level, 0}})>;
  Weight<2, Shard<0>, 1> first, second;
  Weight<1, Replicate, 0> bias;

  constexpr explicit Model(const Grid& mesh)
      : first(mesh, {10, 8}, Init::constant(1)),
        second(mesh, {10, 8}, Init::constant(1)),
        bias(mesh, {6}, Init::constant(1)) {}
  constexpr void visit(auto&& f) {
    f("first", first);
    f("second", second);
    f("bias", bias);
  }
};

template <class Module>
constexpr void give_gradients(Module& module) {
  for_each_parameter(module, [](auto& parameter) {
    using X = typename std::remove_cvref_t<decltype(parameter)>::TensorOf;
    parameter.slot()->add(cotangent_of<X>(parameter.mesh(), parameter.shape()));
  });
}

constexpr RateSchedule schedule({.decay = Decay::cosine, .peak = 1, .warmup = 2, .steps = 9});

template <int Level, class T = float, class Optimizer = AdamW, class Update = AdamWUpdate>
constexpr auto plan(const Update& settings = {}, int steps = 2, const ReduceOptions& reduction = {}) {
  return trace<Grid>({2, 2}, [&](const Grid& mesh) {
    Model<Level, T> model(mesh);
    Optimizer optimizer(settings, reduction);
    for (int step = 0; step < steps; ++step) {
      give_gradients(model);
      const double norm = clip_gradients(model, 1);
      check_finite(model, step, 0, norm);
      optimizer.set_rate(schedule(optimizer.steps()));
      optimizer.step(model);
    }
    give_gradients(model);
    reduce_gradients(model);
    clear_gradients(model);
    clip_gradients(model, 1);
    for_each_parameter(model, [](auto& parameter) {
      if (parameter.gradient() || parameter.finished_gradient()) throw std::logic_error("a gradient is left");
    });
  });
}

// On this rank: half of each matrix and the vector; and of these half again where they are sharded.
constexpr Index all = 2 * 5 * 8 + 6, half = 2 * 5 * 4 + 3;
constexpr auto state_of = [](const auto& planned) { return planned.peak_bytes(MemoryUse::optimizer_state); };

// AdamW has two moments; and a master copy of what is stored in bfloat16.
static_assert(state_of(plan<0>()) == 2 * 4 * all && state_of(plan<1>()) == 2 * 4 * half);
static_assert(state_of(plan<2>()) == 2 * 4 * half && state_of(plan<3>()) == 2 * 4 * half);
static_assert(state_of(plan<0, Eigen::bfloat16>()) == 3 * 4 * all);
static_assert(state_of(plan<3, Eigen::bfloat16>()) == 3 * 4 * half);
static_assert(state_of(plan<3, Eigen::bfloat16>(AdamWUpdate{.master_weights = false})) == 2 * 4 * half);
// SGD has a velocity if it has momentum.
static_assert(state_of(plan<1, float, SGD>(SgdUpdate{})) == 0);
static_assert(state_of(plan<1, Eigen::bfloat16, SGD>(SgdUpdate{})) == 4 * half);
static_assert(state_of(plan<1, double, SGD>(SgdUpdate{.momentum = 0.9})) == 8 * half);

// Parameters are gathered, all in one bucket, where they are whole though their state is not.
constexpr auto gathers = [](const auto& planned) { return planned.count(Collective::all_gather); };
static_assert(gathers(plan<0>()) == 0 && gathers(plan<1>()) == 2 && gathers(plan<2>()) == 2);
static_assert(gathers(plan<3>()) == 0);  // but by units
static_assert(gathers(plan<1>({}, 2, {.bucket_bytes = 0})) == 2 * 3);
static_assert(gathers(plan<1>({}, 1, {.bucket_bytes = 4 * 5 * 8})) == 3);

// What an update computes: 14 operations an element for AdamW.
constexpr auto more_flops = [](const auto& settings) {
  using Update = std::remove_cvref_t<decltype(settings)>;
  using Optimizer = std::conditional_t<std::is_same_v<Update, SgdUpdate>, SGD, AdamW>;
  return plan<3, float, Optimizer>(settings, 2).flops() - plan<3, float, SGD>(SgdUpdate{}, 2).flops();
};
static_assert(more_flops(AdamWUpdate{}) == 2 * (14 - 2) * half);
static_assert(more_flops(SgdUpdate{.momentum = 0.9}) == 2 * 2 * half);
static_assert(more_flops(SgdUpdate{.momentum = 0.9, .weight_decay = 0.1, .nesterov = true}) == 2 * 6 * half);

}  // namespace
}  // namespace shardwise
