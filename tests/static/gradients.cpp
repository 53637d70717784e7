// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// How many all-reduces finish the gradients of a module, and how large they are, counted by the compiler.

#include <shardwise/mesh/trace.hpp>
#include <shardwise/train/adamw.hpp>
#include <shardwise/train/clip.hpp>
#include <shardwise/train/rate_schedule.hpp>

#include <type_traits>
#include <vector>

namespace shardwise {
namespace {

using Grid = Mesh<dp, tp>;

template <class T, class OnDp, class OnTp>
using Vector = Parameter<Tensor<T, 1, Grid, OnDp, OnTp>>;

static_assert(std::is_same_v<finished_gradient_of<Tensor<float, 2, Grid, Reduced, Shard<1>>>,
                             Tensor<float, 2, Grid, Replicate, Shard<1>>>);
static_assert(std::is_same_v<finished_gradient_of<Tensor<float, 2, Grid, Replicate, Reduced>>,
                             Tensor<float, 2, Grid, Replicate, Replicate>>);

// A term of a sum is nothing that could be taken for the sum.
using Used = Tensor<float, 2, Grid, Reduced, Shard<1>>;
static_assert(!std::is_convertible_v<cotangent_of<Used>, finished_gradient_of<Used>>);

/// As in a sequence-parallel model: norm weights that are used with blocks of the sequence and of the batch, and
/// matrices that lie in blocks.
template <class T = float>
struct Model {
  std::vector<Vector<T, Reduced, Reduced>> norms;
  std::vector<Vector<T, Reduced, Shard<0>>> matrices;

