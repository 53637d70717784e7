// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

// title: A weight that is computed from other weights
// thread: pytorch/pytorch #12756
// there: A program set the weights of a third network to a mean of two others' weights, through `.data`. The two got no gradient, without any message.
// here: does not compile
// expect: LayoutError<Reason::operation_on_parameters_alone_would_never_train_them, Got<Tensor<double, 2, Mesh<dp>, Reduced>>, Cure<Hint::use_alongside_to_put_a_parameter_on_the_tape>>
/// A parameter brings no tape, so an operation on parameters alone would give a tensor that is never
/// trained. `alongside(w, x)` is the parameter on the tape of `x`, or a tensor where `x` is one.

#include <shardwise/autograd/tape.hpp>
#include <shardwise/mesh/mesh.hpp>
#include <shardwise/module/parameters.hpp>
#include <shardwise/ops/add.hpp>
#include <shardwise/ops/arithmetic.hpp>
#include <shardwise/ops/linear.hpp>
#include <shardwise/ops/reduction.hpp>
#include <shardwise/train/reduce_gradients.hpp>

using namespace shardwise;
using Rows = Tensor<double, 2, Mesh<dp>, Shard<0>>;
using Weight = Parameter<Tensor<double, 2, Mesh<dp>, Reduced>>;

#ifdef SHOULD_FAIL
auto product(const Var<Rows>& x, const Weight& a, const Weight& b) {
  return linear(x, add(scale(a, 0.25), alongside(b, x)));
}
#else
auto product(const Var<Rows>& x, const Weight& a, const Weight& b) {
  return linear(x, add(scale(alongside(a, x), 0.25), scale(alongside(b, x), 0.75)));
}

TEST_CASE("both weights have their gradients") {
  const Mesh<dp> mesh(world(), {any});
  std::vector<Weight> weights;
  for (const double value : {1., 2.}) {
    initialize(weights.emplace_back(mesh, Shape<2>{2, 3}, Init::constant(value)), 1);
  }
  Tape tape;
  const auto y = product(tape.input(full<double, Shard<0>>(mesh, {4, 3}, 0.5)), weights[0], weights[1]);
  tape.backward(redistribute<dp, Replicate>(sum(y)));
  for (Weight& w : weights) reduce_gradients(w);
  CHECK(full_tensor(weights[0].finished_gradient()).isApproxToConstant(4 * 0.5 * 0.25));
  CHECK(full_tensor(weights[1].finished_gradient()).isApproxToConstant(4 * 0.5 * 0.75));
}
#endif
