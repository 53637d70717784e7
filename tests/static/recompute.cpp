// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// Recomputed modules, counted by the compiler: what memory is in use when. And what may be asked for: `recompute`, and `Tape::backward` from any result.

#include <shardwise/shardwise.hpp>

#include "support/gpt.hpp"

#include <type_traits>

namespace shardwise {
namespace {

using Grid = Mesh<dp, tp>;
template <class OnTp>
using Sequences = Tensor<float, 3, Grid, Shard<0>, OnTp>;

// ---- The type is that of the call -------------------------------------------------------------------------

template <class X>
constexpr const X* a = nullptr;
constexpr auto same_type = [](auto* module, auto* x) {
  return std::is_same_v<decltype(recompute(*module, *x)), decltype((*module)(*x))>;
};
constexpr auto may = [](auto* module, auto* x) {
  return requires { recompute(*module, *x); };
};
using Layer = Mlp<Grid>;
using In = Sequences<Reduced>;
static_assert(same_type(a<Layer>, a<In>));
static_assert(same_type(a<Layer>, a<Var<In>>));
static_assert(same_type(a<Layer>, a<Var<In, false>>));
static_assert(same_type(a<GptBlock<Grid>>, a<Var<Sequences<Replicate>>>));
static_assert(may(a<Layer>, a<Var<In>>) &&
              !may(a<Layer>, a<Var<Tensor<float, 3, Grid, Shard<2>, Replicate>>>));
static_assert(!may(a<Layer>, a<Tensor<float, 3, Grid, Shard<2>, Replicate>>));
constexpr auto may_temporary = [](auto* x) {
  return requires { recompute(Layer(*x), *x); };
};
static_assert(!may_temporary(a<Var<In>>));
constexpr auto may_call = [](auto function, auto*... x) {
  return requires { recompute(function, *x...); };
};
constexpr auto twice = [](const auto& layer, const auto& x) { return add(layer(x), layer(x)); };
static_assert(may_call(twice, a<Layer>, a<Var<In>>));
static_assert(!may_call([number = 2.0f](const auto& x) { return scale(x, number); }, a<Var<In>>));
struct Refers {
  const float& number;
  auto operator()(const auto& x) const { return scale(x, number); }
};
static_assert(!detail::Repeatable<Refers>);

// ---- Gradients that may begin a backward pass -------------------------------------------------------------

constexpr auto begins = [](auto* y, auto* dy) {
  return requires(Tape & tape) { tape.backward(*y, *dy); };
};
using Sum2 = Tensor<float, 3, Grid, Shard<0>, Partial<Sum>>;
static_assert(begins(a<Var<Sequences<Replicate>>>, a<Sequences<Replicate>>));
static_assert(begins(a<Var<Sequences<Reduced>>>, a<Sum2>) && begins(a<Var<Sum2>>, a<Sequences<Reduced>>));
static_assert(!begins(a<Var<Sequences<Reduced>>>, a<Sequences<Reduced>>));
static_assert(!begins(a<Var<Sequences<Reduced>>>, a<Sequences<Replicate>>));
static_assert(!begins(a<Var<Sequences<Replicate>>>, a<Sequences<Reduced>>));
static_assert(!begins(a<Var<Sequences<Shard<1>>>>, a<Sequences<Shard<2>>>));
static_assert(!begins(a<Var<Sequences<Shard<1>>>>, a<Sequences<Replicate>>));
static_assert(!begins(a<Var<Sequences<Replicate>, false>>, a<Sequences<Replicate>>));
static_assert(!begins(a<Sequences<Replicate>>, a<Sequences<Replicate>>));
static_assert(!begins(a<Var<Sequences<Partial<Max>>>>, a<Sequences<Partial<Max>>>));
static_assert(!begins(a<Var<Sequences<Replicate>>>, a<Tensor<double, 3, Grid, Shard<0>, Replicate>>));
static_assert(!begins(a<Var<Sequences<Replicate>>>, a<Tensor<float, 2, Grid, Shard<0>, Replicate>>));
static_assert(!begins(a<Var<Sequences<Replicate>>>, a<Tensor<float, 3, Mesh<tp, dp>, Shard<0>, Replicate>>));

// ---- Memory of one module ---------------------------------------------------------------------------------

/// Bytes of activations in use: before the call, after it, and after the backward pass.
struct Live {
  std::int64_t before = 0, forward = 0, backward = 0;
};
constexpr Live live_around_an_mlp(bool again) {
  Live live;
  trace<Grid>({1, 2}, [&](const Grid& mesh) {
    auto now = [&] { return mesh.recorder()->record().memory[0].live; };
    const Mlp<Grid> mlp(mesh, 16, 64);
    Tape tape;
    auto x = tape.input(Sequences<Replicate>(mesh, {4, 8, 16}));
    live.before = now();
    auto run = [&] {
      if (again) return recompute(mlp, x);
      return mlp(x);
    };
    auto y = run();
    live.forward = now();
    tape.backward(y, Sequences<Replicate>(mesh, {4, 8, 16}));
    live.backward = now();
  });
  return live;
}
constexpr std::int64_t x_bytes = 4 * 8 * 16 * 4, hidden_bytes = 4 * 8 * 32 * 4;
constexpr Live kept = live_around_an_mlp(false), again = live_around_an_mlp(true);
static_assert(kept.before == x_bytes && again.before == x_bytes);
static_assert(kept.forward == 2 * x_bytes + 2 * hidden_bytes);  // x and y, and what gelu takes and gives
static_assert(again.forward == 2 * x_bytes);                    // x and y
static_assert(kept.backward == 3 * x_bytes && again.backward == 3 * x_bytes);  // and the gradient of x

}  // namespace
}  // namespace shardwise
