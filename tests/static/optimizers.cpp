// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// Optimizer steps in the compiler: what they keep, gather and compute, on every level of ZeRO; and a whole step of
/// training with all its parts.

#include <shardwise/mesh/trace.hpp>
#include <shardwise/train/adamw.hpp>
#include <shardwise/train/check_finite.hpp>
#include <shardwise/train/clip.hpp>
#include <shardwise/train/muon.hpp>
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
constexpr Sharding on_six_axes = unpacked(packed(Sharding{1, {3, 0, 0, 0, 1, 2}, true}));
static_assert(on_six_axes.levels[4] == 1 && on_six_axes.levels[5] == 2 && on_six_axes.frozen);

/// A weight that is used as `Reduced`, `Shard<0>`, by level: what is stored, what rests, what is finished.
constexpr Layout used{reduced, shard(0)};
static_assert(stored_layout(used, {1, {2}}) == used &&
              stored_layout(used, {1, {3}}) == Layout{shard(1), shard(0)});
static_assert(accumulated_layout(used, {1, {1}}) == Layout{partial_sum, shard(0)} &&
              accumulated_layout(used, {1, {2}}) == Layout{shard(1), shard(0)});
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
// In bfloat16, blocks of state have half the bytes; master copies do not.
static_assert(state_of(plan<0>(AdamWUpdate{.state = StateType::bf16})) == 2 * 2 * all);
static_assert(state_of(plan<3>(AdamWUpdate{.state = StateType::bf16})) == 2 * 2 * half);
static_assert(state_of(plan<1, Eigen::bfloat16>(AdamWUpdate{.state = StateType::bf16})) ==
              (4 + 2 * 2) * half);
static_assert(state_of(plan<1, float, SGD>(SgdUpdate{.momentum = 0.9, .state = StateType::bf16})) ==
              2 * half);
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

// Muon: a step of `count` matrices [m, n], in blocks of the layout `OnTp` on four ranks.
template <class OnTp>
struct Matrices {
  std::vector<Parameter<Tensor<float, 2, Mesh<tp>, OnTp>>> weights;
  constexpr void visit(auto&& f) { f("weights", weights); }
};
template <class OnTp>
constexpr auto muon_plan(Index count, Index m, Index n, const MuonUpdate& settings = {}) {
  return trace<Mesh<tp>>({4}, [&](const auto& mesh) {
    Matrices<OnTp> model;
    for (Index i = 0; i < count; ++i) model.weights.emplace_back(mesh, Shape<2>{m, n}, Init::constant(1));
    give_gradients(model);
    Muon(settings).step(model);
  });
}
constexpr Index words(const auto& planned) { return planned.received_bytes(Phase::optimizer) / 4; }
/// Without the update itself, of 4 operations an element, of which a rank has a quarter.
constexpr Index products(const auto& planned, Index elements) {
  return planned.flops(Phase::optimizer) - elements;
}
constexpr MuonUpdate by_gram{.by_gram = true};

// Each matrix goes to its owner and back, once: of its share of a matrix, m n / 4, a rank receives 3/4, twice. No rank
// repeats work: one has a quarter of all.
constexpr auto owned_step = muon_plan<Shard<1>>(8, 512, 2048);
static_assert(owned_step.count(Collective::all_to_all) == 2 && owned_step.collectives() == 2);
static_assert(words(owned_step) == 8 * 2 * (512 * 2048 / 4) * 3 / 4);
static_assert(products(owned_step, 8 * 512 * 2048) == 8 * kernel::orthogonalize_flops(512, 2048, 5) / 4);
static_assert(same_communication(owned_step, muon_plan<Shard<0>>(8, 512, 2048)));
// Gradients that all ranks have are only gathered.
constexpr auto gathered_step = muon_plan<Replicate>(8, 512, 2048);
static_assert(gathered_step.count(Collective::all_gather) == 1 && gathered_step.collectives() == 1);
static_assert(words(gathered_step) == 8 * 512 * 2048 * 3 / 4);
static_assert(products(gathered_step, 4 * 8 * 512 * 2048) == products(owned_step, 8 * 512 * 2048));

// By Gram matrices an owner computes less: 2/3 if n = 4 m. It does not use them if n < 1.5 m.
constexpr auto gram_step = muon_plan<Shard<1>>(8, 512, 2048, by_gram);
static_assert(same_communication(gram_step, owned_step));
static_assert(products(gram_step, 8 * 512 * 2048) * 3 == products(owned_step, 8 * 512 * 2048) * 2);
static_assert(muon_plan<Shard<1>>(4, 64, 80, by_gram) == muon_plan<Shard<1>>(4, 64, 80));

// Matrices that are longer than 8 m, for four ranks, stay cut: a rank receives 3/4 of two sums and of two factors,
// [m, m]. It computes a quarter here too.
constexpr auto cut_step = muon_plan<Shard<1>>(4, 64, 640, by_gram);
static_assert(cut_step.count(Collective::reduce_scatter) == 2 &&
              cut_step.count(Collective::all_gather) == 2 && cut_step.collectives() == 4);
static_assert(words(cut_step) == 4 * (4 * 64 * 64) * 3 / 4 &&
              words(cut_step) < words(muon_plan<Shard<1>>(4, 64, 640)));
static_assert(products(cut_step, 4 * 64 * 640) == kernel::orthogonalize_flops(64, 640, 5, true));
static_assert(same_communication(cut_step, muon_plan<Shard<0>>(4, 640, 64, by_gram)));
// Owners, if that is not less; or if the shorter side is cut.
static_assert(same_communication(muon_plan<Shard<1>>(4, 64, 512, by_gram), muon_plan<Shard<1>>(4, 64, 512)));
static_assert(same_communication(muon_plan<Shard<0>>(4, 64, 640, by_gram), muon_plan<Shard<0>>(4, 64, 640)));
// A single matrix of n = 4 m: without it, the owner alone computes, and receives 5/4 m n · 3/4.
constexpr auto cut_single = muon_plan<Shard<1>>(1, 64, 256, by_gram),
               owned_single = muon_plan<Shard<1>>(1, 64, 256);
static_assert(words(cut_single) == 4 * 64 * 64 * 3 / 4 &&
              words(owned_single) == (64 * 256 + 64 * 256 / 4) * 3 / 4);
static_assert(products(cut_single, 64 * 256) * 5 == products(owned_single, 64 * 256) * 2);

}  // namespace
}  // namespace shardwise
