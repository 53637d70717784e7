// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// What `CrossEntropyLoss` communicates and remembers, planned by the compiler.

#include <shardwise/mesh/trace.hpp>
#include <shardwise/nn/cross_entropy_loss.hpp>

using namespace shardwise;

namespace {

constexpr Index rows = 6, classes = 64;
constexpr Index row_bytes = 3 * sizeof(float), smoothed_row_bytes = 4 * sizeof(float);
constexpr Index total_bytes = 2 * sizeof(double);

/// Forward and backward, of logits that lie as `Logits…`, targets as `Targets…`.
template <class MeshType, class Logits, class Targets>
constexpr auto plan(const typename MeshType::SizesOf& sizes, bool kept = false, double smoothing = 0) {
  return trace<MeshType>(sizes, [=](const auto& mesh) {
    Tape tape;
    auto logits = tape.input(Logits(mesh, {rows, classes}));
    const Targets targets(mesh, {rows});
    const CrossEntropyLoss criterion({.label_smoothing = smoothing});
    if (kept) {
      tape.backward(criterion(logits, targets));
    } else {
      tape.backward(criterion(std::move(logits), targets));
    }
  });
}

using Line = Mesh<tp>;
template <class P>
using LineLogits = Tensor<float, 2, Line, P>;
template <class P>
using LineTargets = Tensor<int, 1, Line, P>;
using Grid = Mesh<dp, tp>;
template <class... P>
using GridLogits = Tensor<float, 2, Grid, P...>;
template <class... P>
using GridTargets = Tensor<int, 1, Grid, P...>;

// Sharded classes: one all-reduce forward, of three numbers a row.
constexpr auto on_tp = plan<Line, LineLogits<Shard<1>>, LineTargets<Replicate>>({4});
static_assert(on_tp.collectives() == 1 && on_tp.count(Collective::all_reduce, Phase::forward) == 1);
static_assert(on_tp.bytes() == rows * row_bytes);
static_assert(on_tp.flops(Phase::forward) == 4 * rows * classes / 4);
static_assert(on_tp.flops(Phase::backward) == 3 * rows * classes / 4);

// With label smoothing, of four.
constexpr auto smoothed = plan<Line, LineLogits<Shard<1>>, LineTargets<Replicate>>({4}, false, 0.1);
static_assert(smoothed.collectives() == 1 && smoothed.bytes() == rows * smoothed_row_bytes);

// Logits that are given up become their gradient: no memory of their size is added. Those that are kept do not.
constexpr Index logits_bytes = rows * classes / 4 * Index{sizeof(float)};
constexpr auto kept = plan<Line, LineLogits<Shard<1>>, LineTargets<Replicate>>({4}, true);
static_assert(on_tp.peak_activation_bytes() < logits_bytes + 150);
static_assert(kept.peak_activation_bytes() == on_tp.peak_activation_bytes() + logits_bytes);

// Sharded rows, too: one more, of two numbers.
constexpr auto on_both = plan<Grid, GridLogits<Shard<0>, Shard<1>>, GridTargets<Shard<0>, Replicate>>({2, 4});
static_assert(on_both.collectives() == 2 && on_both.collectives(Phase::backward) == 0);
static_assert(on_both.count<dp>(Collective::all_reduce) == 1 && on_both.bytes<dp>() == total_bytes);
static_assert(on_both.count<tp>(Collective::all_reduce) == 1 && on_both.bytes<tp>() == rows / 2 * row_bytes);

// Two axes that do the same share their call.
constexpr auto joint_classes =
    plan<Grid, GridLogits<Shard<1>, Shard<1>>, GridTargets<Replicate, Reduced>>({2, 4});
static_assert(joint_classes.collectives() == 1 && joint_classes.bytes() == rows * row_bytes);
static_assert(joint_classes.count<dp>(Collective::all_reduce) == 1);
constexpr auto joint_rows =
    plan<Grid, GridLogits<Shard<0>, Shard<0>>, GridTargets<Shard<0>, Shard<0>>>({2, 3});
static_assert(joint_rows.collectives() == 1 && joint_rows.bytes() == total_bytes);

// Nothing sharded, or nobody to share with: nothing communicates.
static_assert(plan<Line, LineLogits<Replicate>, LineTargets<Replicate>>({4}).collectives() == 0);
static_assert(plan<Line, LineLogits<Shard<1>>, LineTargets<Replicate>>({1}).collectives() == 0);
static_assert(
    plan<Grid, GridLogits<Shard<0>, Shard<1>>, GridTargets<Shard<0>, Replicate>>({1, 1}).collectives() == 0);

template <class Logits, class Targets>
using Result = tensor_of<decltype(CrossEntropyLoss().forward(std::declval<abstract_argument<Logits>>(),
                                                             std::declval<abstract_argument<Targets>>()))>;
template <class... P>
using Scalar = Tensor<float, 0, Grid, P...>;
static_assert(std::is_same_v<Result<GridLogits<Shard<0>, Shard<1>>, GridTargets<Shard<0>, Reduced>>,
                             Scalar<Replicate, Replicate>>);
static_assert(std::is_same_v<Result<GridLogits<Reduced, Shard<1>>, GridTargets<Replicate, Replicate>>,
                             Scalar<Reduced, Replicate>>);

template <class Logits, class Targets>
constexpr Reason why = reason_of<Result<Logits, Targets>>;
static_assert(why<LineLogits<Shard<1>>, LineTargets<Shard<0>>> ==
              Reason::operands_sharded_on_different_dimensions);
static_assert(why<LineLogits<Shard<0>>, LineTargets<Replicate>> ==
              Reason::contracted_dimension_sharded_on_one_side_only);
static_assert(why<LineLogits<Partial<>>, LineTargets<Replicate>> ==
              Reason::operation_is_not_linear_so_it_needs_the_finished_sum);
static_assert(why<LineLogits<Shard<1>>, Tensor<float, 1, Line, Replicate>> ==
              Reason::operand_must_hold_integers);

template <class Logits, class Targets>
concept HasLoss = requires(CrossEntropyLoss criterion, Logits logits, Targets targets) {
  criterion(logits, targets);
  criterion(std::move(logits), targets);
};
static_assert(HasLoss<LineLogits<Shard<1>>, LineTargets<Replicate>>);
static_assert(!HasLoss<LineLogits<Shard<1>>, LineTargets<Shard<0>>>);
static_assert(!HasLoss<Var<LineLogits<Shard<0>>>, LineTargets<Replicate>>);

}  // namespace
