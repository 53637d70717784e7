// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// Hints about redistributions that a program can save: each wasteful step is compared with the one that the hint
/// recommends, whose traffic is less by exactly the bytes of the hint. Other steps have no hint.

#include <shardwise/mesh/trace.hpp>
#include <shardwise/shardwise.hpp>

namespace shardwise {
namespace {

using Grid = Mesh<tp, kvr>;
constexpr Index batch = 2, length = 8, features = 16;
/// A tensor of these extents. Half of it is missing on each of two ranks.
constexpr std::int64_t whole = batch * length * features * sizeof(float);

/// A step of `f(x, q, k, v)`, whose first argument is in the layout `In`, and whose result is in any layout.
template <class Style, class In, class InKvr = Replicate, class F>
constexpr auto step(F f, std::array<int, 2> sizes = {2, 1}) {
  return trace<Grid>(sizes, [&](const Grid& mesh) {
    using Layer = Linear<Grid, Style>;
    const Layer q(mesh, features, features), k(mesh, features, features), v(mesh, features, features);
    Tape tape;
    const auto x = tape.input(empty<float, In, InKvr>(mesh, {batch, length, features}));
    const auto y = f(x, q, k, v);
    tape.backward(y, cotangent_of<tensor_of<decltype(y)>>(mesh, y.shape()));
  });
}
using Axes = AxisList<tp, kvr>;
using Column = ColwiseParallel<Axes>;
template <class P>
constexpr auto to(const auto& x) {
  return redistribute<P, P>(x);
}

constexpr auto alone = [](const auto& x, const auto& q, const auto&, const auto&) { return q(x); };
constexpr auto projected = [](const auto& x, const auto& q, const auto& k, const auto& v) {
  auto [a, b, c] = project(x, q, k, v);
  return add(add(a, b), c);
};
constexpr auto separate = [](const auto& x, const auto& q, const auto& k, const auto& v) {
  return add(add(q(x), k(x)), v(x));
};
/// `f` of x, prepared as `PrepareModuleInput<…, P>` does.
template <class P>
constexpr auto prepared(auto f) {
  return [f](const auto& x, const auto& q, const auto& k, const auto& v) { return f(to<P>(x), q, k, v); };
}

/// The only hint is this one, and `good`, which has none, receives just its bytes less.
constexpr bool saves(const auto& bad, const auto& good, Waste::Kind kind, std::int64_t calls,
                     AxisSet axes = 1) {
  const std::vector<Waste> found = wasted(bad);
  return wasted(good).empty() && found.size() == 1 && found[0].kind == kind && found[0].axes == axes &&
         found[0].calls == calls && std::string_view(found[0].operation) == "linear" && found[0].bytes > 0 &&
         found[0].bytes == bad.received_bytes() - good.received_bytes();
}
using enum Waste::Kind;

// ---- An input that is gathered to Replicate -----------------------------------------------------------------------
constexpr auto replicated = step<Column, Shard<1>>(prepared<Replicate>(alone));
constexpr auto pending = step<Column, Shard<1>>(prepared<Reduced>(alone));
static_assert(replicated.count(Collective::all_reduce, Phase::backward) == 1);
static_assert(pending.count(Collective::reduce_scatter, Phase::backward) == 1);
static_assert(saves(replicated, pending, summed_whole, 1));
static_assert(wasted(replicated)[0].bytes == whole / 2);

// Layers that share it add their gradients, and are reduced once; layers that do not, three times.
static_assert(saves(step<Column, Shard<1>>(prepared<Replicate>(projected)), pending, summed_whole, 1));
static_assert(saves(step<Column, Shard<1>>(prepared<Replicate>(separate)), pending, summed_whole, 3));

// As a style asks for it.
struct Projections : Module<Projections> {
  Linear<Grid, Column> q, k;
  constexpr explicit Projections(const Grid& mesh)
      : q(mesh, features, features), k(mesh, features, features) {}
  constexpr auto forward(const auto& x) const {
    auto [a, b] = project(x, q, k);
    return add(a, b);
  }
  constexpr void visit(auto&& f) { f("q", q), f("k", k); }
};
template <class P>
constexpr auto styled_step = trace<Grid>({2, 1}, [](const Grid& mesh) {
  const Prepared<Projections, PrepareModuleInput<Axes, P>> block(mesh);
  Tape tape;
  const auto y = block(tape.input(empty<float, Shard<1>, Replicate>(mesh, {batch, length, features})));
  tape.backward(y, cotangent_of<tensor_of<decltype(y)>>(mesh, y.shape()));
});
static_assert(saves(styled_step<Replicate>, styled_step<Reduced>, summed_whole, 1));

// Another reader needs the whole value, but its gradient may stay pending too.
template <class P>
constexpr auto with_whole_reader = step<Column, Shard<1>>([](const auto& x, const auto& q, auto&&...) {
  const auto gathered = to<P>(x);
  return add(to<Shard<2>>(to<Replicate>(gathered)), q(gathered));
});
static_assert(saves(with_whole_reader<Replicate>, with_whole_reader<Reduced>, summed_whole, 1));

// Along two axes, of which one was gathered: the sum over the other follows the scatter, and is of half as much.
constexpr std::array both{2, 2};
static_assert(saves(step<Column, Shard<1>>(prepared<Replicate>(alone), both),
                    step<Column, Shard<1>>(prepared<Reduced>(alone), both), summed_whole, 1, 3));
static_assert(saves(step<Column, Shard<1>, Shard<1>>(prepared<Replicate>(alone), both),
                    step<Column, Shard<1>, Shard<1>>(prepared<Reduced>(alone), both), summed_whole, 1, 3));

// What was not gathered is needed whole on all ranks, also if it was all-reduced.
static_assert(wasted(step<Column, Replicate>(alone)).empty());
static_assert(wasted(step<Column, Replicate>(prepared<Replicate>(projected))).empty());
static_assert(wasted(step<Column, Partial<>>(prepared<Replicate>(projected))).empty());
static_assert(wasted(step<Column, Shard<1>>(prepared<Replicate>(alone), {1, 1})).empty());
// A gradient that is reduced and scattered, and then moved, is never whole.
static_assert(wasted(step<Column, Shard<1>>(prepared<Shard<2>>(alone))).empty());

// ---- Layers that redistribute one value each ----------------------------------------------------------------------
constexpr auto three = step<Column, Shard<1>>(separate);
constexpr auto once = step<Column, Shard<1>>(projected);
static_assert(three.count(Collective::all_gather) == 3 && three.count(Collective::reduce_scatter) == 3);
static_assert(saves(three, once, repeated, 2));
static_assert(wasted(three)[0].bytes == 2 * 2 * whole / 2);
static_assert(saves(step<Column, Shard<1>>(separate, both), step<Column, Shard<1>>(projected, both), repeated,
                    2, 3));

// Only the gradients travel, or only the values.
static_assert(saves(step<Column, Replicate>(separate), step<Column, Replicate>(projected), repeated, 2));
static_assert(saves(step<RowwiseParallel<Axes, output<Partial<>>>, Shard<1>>(separate),
                    step<RowwiseParallel<Axes, output<Partial<>>>, Shard<1>>(projected), repeated, 2));

// A value that was all-reduced, not gathered: only the second reduction of its gradient is too much.
static_assert(saves(step<Column, Partial<>>(prepared<Replicate>(separate)),
                    step<Column, Partial<>>(prepared<Replicate>(projected)), repeated, 2));

// Two uses in different layouts, or in messages of different types, are not the same.
static_assert(wasted(step<Column, Shard<1>>([](const auto& x, const auto& q, auto&&...) {
                return add(q(x), to<Shard<2>>(x));
              })).empty());
static_assert(wasted(step<Column, Shard<1>>([](const auto& x, const auto& q, const auto& k, auto&&...) {
                return add(q(x),
                           k(redistribute<Reduced, Reduced>(x, communicate_as<Eigen::bfloat16, float>())));
              })).empty());

// ---- Calls that are repeated --------------------------------------------------------------------------------------
template <class F>
constexpr auto repeated_call = step<Column, Shard<1>>([](const auto& x, const auto& q, const auto& k,
                                                         const auto& v) {
  return recompute([](const auto& in, const auto&... layers) { return F{}(in, layers...); }, x, q, k, v);
});
static_assert(wasted(repeated_call<decltype(projected)>).empty());
static_assert(wasted(repeated_call<decltype(separate)>)[0].calls == 2);

// A value in a later pass is another value; and a parameter, which is the same, is gathered for each pass.
template <class F>
constexpr auto two_passes = trace<Grid>({2, 1}, [](const Grid& mesh) {
  const Linear<Grid, Column> q(mesh, features, features), k(mesh, features, features);
  for (int pass = 0; pass < 2; ++pass) {
    Tape tape;
    const auto y = F{}(tape.input(empty<float, Shard<1>, Reduced>(mesh, {batch, length, features})), q, k);
    tape.backward(y, cotangent_of<tensor_of<decltype(y)>>(mesh, y.shape()));
  }
});
constexpr auto projected_in_pass = [](const auto& x, const auto& q, const auto& k) {
  auto [a, b] = project(x, q, k);
  return add(a, b);
};
constexpr auto separate_in_pass = [](const auto& x, const auto& q, const auto& k) { return add(q(x), k(x)); };
constexpr auto gathered_weight = [](const auto& x, const auto& q, const auto&) {
  return linear<1>(x, to<Reduced>(alongside(q.weight, x)));
};
static_assert(wasted(two_passes<decltype(projected_in_pass)>).empty());
static_assert(wasted(two_passes<decltype(separate_in_pass)>)[0].calls == 2);
static_assert(two_passes<decltype(gathered_weight)>.count(Collective::all_gather) == 2);
static_assert(wasted(two_passes<decltype(gathered_weight)>).empty());

}  // namespace
}  // namespace shardwise
