// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// What `forward` may do with its operand when it is only asked for its result: everything that it may do with a tensor.
/// Each line of this module is seen twice, with operands that are types and with real ones.

#include <shardwise/shardwise.hpp>

using namespace shardwise;

namespace {

using Grid = Mesh<dp, tp>;
template <class... P>
using Heads = Tensor<float, 4, Grid, P...>;  // [batch, sequence, heads, head_dim]

struct Everything : Module<Everything> {
  constexpr explicit Everything(const Grid& mesh) : wide(mesh, 8, 8), narrow_head(mesh, 8, 8) {}

  constexpr auto forward(const auto& x) const {
    if (x.shape()[0] < 1 || x.mesh().axes != 2) throw std::invalid_argument("not reached");
    auto joined = reshape<Shard<0>, Reduced>(redistribute<tp, Reduced>(x), {x.shape()[0], x.shape()[1], 8});
    auto cut = redistribute<Shard<0>, Shard<1>>(narrow<1>(joined, 0, 2));
    auto whole = reduced_on_data_axes(transpose<0, 1>(redistribute<tp, Replicate>(transpose<0, 1>(cut))));
    auto [a, b] = project(whole, wide, narrow_head);
    auto h = repeat(add(a, b), 2, [](const auto& in, std::size_t) { return relu(in * 0.5); });
    h = dropout(h, 0.1, 1);
    h = -(2 * h - h / 2) + h;
    h = mul(h, h);
    return std::tuple(sum<2>(redistribute<tp, Replicate>(h)), softmax(redistribute<tp, Replicate>(h)));
  }

  Linear<Grid, ColwiseParallel<tp>> wide, narrow_head;
};

template <class X>
using Given = decltype(std::declval<const Everything&>()(std::declval<X>()));
template <int Rank>
using Rows = Tensor<float, Rank, Grid, Shard<0>, Replicate>;
static_assert(std::is_same_v<Given<Heads<Shard<0>, Shard<2>>>, std::tuple<Rows<2>, Rows<3>>>);
static_assert(std::is_same_v<Given<Var<Heads<Shard<0>, Replicate>>>, std::tuple<Var<Rows<2>>, Var<Rows<3>>>>);
static_assert(
    std::is_same_v<Given<Var<Heads<Shard<0>, Replicate>, false>>, std::tuple<Var<Rows<2>>, Var<Rows<3>>>>);

template <class X>
concept Taken = requires(const Everything& module, X x) {
  module(x);
};
static_assert(Taken<Heads<Shard<0>, Shard<1>>>);
static_assert(!Taken<Heads<Partial<Max>, Shard<1>>>);
static_assert(!Taken<Tensor<std::int32_t, 4, Grid, Shard<0>, Replicate>>);

/// It runs, too, here inside the compiler.
constexpr auto step = trace<Grid>({2, 2}, [](const Grid& mesh) {
  Everything module(mesh);
  Tape tape;
  auto [sums, shares] = module(tape.input(empty<float, Shard<0>, Shard<2>>(mesh, {2, 4, 4, 2})));
  return sum(shares);
});
static_assert(step.count(Collective::all_gather) > 0);

}  // namespace
