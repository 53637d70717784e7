// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// What does not compile can be asked for: every entry point answers a `requires` expression in a template
/// with yes or no, and not with an error.

#include <shardwise/llm/decoding/key_value_cache.hpp>
#include <shardwise/llm/models/rope.hpp>
#include <shardwise/shardwise.hpp>

#include "support/gpt.hpp"

using namespace shardwise;
using namespace shardwise::llm;

// clang-format off: a question, a line
namespace {

using Line = Mesh<tp>;
using Grid = Mesh<dp, tp>;
template <class P>
using Scalar = Tensor<float, 0, Line, P>;
template <class P>
using Vector = Tensor<float, 1, Line, P>;
template <class P>
using Matrix = Tensor<float, 2, Line, P>;
template <class P>
using Heads = Tensor<float, 4, Line, P>;
template <class P>
using Ids = Tensor<int, 1, Line, P>;
template <class P>
using Rows = Tensor<float, 2, Grid, P, Replicate>;
template <class P>
using Sequences = Tensor<float, 3, Grid, P, Replicate>;
using OnItsWay = InFlight<Matrix<Replicate>>;
using NoTensor = Tensor<float, 2, Grid, Shard<0>>;

/// Can `F` be called with these? `F` is a lambda that asks itself: a `requires` expression needs a template.
template <class F, class... X>
constexpr bool can(F asks, const X*... x) {
  return asks(x...);
}
template <class X>
constexpr const X* a = nullptr;

// ---- Operations
// ---------------------------------------------------------------------------------------------
constexpr auto product = [](auto* x, auto* w) {
  return requires { linear(*x, *w); };
};
static_assert(can(product, a<Matrix<Shard<1>>>, a<Matrix<Shard<1>>>));
static_assert(!can(product, a<Matrix<Shard<1>>>, a<Matrix<Reduced>>));
static_assert(!can(product, a<Matrix<Shard<1>>>, a<OnItsWay>));
static_assert(!can(product, a<Rows<Reduced>>, a<NoTensor>));
static_assert(!can(product, a<Matrix<Shard<1>>>, a<float>) && !can(product, a<float>, a<float>));

constexpr auto layer = [](auto* x, auto* w, auto* b) {
  return requires { linear(*x, *w, *b); };
};
static_assert(can(layer, a<Matrix<Reduced>>, a<Matrix<Shard<0>>>, a<Vector<Shard<0>>>));
static_assert(!can(layer, a<Matrix<Reduced>>, a<Matrix<Shard<0>>>, a<Vector<Reduced>>));

constexpr auto sum_of_two = [](auto* x, auto* y) {
  return requires { add(*x, *y); };
};
constexpr auto difference = [](auto* x, auto* y) {
  return requires { sub(*x, *y); };
};
constexpr auto elementwise = [](auto* x, auto* y) {
  return requires { mul(*x, *y); };
};
static_assert(can(sum_of_two, a<Matrix<Partial<>>>, a<Matrix<Partial<>>>));
static_assert(!can(sum_of_two, a<Matrix<Partial<>>>, a<Matrix<Replicate>>));
static_assert(can(difference, a<Matrix<Shard<0>>>, a<Matrix<Shard<0>>>));
static_assert(!can(difference, a<Matrix<Shard<0>>>, a<Matrix<Shard<1>>>));
static_assert(can(elementwise, a<Matrix<Partial<>>>, a<Matrix<Reduced>>));
static_assert(!can(elementwise, a<Matrix<Partial<>>>, a<Matrix<Partial<>>>));

constexpr auto operators = [](auto* x, auto* y) {
  return requires { 2 * (*x + *y) - *x * 0.5f + -*y / 3; };
};
constexpr auto times = [](auto* x, auto* y) {
  return requires { *x** y; };
};
constexpr auto divided = [](auto* x, auto* y) {
  return requires { *x / *y; };
};
static_assert(can(operators, a<Matrix<Partial<>>>, a<Matrix<Partial<>>>));
static_assert(can(operators, a<Var<Matrix<Shard<0>>>>, a<Var<Matrix<Shard<0>>>>));
static_assert(!can(operators, a<Matrix<Shard<0>>>, a<Matrix<Reduced>>) &&
              !can(operators, a<Ids<Reduced>>, a<Ids<Reduced>>));
static_assert(can(times, a<Matrix<Reduced>>, a<Vector<Reduced>>) &&
              can(times, a<Matrix<Reduced>>, a<unsigned>) &&
              !can(times, a<Matrix<Partial<>>>, a<Matrix<Partial<>>>));
static_assert(can(divided, a<float>, a<Matrix<Reduced>>) && !can(divided, a<float>, a<Matrix<Partial<>>>) &&
              !can(times, a<Matrix<Reduced>>, a<OnItsWay>));

constexpr auto compared = [](auto* x, auto* y) {
  return requires { less(*x, *y); };
};
constexpr auto chosen = [](auto* mask, auto* x, auto* y) {
  return requires { where(*mask, *x, *y); };
};
static_assert(can(compared, a<Matrix<Reduced>>, a<Vector<Replicate>>) &&
              can(compared, a<Ids<Reduced>>, a<int>));
static_assert(!can(compared, a<Matrix<Partial<>>>, a<int>) &&
              !can(compared, a<Matrix<Reduced>>, a<OnItsWay>) &&
              !can(compared, a<Matrix<Reduced>>, a<Ids<Reduced>>));
static_assert(can(chosen, a<Ids<Replicate>>, a<Vector<Reduced>>, a<Vector<Reduced>>) &&
              can(chosen, a<Ids<Replicate>>, a<Vector<Reduced>>, a<int>) &&
              !can(chosen, a<Vector<Replicate>>, a<Vector<Reduced>>, a<int>) &&
              !can(chosen, a<Ids<Replicate>>, a<Vector<Reduced>>, a<OnItsWay>));

constexpr auto activated = [](auto* x) {
  return requires {
    relu(*x);
    gelu(*x);
    gelu_tanh(*x);
    silu(*x);
    tanh(*x);
  };
};
static_assert(can(activated, a<Matrix<Shard<0>>>));
static_assert(!can(
    [](auto* x) {
      return requires { relu(*x); };
    },
    a<Matrix<Partial<>>>));
static_assert(!can(
    [](auto* x) {
      return requires { gelu(*x); };
    },
    a<Matrix<Partial<>>>));
static_assert(!can(
    [](auto* x) {
      return requires { gelu_tanh(*x); };
    },
    a<Matrix<Partial<>>>));
static_assert(!can(
    [](auto* x) {
      return requires { silu(*x); };
    },
    a<Matrix<Partial<>>>));
static_assert(!can(
    [](auto* x) {
      return requires { tanh(*x); };
    },
    a<Matrix<Partial<>>>));

constexpr auto scaled = [](auto* x) {
  return requires { scale(*x, 2.0); };
};
constexpr auto dropped = [](auto* x) {
  return requires { dropout(*x, 0.1, 1u); };
};
constexpr auto turned = [](auto* x) {
  return requires { transpose(*x); };
};
static_assert(can(scaled, a<Matrix<Partial<>>>) && !can(scaled, a<Matrix<Partial<Max>>>));
static_assert(can(dropped, a<Matrix<Partial<>>>) && !can(dropped, a<Matrix<Partial<Max>>>));
static_assert(can(turned, a<Matrix<Partial<>>>) && !can(turned, a<Vector<Replicate>>));

constexpr auto weights = [](auto* x) {
  return requires { softmax(*x); };
};
static_assert(can(weights, a<Matrix<Shard<0>>>) && !can(weights, a<Matrix<Shard<1>>>));
constexpr auto normalised = [](auto* x, auto* g) {
  return requires { layer_norm(*x, *g, *g); };
};
static_assert(can(normalised, a<Matrix<Shard<0>>>, a<Vector<Reduced>>));
static_assert(!can(normalised, a<Matrix<Shard<0>>>, a<Vector<Replicate>>));

constexpr auto scaled_rows = [](auto* x, auto* w) {
  return requires { rms_norm(*x, *w); };
};
static_assert(can(scaled_rows, a<Matrix<Shard<0>>>, a<Vector<Reduced>>));
static_assert(!can(scaled_rows, a<Matrix<Shard<0>>>, a<Vector<Replicate>>));
constexpr auto gated = [](auto* x) {
  return requires { swiglu(*x, *x); };
};
static_assert(can(gated, a<Matrix<Shard<1>>>) && !can(gated, a<Matrix<Partial<>>>));
constexpr auto rotated = [](auto* x) {
  return requires { rope(*x); };
};
static_assert(can(rotated, a<Heads<Shard<1>>>) && !can(rotated, a<Heads<Shard<3>>>));

constexpr auto summed = [](auto* x) {
  return requires {
    sum(*x);
    mean<0>(*x);
  };
};
constexpr auto squared = [](auto* x) {
  return requires { sum_of_squares<-1>(*x); };
};
constexpr auto largest = [](auto* x) {
  return requires { max(*x); };
};
constexpr auto length = [](auto* x) {
  return requires { norm(*x); };
};
static_assert(can(summed, a<Matrix<Partial<>>>) && !can(summed, a<Matrix<Partial<Max>>>));
static_assert(can(squared, a<Matrix<Shard<1>>>) && !can(squared, a<Matrix<Partial<>>>));
static_assert(can(largest, a<Matrix<Shard<1>>>) && !can(largest, a<Var<Matrix<Shard<1>>>>));
static_assert(can(length, a<Matrix<Replicate>>) && !can(length, a<Matrix<Shard<1>>>));

constexpr auto attended = [](auto* q, auto* k) {
  return requires { attention(*q, *k, *k); };
};
static_assert(can(attended, a<Heads<Shard<2>>>, a<Heads<Shard<2>>>));
static_assert(can(attended, a<Heads<Shard<2>>>, a<Heads<Reduced>>));
static_assert(!can(attended, a<Heads<Shard<1>>>, a<Heads<Shard<1>>>));
constexpr auto recalled = []<class K>(auto* q, K*) {
  return requires(const KeyValueCache<K>& cache) { attention(*q, cache); };
};
static_assert(can(recalled, a<Heads<Shard<2>>>, a<Heads<Reduced>>));
static_assert(!can(recalled, a<Heads<Reduced>>, a<Heads<Shard<2>>>));
constexpr auto looked_up = [](auto* ids, auto* table) {
  return requires { embedding(*ids, *table); };
};
static_assert(can(looked_up, a<Ids<Replicate>>, a<Matrix<Replicate>>));
static_assert(!can(looked_up, a<Vector<Replicate>>, a<Matrix<Replicate>>));
constexpr auto loss = [](auto* logits, auto* ids) {
  return requires { CrossEntropyLoss()(*logits, *ids); };
};
static_assert(can(loss, a<Matrix<Shard<0>>>, a<Ids<Shard<0>>>));
static_assert(!can(loss, a<Matrix<Shard<0>>>, a<Ids<Replicate>>));

constexpr auto flat = [](auto* x) {
  return requires { reshape(*x, {64}); };
};
constexpr auto flat_shape = [](auto* x) {
  return requires { reshape(*x, Shape<1>{64}); };
};
static_assert(can(flat, a<Matrix<Shard<0>>>) && !can(flat, a<Matrix<Shard<1>>>));
static_assert(can(flat_shape, a<Matrix<Shard<0>>>) && !can(flat_shape, a<Matrix<Shard<1>>>));

// ---- Redistribution, values, gradients
// ------------------------------------------------------------------------
template <class P>
constexpr auto to = [](auto* x) {
  return requires { redistribute<tp, P>(*x); };
};
static_assert(can(to<Shard<1>>, a<Matrix<Shard<0>>>) && !can(to<Shard<2>>, a<Matrix<Shard<0>>>));
static_assert(can(to<Shard<1>>, a<Var<Matrix<Shard<0>>>>) && !can(to<Shard<2>>, a<Var<Matrix<Shard<0>>>>));
static_assert(!can(to<Shard<1>>, a<OnItsWay>) && !can(to<Shard<1>>, a<NoTensor>));
template <class P>
constexpr auto to_later = [](auto* x) {
  return requires { redistribute_async<tp, P>(*x); };
};
static_assert(can(to_later<Shard<1>>, a<Matrix<Shard<0>>>) && !can(to_later<Shard<2>>, a<Matrix<Shard<0>>>));

constexpr auto read = [](auto* x) {
  return requires { item(*x); };
};
static_assert(can(read, a<Scalar<Replicate>>));
static_assert(!can(read, a<Scalar<Partial<>>>) && !can(read, a<Matrix<Replicate>>));

constexpr auto pulled_back = [](auto* x) {
  return requires(Tape & tape) { tape.backward(*x); };
};
static_assert(can(pulled_back, a<Var<Scalar<Replicate>>>));
static_assert(!can(pulled_back, a<Var<Scalar<Partial<>>>>) && !can(pulled_back, a<Var<Matrix<Replicate>>>));
static_assert(!can(pulled_back, a<Scalar<Replicate>>));

// ---- Factories
// ------------------------------------------------------------------------------------------------
template <class... P>
constexpr auto made = [](auto* mesh) {
  return requires { empty<float, P...>(*mesh, {3, 4}); };
};
template <class... P>
constexpr auto made_of_zeros = [](auto* mesh) {
  return requires { zeros<float, P...>(*mesh, {3, 4}); };
};
template <class... P>
constexpr auto made_full = [](auto* mesh) {
  return requires { full<float, P...>(*mesh, {3, 4}, 1.f); };
};
template <class... P>
constexpr auto drawn = [](auto* mesh) {
  return requires {
    randn<float, P...>(*mesh, {3, 4}, 1);
    uniform<float, P...>(*mesh, {3, 4}, 1);
  };
};
template <class... P>
constexpr auto spread = [](auto* mesh, auto* values) {
  return requires { distribute<P...>(*mesh, *values); };
};
template <class... P>
constexpr auto joined = [](auto* mesh, auto* values) {
  return requires { from_local<P...>(*mesh, *values); };
};
static_assert(can(made<Shard<0>, Partial<>>, a<Grid>) && !can(made<Shard<0>>, a<Grid>));
static_assert(can(made_of_zeros<Shard<0>, Shard<1>>, a<Grid>) &&
              !can(made_of_zeros<Shard<0>, Partial<>>, a<Grid>));
static_assert(can(made_full<Shard<0>, Shard<1>>, a<Grid>) && !can(made_full<Shard<0>, Shard<2>>, a<Grid>));
static_assert(can(drawn<Shard<0>, Shard<1>>, a<Grid>) && !can(drawn<Shard<0>, Shard<2>>, a<Grid>));
static_assert(can(spread<Shard<0>, Partial<>>, a<Grid>, a<Eigen::MatrixXf>));
static_assert(!can(spread<Shard<0>>, a<Grid>, a<Eigen::MatrixXf>));
static_assert(can(joined<Shard<0>, Shard<1>>, a<Grid>, a<Eigen::MatrixXf>));
static_assert(!can(joined<Shard<0>, Shard<1>>, a<Grid>, a<Eigen::VectorXf>));
static_assert(std::is_constructible_v<Rows<Shard<0>>, Grid, Shape<2>>);
static_assert(!std::is_constructible_v<NoTensor, Grid, Shape<2>> &&
              !std::is_default_constructible_v<NoTensor>);

// ---- Modules
// --------------------------------------------------------------------------------------------------
constexpr auto called = [](auto* module, auto* x) {
  return requires { (*module)(*x); };
};
static_assert(can(called, a<Linear<Grid, ColwiseParallel<tp>>>, a<Rows<Shard<0>>>));
static_assert(!can(called, a<Linear<Grid, ColwiseParallel<tp>>>, a<Rows<Shard<1>>>));
static_assert(can(called, a<Mlp<Grid>>, a<Rows<Shard<0>>>) && !can(called, a<Mlp<Grid>>, a<Rows<Shard<1>>>));
static_assert(can(called, a<Mlp<Grid>>, a<Var<Rows<Shard<0>>>>) &&
              !can(called, a<Mlp<Grid>>, a<Rows<Partial<>>>));
static_assert(can(called, a<Attention<Grid>>, a<Sequences<Shard<0>>>));
static_assert(!can(called, a<Attention<Grid>>, a<Sequences<Shard<1>>>));
static_assert(can(called, a<LayerNorm<Grid>>, a<Sequences<Shard<1>>>));
static_assert(!can(called, a<LayerNorm<Grid>>, a<Sequences<Shard<2>>>));
static_assert(can(called, a<GptBlock<Grid>>, a<Sequences<Shard<0>>>));
static_assert(!can(called, a<GptBlock<Grid>>, a<Sequences<Shard<1>>>));
static_assert(can(called, a<Embedding<Line>>, a<Ids<Replicate>>));
static_assert(!can(called, a<Embedding<Line>>, a<Vector<Replicate>>));
static_assert(can(called, a<Gpt<Grid>>, a<Tensor<int, 2, Grid, Shard<0>, Replicate>>));
static_assert(!can(called, a<Gpt<Grid>>, a<Tensor<int, 2, Grid, Shard<1>, Replicate>>));
static_assert(!can(called, a<Mlp<Line>>, a<OnItsWay>));
static_assert(std::is_constructible_v<Mlp<Grid>, Grid, int, int> &&
              !std::is_constructible_v<Mlp<Mesh<dp>>, Mesh<dp>, int, int>);

}  // namespace

// clang-format on
