// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// What `LinearCrossEntropyLoss` communicates and remembers, planned by the compiler.

#include <shardwise/mesh/trace.hpp>
#include <shardwise/nn/linear_cross_entropy_loss.hpp>

using namespace shardwise;

namespace {

constexpr Index rows = 64, features = 4, classes = 512;
using Grid = Mesh<dp, tp>;
template <class... P>
using X = Tensor<float, 2, Grid, P...>;
using W = Tensor<float, 2, Grid, Reduced, Shard<0>>;
template <class... P>
using Targets = Tensor<int, 1, Grid, P...>;

constexpr auto plan(int samples, int ranks, const LossPieces& pieces, bool on_tape = true) {
  return trace<Grid>({samples, ranks}, [=](const Grid& mesh) {
    Tape tape;
    auto x = tape.input(X<Shard<0>, Reduced>(mesh, {rows, features}));
    auto w = tape.input(W(mesh, {classes, features}));
    const Targets<Shard<0>, Replicate> targets(mesh, {rows});
    const LinearCrossEntropyLoss criterion({}, pieces);
    if (on_tape) {
      tape.backward(criterion(x, w, targets));
    } else {
      criterion(x.value(), w.value(), targets);
    }
  });
}

// The logits of 8 rows are there, not those of 64.
constexpr Index number = sizeof(float), of_piece = 8 * classes * number,
                operands = (rows + classes) * features * number, small = rows * 20;
constexpr auto alone = plan(1, 1, {.rows = 8});
static_assert(alone.peak_activation_bytes() <= of_piece + 2 * operands + small);
static_assert(alone.collectives() == 0);
static_assert(plan(1, 1, {.rows = 8}, false).peak_activation_bytes() <= of_piece + operands + small);

// Sharded classes: an all-reduce for each piece; or one for all, and a product more.
constexpr auto at_once = plan(1, 4, {.rows = 8}),
               reduced_once = plan(1, 4, {.rows = 8, .one_all_reduce = true});
static_assert(at_once.count<tp>(Collective::all_reduce, Phase::forward) == 8 && at_once.collectives() == 8);
static_assert(reduced_once.collectives() == 1 &&
              reduced_once.count(Collective::all_reduce, Phase::forward) == 1);
static_assert(at_once.bytes() == rows * 12 && reduced_once.bytes() == rows * 12);
static_assert(at_once.peak_activation_bytes() <=
              (of_piece + 2 * operands) / 4 + 2 * rows * features * number + small);
static_assert(reduced_once.peak_activation_bytes() <= at_once.peak_activation_bytes() + small);
constexpr Index product = 2 * rows * classes / 4 * features;
static_assert(at_once.flops() == 3 * product + 7 * rows * classes / 4 + (rows + classes / 4) * features);
static_assert(reduced_once.flops() == 4 * product + 7 * rows * classes / 4);

// Sharded rows: one more, of two numbers.
constexpr auto on_both = plan(2, 2, {.rows = 8});
static_assert(on_both.count<tp>(Collective::all_reduce) == 4 && on_both.bytes<tp>() == rows / 2 * 12);
static_assert(on_both.count<dp>(Collective::all_reduce) == 1 && on_both.bytes<dp>() == 16);

template <class... Arguments>
using Result =
    tensor_of<decltype(LinearCrossEntropyLoss().forward(std::declval<abstract_argument<Arguments>>()...))>;
static_assert(std::is_same_v<Result<X<Shard<0>, Reduced>, W, Targets<Shard<0>, Reduced>>,
                             Tensor<float, 0, Grid, Replicate, Replicate>>);
template <class... Arguments>
constexpr Reason why = reason_of<Result<Arguments...>>;
static_assert(why<X<Shard<0>, Replicate>, W, Targets<Shard<0>, Replicate>> ==
              Reason::replicated_operand_meets_blocks_so_its_gradient_would_be_pending);
static_assert(why<X<Shard<0>, Reduced>, W, Targets<Replicate, Replicate>> ==
              Reason::contracted_dimension_sharded_on_one_side_only);
static_assert(
    why<X<Shard<0>, Shard<1>>, Tensor<float, 2, Grid, Reduced, Shard<1>>, Targets<Shard<0>, Replicate>> ==
    Reason::operation_needs_this_dimension_whole_on_every_rank);
static_assert(
    why<X<Shard<0>, Partial<>>, Tensor<float, 2, Grid, Reduced, Reduced>, Targets<Shard<0>, Replicate>> ==
    Reason::operation_is_not_linear_so_it_needs_the_finished_sum);
static_assert(why<X<Shard<0>, Reduced>, W, Tensor<float, 1, Grid, Shard<0>, Replicate>> ==
              Reason::operand_must_hold_integers);
static_assert(
    why<X<Shard<0>, Reduced>, Tensor<double, 2, Grid, Reduced, Shard<0>>, Targets<Shard<0>, Replicate>> ==
    Reason::operands_have_different_element_types);
static_assert(why<X<Shard<0>, Reduced>, W, Tensor<int, 2, Grid, Shard<0>, Replicate>> ==
              Reason::operands_do_not_fit_in_rank);

}  // namespace
