// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// What a mixture of experts communicates, planned by the compiler.

#include <shardwise/mesh/trace.hpp>
#include <shardwise/nn/mixture_of_experts.hpp>
#include <shardwise/tensor/factories.hpp>
#include <shardwise/train/reduce_gradients.hpp>

using namespace shardwise;

namespace {

using Grid = Mesh<dp, ep, tp>;
constexpr Index batch = 32, sequence = 8, features = 16, number = sizeof(float);

/// A step of a mixture of 16 experts on dp 2, ep 4, and `shards` ranks of tp.
template <class Style, class OnTp>
constexpr auto plan(int shards, bool losses) {
  return trace<Grid>({2, 4, shards}, [=](const Grid& mesh) {
    MixtureOfExperts<Grid, Style> moe(
        mesh, features, {.experts = 16, .hidden = 6, .routing = {.k = 2}, .shared_hidden = 8, .bias = true});
    Tape tape;
    const auto x = tape.input(empty<float, Shard<0>, Shard<0>, OnTp>(mesh, {batch, sequence, features}));
    const auto in = moe.take(x);
    const auto routing = moe.route(in);
    auto loss = detail::whole_on_every_rank(sum(moe.mix(in, routing, x)));
    if (losses) loss = add(loss, add(balance_loss(routing), z_loss(routing)));
    backward_and_reduce(loss, moe);
  });
}

// Over ep one all-gather and one reduce-scatter each way, of the tokens of 4 ranks.
constexpr auto step = plan<ExpertParallel<ep>, Replicate>(1, false);
constexpr Index tokens = batch / 2 * sequence * features * number;
constexpr bool one_each_way(const auto& of, Phase phase) {
  return of.template count<ep>(Collective::all_gather, phase) == 1 &&
         of.template count<ep>(Collective::reduce_scatter, phase) == 1 &&
         of.template count<ep>(Collective::all_to_all, phase) == 0;
}
static_assert(one_each_way(step, Phase::forward) && one_each_way(step, Phase::backward));
static_assert(step.bytes<ep>(Phase::backward) == 2 * tokens);
static_assert(step.bytes<ep>(Phase::forward) == 2 * tokens + number);  // and the loss of this test
// Each expert's gradient is reduced over dp, and none over ep: that of the router is, as a dense layer's, and with it the
// load of the experts, in the same call.
constexpr Index experts_here = 16 / 4 * 3 * 6 * features, shared_here = 3 * 8 / 4 * features,
                router = 16 * features + 16;
static_assert(step.count<ep>(Collective::all_reduce, Phase::optimizer) == 1 &&
              step.collectives(Phase::optimizer) == 2);
static_assert(step.bytes<ep>(Phase::optimizer) == router * number);
static_assert(step.bytes<dp>(Phase::optimizer) == (experts_here + shared_here + router) * number);
static_assert(step.parameter_bytes() >= (experts_here + shared_here + router) * number);
static_assert(step.parameter_bytes() < (experts_here + shared_here + router) * number + 1024);

// The losses communicate four times: numbers for each expert, and one for the logits. Backward they do not.
constexpr auto with_losses = plan<ExpertParallel<ep>, Replicate>(1, true);
static_assert(with_losses.collectives(Phase::forward) == step.collectives(Phase::forward) + 3);
static_assert(with_losses.collectives(Phase::backward) == step.collectives(Phase::backward));

// By counts, tokens travel instead: numbers of tokens, tokens, their ids and weights, and sums. A plan has a bound: each
// token of a rank goes to two of the four.
constexpr auto counted = plan<ExpertParallel<ep, by_counts>, Replicate>(1, false);
constexpr Index rows = batch / 8 * sequence * 2, count = 4 * sizeof(Index);
static_assert(counted.count<ep>(Collective::all_to_all, Phase::forward) == 5);
static_assert(counted.count<ep>(Collective::all_to_all, Phase::backward) == 3);
static_assert(counted.count<ep>(Collective::all_gather) == 0 &&
              counted.count<ep>(Collective::reduce_scatter) == 0);
static_assert(counted.bytes<ep>(Phase::backward) == rows * (2 * features + 2) * number);
static_assert(counted.bytes<ep>(Phase::forward) ==
              rows * (2 * features + 2) * number + rows * 2 * Index{sizeof(std::int64_t)} + count + number);
// The shared MLP is whole on each rank, for its own tokens.
static_assert(counted.bytes<dp>(Phase::optimizer) == (experts_here + shared_here * 4 + router) * number);
static_assert(plan<ExpertParallel<ep, by_counts>, Replicate>(1, true).collectives(Phase::forward) ==
              counted.collectives(Phase::forward) + 3);

// Its layouts along ep are those of data parallelism.
template <class T, int Rank, class P>
using On = Tensor<T, Rank, Mesh<ep>, P>;
template <class X, class Ids, class Weights>
constexpr bool routed =
    WellFormed<detail::routed_result<1, On<float, 2, X>, On<std::int64_t, 2, Ids>, On<float, 2, Weights>,
                                     On<float, 4, Shard<0>>, On<float, 3, Shard<0>>>>;
static_assert(routed<Shard<0>, Shard<0>, Shard<0>>);
static_assert(!routed<Replicate, Replicate, Replicate> && !routed<Shard<1>, Reduced, Reduced>);
static_assert(!routed<Shard<0>, Replicate, Shard<0>> && !routed<Shard<0>, Shard<0>, Reduced>);

// Hidden features split over tp, beside sequences that are split there.
constexpr auto both = plan<Styles<ExpertParallel<ep>, ExpertTensorParallel<tp>>, Shard<1>>(2, false);
static_assert(both.count<tp>(Collective::all_gather, Phase::forward) == 1);
static_assert(both.count<tp>(Collective::reduce_scatter, Phase::forward) == 1);
static_assert(both.flops() < step.flops());

}  // namespace
