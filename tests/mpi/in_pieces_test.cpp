// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// `InPieces` between hosts: results and gradients are those of whole messages, bit by bit, for each kind of message, cut
/// along each dimension, with uneven blocks; the plan knows the pieces; and `redistribute_async` on a tape.

#include <doctest/doctest.h>
#include <shardwise/shardwise.hpp>

#include "outcome.hpp"

namespace shardwise::testing::in_pieces {
namespace {

using Line = Mesh<tp>;
constexpr Index in = 257, out = 6;  // so a piece of 256 KiB has 255 rows of floats

/// What a layer of this style makes of `x`, and the gradients.
template <class Style, class P, class T = float, int Rank = 2, bool HasBias = true>
Outcome outcome(const Line& mesh, const Shape<Rank>& extents) {
  Linear<Line, Style, T, 1, 1, HasBias> layer(mesh, {extents[Rank - 1]}, {out}, Init::normal(1),
                                              Init::normal(1));
  initialize(layer, 1);
  const auto x = redistribute<P>(randn<T, Replicate>(mesh, extents, 2));
  Tape tape;
  const auto on_tape = tape.input(x);
  const auto y = layer(on_tape);
  Outcome found{{"result", whole(y.value())}, {"without a tape", whole(layer(x))}};
  tape.backward(redistribute<Replicate>(sum_of_squares(y)));
  reduce_gradients(layer);
  found.merge(gradients_of(layer));
  found["input"] = whole(on_tape.gradient());
  return found;
}

/// Each rank is a host; and two ranks share one. In pieces, other ranks sum up the numbers of an all-reduce, so three
/// terms are added in another order.
template <class Style, class P, class T = float, bool HasBias = true, int Rank>
void check(const Shape<Rank>& extents, bool is_sum = false) {
  for (const int per_host : {1, 2}) {
    const Line mesh(world().on_hosts(world().rank() / per_host), {world().size()});
    const Outcome expected = outcome<Style, P, T, Rank, HasBias>(mesh, extents);
    const Outcome two = outcome<Styles<Style, InPieces<2>>, P, T, Rank, HasBias>(mesh, extents),
                  seven = outcome<Styles<Style, InPieces<7>>, P, T, Rank, HasBias>(mesh, extents);
    if (is_sum && world().size() > 2) {
      check_outcome(two, expected);
      check_outcome(seven, expected);
    } else {
      CHECK(two == expected);
      CHECK(seven == expected);
    }
  }
}

TEST_CASE("a column-parallel layer gathers rows in pieces") {
  check<ColwiseParallel<tp>, Shard<0>>(Shape<2>{1031, in});
  check<ColwiseParallel<tp>, Shard<0>, double>(Shape<2>{3, in});       // too small to be cut
  check<ColwiseParallel<tp>, Shard<0>, float>(Shape<3>{1, 1000, in});  // one rank has all
  check<ColwiseParallel<tp>, Shard<1>, Eigen::bfloat16>(Shape<3>{1, 1031, in});
  check<ColwiseParallel<tp>, Shard<1>>(Shape<2>{1, in});  // one row, whose features are gathered
  check<ColwiseParallel<tp>, Shard<2>>(Shape<3>{1, 1, in});
  check<ColwiseParallel<tp>, Shard<0>>(Shape<2>{0, in});
  check<ColwiseParallel<tp>, Shard<0>>(Shape<1>{in});
  check<ColwiseParallel<tp>, Shard<1>>(Shape<3>{11, 97, in});  // cut between the samples
  check<ColwiseParallel<tp, communicate_as<Eigen::bfloat16>>, Shard<1>>(Shape<3>{11, 197, in});
  check<ColwiseParallel<tp>, Partial<Sum>, double>(Shape<2>{1031, in}, true);
}
TEST_CASE("a row-parallel layer sends rows in pieces") {
  check<RowwiseParallel<tp, output<Shard<0>>>, Shard<1>>(Shape<2>{20011, 9});
  check<RowwiseParallel<tp, output<Shard<1>>>, Shard<1>>(Shape<2>{1, 64});
  check<RowwiseParallel<tp, output<Shard<1>>>, Shard<2>>(Shape<3>{1, 20011, 9});
  check<RowwiseParallel<tp, output<Shard<1>>>, Shard<2>, double>(Shape<3>{5, 4001, 9});
  check<RowwiseParallel<tp>, Shard<1>, double>(Shape<2>{20011, 9}, true);
  check<RowwiseParallel<tp>, Shard<1>, double, false>(Shape<2>{20011, 9}, true);
  if (world().size() == 2)
    check<RowwiseParallel<tp, communicate_as<float>>, Shard<1>, double>(Shape<2>{40011, 9});
  check<RowwiseParallel<tp, output<Shard<0>>, communicate_as<Eigen::bfloat16>>, Shard<1>>(Shape<2>{40011, 9});
}
TEST_CASE("a result in columns is gathered in pieces") {
  check<ColwiseParallel<tp, output<Replicate>>, Replicate>(Shape<2>{20011, 9});
}

struct Project : Module<Project> {
  using Layer = Linear<Line, Styles<ColwiseParallel<tp>, InPieces<4>>>;
  constexpr explicit Project(const Line& mesh) : q(mesh, in, out), k(mesh, in, out) {}
  constexpr auto forward(const Operand auto& x) const {
    const auto [a, b] = project(x, q, k);
    return mul(a, b);
  }
  constexpr void visit(auto&& f) { f("q", q), f("k", k); }
  Layer q, k;
};
TEST_CASE("the plan has a collective for each piece, between hosts only") {
  const int ranks = world().size();
  const auto plan = [&](const Line& mesh) {
    Project layers(mesh);
    initialize(layers, 1);
    const auto x = randn<float, Shard<0>>(mesh, {1021, in}, 2);
    Tape tape;
    return redistribute<Replicate>(sum(layers(tape.constant(x)))), 0;
  };
  for (const int per_host : {1, 4}) {
    const Line mesh(world().on_hosts(world().rank() / per_host), {ranks});
    Recording recording(mesh);
    plan(mesh);
    const auto found = recording.plan();
    const auto planned = trace<Line>({ranks}, plan, {}, per_host);
    CHECK(found.count(Collective::all_gather) == (ranks == 1 ? 0 : ranks > per_host ? 4 : 1));
    CHECK(found.bytes() == planned.bytes());
    CHECK(found.collectives() == planned.collectives());
    CHECK(found.bytes_to_other_hosts() == planned.bytes_to_other_hosts());
  }
}

struct Async : Module<Async> {
  constexpr auto forward(const Operand auto& x) const {
    auto whole = redistribute_async<tp, Reduced>(x);
    const auto squares = mul(x, x);
    return add(sum<0>(redistribute<tp, Reduced>(squares)), sum<0>(whole.wait()));
  }
  constexpr void visit(auto&&) {}
};
TEST_CASE("redistribute_async on a tape") {
  const Line mesh(world().on_hosts(world().rank()), {world().size()});
  const auto x = randn<double, Shard<0>>(mesh, {11, 5}, 2);
  Tape tape;
  const auto on_tape = tape.input(x);
  const auto y = Async()(on_tape);
  CHECK(whole(y.value()) == whole(Async()(x)));
  tape.backward(redistribute<Replicate>(sum(y)));
  const Numbers values = whole(x), gradient = whole(on_tape.gradient());
  for (std::size_t i = 0; i < values.size(); ++i) CHECK(gradient[i] == doctest::Approx(2 * values[i] + 1));
  auto early = redistribute_async<tp, Reduced>(on_tape);
  static_cast<void>(early.wait());
  CHECK_THROWS_AS(early.wait(), std::logic_error);
}

}  // namespace
}  // namespace shardwise::testing::in_pieces
