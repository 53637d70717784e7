// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// Which collectives a redistribution runs, forward and backward: the known cases, one by one.

#include "simulate.hpp"

namespace shardwise::testing {
namespace {

constexpr auto none = Collective::none;
constexpr auto all_gather = Collective::all_gather;
constexpr auto all_reduce = Collective::all_reduce;
constexpr auto reduce_scatter = Collective::reduce_scatter;
constexpr auto all_to_all = Collective::all_to_all;

/// How many steps of the route run this collective.
constexpr int count(const Route& route, Collective kind) {
  int steps = 0;
  for (const Step& step : route) steps += step.kind == kind;
  return steps;
}

/// Exactly one call, of this kind, over these axes; or none at all.
constexpr bool is(const Route& route, Collective kind, AxisSet axes) {
  if (!route.possible || route.calls() != (kind != none)) return false;
  for (const Step& step : route) {
    if (step.kind != none && (step.kind != kind || step.axes != axes)) return false;
  }
  return true;
}

// One axis of four ranks.
constexpr bool runs(Placement from, Placement to, Collective kind) {
  return is(route({from}, {to}, 2, {4}), kind, kind == none ? 0u : 1u);
}
constexpr bool gradient_runs(Placement from, Placement to, Collective kind) {
  return runs(cotangent(to), cotangent(from), kind);
}
constexpr Placement s0 = shard(0), s1 = shard(1);

static_assert(runs(s0, replicate, all_gather) && runs(s0, reduced, all_gather));
static_assert(runs(s1, replicate, all_gather) && runs(s1, reduced, all_gather));
static_assert(runs(replicate, s0, none) && runs(reduced, s1, none));
static_assert(runs(partial_sum, s0, reduce_scatter) && runs(partial_sum, s1, reduce_scatter));
static_assert(runs(partial_sum, replicate, all_reduce) && runs(partial_sum, reduced, all_reduce));
static_assert(runs(partial_max, replicate, all_reduce) && runs(partial_max, s1, reduce_scatter));
static_assert(runs(partial_min, reduced, all_reduce) && runs(partial_min, s0, reduce_scatter));
static_assert(runs(s0, s1, all_to_all) && runs(s1, s0, all_to_all));
static_assert(runs(s0, partial_sum, none) && runs(replicate, partial_sum, none) &&
              runs(reduced, partial_sum, none));
static_assert(runs(replicate, reduced, none) && runs(reduced, replicate, none));
static_assert(runs(s0, s0, none) && runs(s1, s1, none) && runs(replicate, replicate, none));
static_assert(runs(partial_sum, partial_sum, none) && runs(partial_max, partial_max, none));

// Nothing becomes a pending maximum or minimum, and those become no pending sum.
static_assert(!route({s0}, {partial_max}, 2, {4}).possible &&
              !route({replicate}, {partial_min}, 2, {4}).possible);
static_assert(!route({partial_max}, {partial_sum}, 2, {4}).possible);
static_assert(!route({partial_max}, {partial_min}, 2, {4}).possible);
static_assert(!route({partial_sum}, {partial_max}, 2, {4}).possible);
static_assert(!route({s0, partial_max}, {s1, partial_sum}, 2, {2, 2}).possible);

// The table of gradients. A redistribution changes no value, so its gradient is the redistribution between
// the gradients' layouts, backwards; and nothing is divided by the number of ranks.
static_assert(gradient_runs(s0, replicate, none));          // the local slice
static_assert(gradient_runs(s0, reduced, reduce_scatter));  // sequence parallelism, FSDP
static_assert(gradient_runs(s0, s1, all_to_all));
static_assert(gradient_runs(s0, partial_sum, none));
static_assert(gradient_runs(replicate, s0, all_gather));
static_assert(gradient_runs(replicate, reduced, all_reduce));  // Megatron's f
static_assert(gradient_runs(replicate, partial_sum, none));
static_assert(gradient_runs(reduced, s0, none));
static_assert(gradient_runs(reduced, replicate, none));
static_assert(gradient_runs(reduced, partial_sum, none));
static_assert(gradient_runs(partial_sum, s0, all_gather));
static_assert(gradient_runs(partial_sum, replicate, none));  // Megatron's g
static_assert(gradient_runs(partial_sum, reduced, all_reduce));
static_assert(cotangent(s1) == s1 && cotangent(replicate) == replicate);
static_assert(cotangent(reduced) == partial_sum && cotangent(partial_sum) == reduced);
static_assert(has_cotangent(partial_sum) && !has_cotangent(partial_max) && !has_cotangent(partial_min));
static_assert(cotangent(Layout{s0, reduced, partial_sum}) == Layout{s0, partial_sum, reduced});

// An axis of one rank never communicates; neither does it hinder.
static_assert(is(route({s0}, {replicate}, 1, {1}), none, 0) &&
              is(route({partial_sum}, {s0}, 1, {1}), none, 0));
static_assert(is(route({s0, s0}, {replicate, replicate}, 1, {1, 3}), all_gather, 0b10u));
static_assert(is(route({partial_sum, partial_sum}, {s0, replicate}, 1, {4, 1}), reduce_scatter, 0b01u));
static_assert(is(route({partial_sum, s0}, {s0, s0}, 1, {3, 1}), reduce_scatter, 0b01u));

// Upper bounds on calls.
constexpr int calls(const Layout& from, const Layout& to, int rank, const MeshSizes& sizes) {
  Route way = route(from, to, rank, sizes);
  return way.possible ? way.calls() : 1000;
}
static_assert(calls({s0, s1}, {s0, s0}, 2, {2, 2}) <= 1);
static_assert(calls({s0, s1}, {s1, s0}, 2, {2, 2}) <= 2);
static_assert(calls({s0, s0}, {s1, s1}, 2, {2, 2}) <= 2);
static_assert(calls({s0, s0, s0}, {s1, s1, s1}, 3, {2, 2, 2}) <= 3);
static_assert(calls({s0, s1, shard(2)}, {shard(2), s1, s0}, 3, {2, 2, 2}) <= 2);
static_assert(is(route({s1, s0, s0}, {replicate, s0, s0}, 3, {2, 2, 2}), all_gather, 0b001u));

// Neighbouring calls become one on the joint group.
static_assert(is(route({partial_sum, partial_sum}, {replicate, replicate}, 2, {4, 2}), all_reduce, 0b11u));
static_assert(is(route({partial_sum, partial_sum}, {s0, s0}, 2, {4, 2}), reduce_scatter, 0b11u));
static_assert(is(route({partial_sum, partial_sum}, {s0, s1}, 2, {4, 2}), reduce_scatter, 0b11u));
static_assert(is(route({s0, s0}, {replicate, replicate}, 2, {4, 2}), all_gather, 0b11u));
static_assert(is(route({partial_sum, partial_sum, partial_sum}, {replicate, reduced, replicate}, 2,
                       {2, 2, 2}),
                 all_reduce, 0b111u));
static_assert(is(route({partial_sum, replicate, partial_sum}, {replicate, replicate, replicate}, 2,
                       {2, 2, 2}),
                 all_reduce, 0b101u));

// An axis that is full before and after is not called upon, however large it is.
static_assert(is(route({replicate, partial_sum}, {replicate, replicate}, 2, {16, 8}), all_reduce, 0b10u));
static_assert(is(route({replicate, partial_sum}, {replicate, s0}, 2, {16, 8}), reduce_scatter, 0b10u));
static_assert(is(route({partial_sum, s0}, {partial_sum, replicate}, 2, {8, 16}), all_gather, 0b10u));

// What is to be sliced is not gathered or reduced in full.
constexpr Route zero_one = route({partial_sum, partial_sum}, {s0, replicate}, 2, {8, 8});
static_assert(count(zero_one, reduce_scatter) == 1 && count(zero_one, all_reduce) == 1 &&
              zero_one.calls() == 2);
static_assert(zero_one.steps[0].kind == reduce_scatter && zero_one.steps[0].axes == 0b01u);
constexpr Route sliced_first = route({replicate, partial_sum}, {s0, replicate}, 2, {4, 4});
static_assert(is(sliced_first, all_reduce, 0b10u) && sliced_first.steps[0].kind == none);

// Only the inner of two axes that shard one dimension can be gathered alone.
static_assert(is(route({s0, s0}, {s0, replicate}, 1, {2, 3}), all_gather, 0b10u));
static_assert(is(route({s0, s0}, {replicate, s0}, 1, {2, 3}), all_to_all, 0b11u));

// The 5×3 matrix on 2×2 that is cut twice along its rows: merged or not, every rank gets all of it.
constexpr Scene<2, 4, 2, 15> scene({2, 2}, Shape<2>{5, 3});
constexpr Layout rows_twice{s0, s0}, everywhere{replicate, replicate};

constexpr bool gathered_in_one_call() {
  Route way = route(rows_twice, everywhere, 2, {2, 2});
  return is(way, all_gather, 0b11u) && scene.right(rows_twice, scene.distributed(rows_twice), way);
}
constexpr bool gathered_in_two_calls() {
  auto contents = scene.distributed(rows_twice);
  Layout halfway{s0, replicate};
  return scene.perform(rows_twice, {true, all_gather, 0b10u, halfway}, contents) &&
         scene.holds(halfway, contents) &&
         scene.perform(halfway, {true, all_gather, 0b01u, everywhere}, contents) &&
         scene.holds(everywhere, contents);
}
static_assert(gathered_in_one_call());
static_assert(gathered_in_two_calls());

}  // namespace
}  // namespace shardwise::testing
