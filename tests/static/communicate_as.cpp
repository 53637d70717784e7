// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// What messages carry, counted by the compiler: of redistributions, of layers by their styles, of gradients, and of
/// parameters that are gathered.

#include <shardwise/llm/models/llama/model.hpp>
#include <shardwise/nn/linear_cross_entropy_loss.hpp>
#include <shardwise/shardwise.hpp>

namespace shardwise {
namespace {

using namespace shardwise::llm;

using bf16 = Eigen::bfloat16;
using Grid = Mesh<dp, tp>;

// ---- A redistribution --------------------------------------------------------------------------------------------
constexpr auto gathered = trace<Grid>({1, 4}, [](auto mesh) {
  const auto x = empty<float, Replicate, Shard<0>>(mesh, {2048, 1024});
  return redistribute<tp, Replicate>(x, communicate_as<bf16>());
});
static_assert(gathered.count(Collective::all_gather) == 1 && gathered.bytes<tp>() == 2048 * 1024 * 2);

template <class X, class As>
inline constexpr bool carries = requires(X x, As as) {
  redistribute<tp, Replicate>(x, as);
}
&&requires(X x, As as) { redistribute_async<tp, Replicate>(x, as); };
template <class T>
using Rows = Tensor<T, 2, Grid, Replicate, Shard<0>>;
static_assert(carries<Rows<float>, communicate_as<bf16>> && carries<Rows<float>, communicate_as<double>>);
static_assert(carries<Rows<bf16>, communicate_as<float, bf16>> &&
              carries<Rows<double>, communicate_as<bf16>>);
static_assert(!carries<Rows<std::int32_t>, communicate_as<bf16>>);
static_assert(!carries<Rows<float>, communicate_as<std::int32_t>>);
static_assert(!carries<Rows<float>, communicate_as<float, std::int64_t>>);
static_assert(!carries<Rows<float>, communicate_as<long double>>);

// ---- In a module of one's own ------------------------------------------------------------------------------------
struct Whole : Module<Whole> {
  constexpr auto forward(const auto& x) const {
    return redistribute<tp, Replicate>(x, communicate_as<bf16>());
  }
  constexpr void visit(auto&&) {}
};
constexpr auto in_a_module = trace<Grid>({1, 4}, [](auto mesh) {
  return Whole()(empty<float, Replicate, Shard<0>>(mesh, {64, 8}));
});
static_assert(in_a_module.bytes() == 64 * 8 * 2);
template <class X>
inline constexpr bool made_whole = requires(Whole whole, X x) {
  whole(x);
};
static_assert(made_whole<Rows<float>> && !made_whole<Rows<std::int32_t>>);

// ---- Styles, and gradients ---------------------------------------------------------------------------------------
/// A step of an Mlp: of 64 rows, of which each rank of dp has half; from 16 to 32 features and back.
template <class UpStyle, class DownStyle, class... As>
constexpr auto step_of = trace<Grid>({2, 4}, [](auto mesh) {
  Mlp<Grid, float, UpStyle, DownStyle> mlp(mesh, 16, 32);
  (set_communication(mlp, As()), ...);
  Unit unit(mlp);
  Tape tape;
  auto x = tape.input(empty<float, Shard<0>, Replicate>(mesh, {64, 16}));
  auto y = unit(x, [&](const auto& in) { return mlp(in); });
  auto loss = redistribute<Replicate, Replicate>(mean(y));
  backward_and_reduce(loss, mlp);
});
template <class... As>
constexpr auto split = step_of<ColwiseParallel<tp, As...>, RowwiseParallel<tp, As...>>;
constexpr Index values = 32 * 16;
static_assert(split<>.bytes<tp>(Phase::forward) == values * 4);
static_assert(split<communicate_as<bf16>>.bytes<tp>(Phase::forward) == values * 2);
static_assert(split<communicate_as<bf16>>.bytes<tp>(Phase::backward) == values * 2);
static_assert(split<communicate_as<bf16, float>>.bytes<tp>(Phase::forward) == values * 2);
static_assert(split<communicate_as<bf16, float>>.bytes<tp>(Phase::backward) == values * 4);

// An input and an output of several styles travel in one way.
using OnBoth = Styles<ColwiseParallel<tp, output<Replicate>, communicate_as<bf16>>, Zero<0, dp>>;
constexpr auto given = trace<Grid>({2, 4}, [](auto mesh) {
  Linear<Grid, OnBoth> layer(mesh, 16, 32);
  return layer(empty<float, Shard<0>, Replicate>(mesh, {64, 16}));
});
static_assert(given.bytes<tp>() == 32 * 32 * 2);

// On dp: up and down cut in four, and their biases, of which one is whole.
constexpr Index weights = 8 * 16 * 2 + 8 + 16;
template <int Level, class... As>
constexpr auto data_parallel = step_of<Styles<ColwiseParallel<tp>, Zero<Level, dp>>,
                                       Styles<RowwiseParallel<tp>, Zero<Level, dp>>, As...>;
static_assert(data_parallel<0>.bytes<dp>(Phase::optimizer) == weights * 4);
static_assert(data_parallel<0, communicate_as<bf16>>.bytes<dp>(Phase::optimizer) == weights * 2);
static_assert(data_parallel<0, communicate_as<bf16, float>>.bytes<dp>(Phase::optimizer) == weights * 4);
constexpr std::int64_t bytes_of(const auto& plan, Collective kind) {
  std::int64_t sum = 0;
  for (const auto& phase : plan.record().traffic) {
    for (const Traffic& on_axes : phase[static_cast<int>(kind)]) sum += on_axes.bytes;
  }
  return sum;
}
template <int Level, class... As>
constexpr std::int64_t gathers = bytes_of(data_parallel<Level, As...>, Collective::all_gather);
template <int Level, class... As>
constexpr std::int64_t scatters = bytes_of(data_parallel<Level, As...>, Collective::reduce_scatter);
static_assert(gathers<3> > weights * 4 &&
              scatters<3> == (weights - 8) * 4);  // up has one bias that is not cut
static_assert(gathers<3, communicate_as<bf16, float>> == gathers<3> / 2);
static_assert(scatters<3, communicate_as<bf16, float>> == scatters<3>);
static_assert(gathers<3, communicate_as<float, bf16>> == gathers<3>);
static_assert(scatters<3, communicate_as<float, bf16>> == scatters<3> / 2);

// ---- A plan of a whole model -------------------------------------------------------------------------------------
constexpr int layers = 2, tokens = 2 * 8, features = 16;
template <class PlanType>
constexpr auto llama_step = trace<Grid>({1, 2}, [](auto mesh) {
  const LlamaConfig config{
      .vocabulary = 30, .features = features, .layers = layers, .heads = 4, .kv_heads = 2, .hidden = 20};
  Llama<Grid, PlanType> model(mesh, config);
  Tape tape;
  const auto ids = empty<std::int32_t, Shard<0>, Replicate>(mesh, {2, 8});
  tape.backward(model(tape.constant(ids), ids, LinearCrossEntropyLoss()));
});
/// Bytes that are saved by the second plan.
template <class Usual, class Narrow>
constexpr std::int64_t saved(Phase phase) {
  static_assert(llama_step<Usual>.collectives() == llama_step<Narrow>.collectives());
  return llama_step<Usual>.bytes(phase) - llama_step<Narrow>.bytes(phase);
}
template <class... As>
using TensorParallel = LlamaTensorParallel<tp, KeyValueParallel<tp, As...>, As...>;
template <class... As>
using SequenceParallelToo = LlamaSequenceParallel<tp, KeyValueParallel<tp, As...>, As...>;
constexpr std::int64_t half = tokens * features * 2,
                       passes = 1 + 2 * layers;  // the tokens, or the head; and the layers
static_assert(saved<TensorParallel<>, TensorParallel<communicate_as<bf16>>>(Phase::forward) == passes * half);
static_assert(saved<TensorParallel<>, TensorParallel<communicate_as<bf16>>>(Phase::backward) ==
              passes * half);
static_assert(saved<TensorParallel<>, TensorParallel<communicate_as<bf16, float>>>(Phase::backward) == 0);
using Both = SequenceParallelToo<communicate_as<bf16>>;  // reduce-scatters and gathers
static_assert(saved<SequenceParallelToo<>, Both>(Phase::forward) == 2 * passes * half);
static_assert(saved<SequenceParallelToo<>, Both>(Phase::backward) == 2 * passes * half);

}  // namespace
}  // namespace shardwise