  constexpr Model(const Grid& mesh, int layers) {
    for (int layer = 0; layer < layers; ++layer) {
      norms.emplace_back(mesh, Shape<1>{10}, Init::constant(1));
      matrices.emplace_back(mesh, Shape<1>{101}, Init::constant(1));
    }
  }
  constexpr void visit(auto&& f) {
    f("norms", norms);
    f("matrices", matrices);
  }
};

template <class Module>
constexpr void give_gradients(Module& module) {
  for_each_parameter(module, [](auto& parameter) {
    using X = typename std::remove_cvref_t<decltype(parameter)>::TensorOf;
    parameter.slot()->add(cotangent_of<X>(parameter.mesh(), parameter.shape()));
  });
}

template <class T = float>
constexpr auto plan(const Grid::SizesOf& sizes, Index bucket_bytes, int layers = 24) {
  auto step = [&](const Grid& mesh) {
    Model<T> model(mesh, layers);
    give_gradients(model);
    AdamW({}, {.bucket_bytes = bucket_bytes}).step(model);
  };
  return trace<Grid>(sizes, step);
}
constexpr Index mebibyte = 1 << 20;

// The tensor axis has the norms alone: one all-reduce of all of them.
constexpr auto tensor = plan({1, 4}, mebibyte);
static_assert(tensor.collectives<tp>() == 1 &&
              tensor.count<tp>(Collective::all_reduce, Phase::optimizer) == 1 &&
              tensor.count<dp>(Collective::all_reduce, Phase::optimizer) == 0 && tensor.bytes<dp>() == 0);
static_assert(tensor.bytes() == 24 * 10 * 4 && tensor.bytes(Phase::optimizer) == tensor.bytes());

// With both axes, the norms' all-reduce is over both, the matrices' over the data axis; 101 rows over 4 ranks are 26.
constexpr auto both = plan({2, 4}, mebibyte);
static_assert(both.collectives() == 2 && both.count<tp>(Collective::all_reduce) == 1);
static_assert(both.bytes<tp>() == 24 * 10 * 4 && both.bytes() == 24 * (10 + 26) * 4);

// The data axis alone: all in one. An axis of one rank never communicates.
static_assert(plan({2, 1}, mebibyte).collectives() == 1 && plan({1, 1}, mebibyte).collectives() == 0);

// A bucket takes what fits: eight norms of 40 bytes in 320 make three of 24.
static_assert(plan({1, 4}, 320).collectives() == 3 && plan({1, 4}, 320).bytes() == 24 * 10 * 4);
static_assert(plan({1, 4}, 319).collectives() == 4 && plan({1, 4}, 24 * 40 - 1).collectives() == 2);
// What does not fit goes alone, also where nothing fits.
static_assert(plan({1, 4}, 39).collectives() == 24 && plan({1, 4}, 0).collectives() == 24);
static_assert(plan({1, 4}, 40).collectives() == 24 && plan<double>({1, 4}, 320).collectives() == 6);

// Beside the gradients there is memory for one bucket, and none where gradients are reduced alone.
static_assert(plan({1, 4}, 0).peak_bytes(MemoryUse::gradient) == plan({1, 4}, 0).parameter_bytes());
static_assert(plan({1, 4}, 0).peak_bytes(MemoryUse::gathered) == 0);
static_assert(tensor.peak_bytes(MemoryUse::gradient) == tensor.parameter_bytes());
static_assert(tensor.peak_bytes(MemoryUse::gathered) == 24 * 40);

// float and double do not share a bucket; an all-reduce for each.
struct Mixed {
  Model<float> single;
  Model<double> precise;
  constexpr void visit(auto&& f) {
    f("single", single);
    f("precise", precise);
  }
};
constexpr auto mixed = trace<Grid>({1, 2}, [](const Grid& mesh) {
  Mixed model{Model<float>(mesh, 3), Model<double>(mesh, 3)};
  give_gradients(model);
  reduce_gradients(model);
  reduce_gradients(model);  // nothing is pending any more
  for_each_parameter(model, [](auto& parameter) {
    if (parameter.gradient() || !parameter.finished_gradient()) throw std::logic_error("it was not finished");
  });
});
static_assert(mixed.collectives() == 2 && mixed.bytes() == 3 * 10 * (4 + 8));

// Rates are known to the compiler too; its cosine is not the standard library's.
constexpr RateSchedule from_half({.peak = 2,
                                  .warmup = 4,
                                  .first = 0.5});  // LinearLR(start_factor=0.5, total_iters=4)
static_assert(from_half(0) == 1 && from_half(1) == 1.25 && from_half(3) == 1.75 && from_half(4) == 2);
constexpr RateSchedule schedule({.decay = Decay::cosine, .peak = 1, .floor = 0.2, .warmup = 4, .steps = 12});
static_assert(schedule(0) == 0.25 && schedule(3) == 1 && schedule(12) == 0.2);
constexpr bool near(double a, double b) { return a - b < 1e-15 && b - a < 1e-15; }
static_assert(near(schedule(4), 1) && near(schedule(8), 0.6));
static_assert(near(schedule(6), 0.6 + 0.4 * 0.70710678118654752));   // a quarter: cos(π/4)
static_assert(near(schedule(10), 0.6 - 0.4 * 0.70710678118654752));  // three quarters
static_assert(parse_decay("linear") == Decay::linear);

// Clipping adds an all-reduce of one number, and a step after it none.
constexpr auto clipped = [](const Grid::SizesOf& sizes) {
  return trace<Grid>(sizes, [](const Grid& mesh) {
    Model model(mesh, 24);
    AdamW adamw;
    give_gradients(model);
    clip_gradients(model, 1.0);
    adamw.settings().rate = schedule(adamw.steps());
    adamw.step(model);
    for_each_parameter(model, [](auto& parameter) {
      if (parameter.finished_gradient()) throw std::logic_error("a step leaves no gradient");
    });
  });
};
static_assert(clipped({2, 4}).collectives() == 2 + 1 && clipped({2, 4}).bytes() == both.bytes() + 8);
static_assert(clipped({1, 1}).collectives() == 0);

}  // namespace
}  // namespace shardwise
