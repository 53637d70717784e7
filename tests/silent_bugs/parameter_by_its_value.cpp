// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

// title: A layer that uses its weight's value, not its weight
// thread: d2l-ai/d2l-en #2600
// there: A layer multiplied by `weight.data`, which autograd does not see. The weight never got a gradient, and never changed.
// here: does not compile
// expect: LayoutError<Reason::tensor_off_the_tape_meets_one_on_it_so_its_gradient_would_be_lost, Got<Var<Tensor<double, 2, Mesh<dp>, Shard<0>>, true>, Tensor<double, 2, Mesh<dp>, Reduced>>, Cure<Hint::use_the_Var_or_parameter_not_its_value_or_alongside_if_it_is_data>>
/// The value of a parameter is a tensor on no tape. An operation refuses it beside an operand on a tape: use the
/// parameter. A tensor of data joins as `tape.constant(t)`, or in a module's `forward` as `alongside(t, x)`.

#include <shardwise/autograd/tape.hpp>
#include <shardwise/mesh/mesh.hpp>
#include <shardwise/module/parameters.hpp>
#include <shardwise/ops/linear.hpp>
#include <shardwise/ops/reduction.hpp>
#include <shardwise/train/reduce_gradients.hpp>

using namespace shardwise;
using Rows = Tensor<double, 2, Mesh<dp>, Shard<0>>;
using Weight = Parameter<Tensor<double, 2, Mesh<dp>, Reduced>>;

#ifdef SHOULD_FAIL
auto product(const Var<Rows>& x, const Weight& w) { return linear(x, w.value()); }
#else
auto product(const Var<Rows>& x, const Weight& w) { return linear(x, w); }

TEST_CASE("a weight that is used has its gradient") {
  const Mesh<dp> mesh(world(), {any});
  Weight w(mesh, {2, 3}, Init::constant(2));
  initialize(w, 1);
  Tape tape;
  const auto y = product(tape.input(full<double, Shard<0>>(mesh, {4, 3}, 0.5)), w);
  tape.backward(redistribute<dp, Replicate>(sum(y)));
  reduce_gradients(w);
  CHECK(full_tensor(w.finished_gradient()).isApproxToConstant(4 * 0.5));
}
#endif
