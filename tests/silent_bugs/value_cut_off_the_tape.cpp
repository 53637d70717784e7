// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

// title: A value that is cut off from the loss
// thread: NVIDIA-NeMo/Automodel #2995 (finding 2)
// thread: modelscope/ms-swift #9947
// there: Values went through a collective that autograd does not know. The computations before it got no gradient, or one rank's part of it.
// here: does not compile
// expect: LayoutError<Reason::tensor_off_the_tape_meets_one_on_it_so_its_gradient_would_be_lost, Got<Tensor<double, 1, Mesh<tp>, Replicate>, Var<Tensor<double, 1, Mesh<tp>, Replicate>, true>>, Cure<Hint::use_the_Var_or_parameter_not_its_value_or_alongside_if_it_is_data>>
/// `redistribute` of a `Var` is on the tape. `.value()` is a tensor on no tape, as are all results that are
/// computed from it. Beside a `Var` an operation refuses it. For a real constant write `tape.constant`.

#include <shardwise/autograd/redistribute.hpp>
#include <shardwise/autograd/tape.hpp>
#include <shardwise/mesh/mesh.hpp>
#include <shardwise/ops/arithmetic.hpp>
#include <shardwise/ops/reduction.hpp>

using namespace shardwise;

using Scores = Var<Tensor<double, 1, Mesh<tp>, Shard<0>>>;
using Results = Var<Tensor<double, 1, Mesh<tp>, Replicate>>;

#ifdef SHOULD_FAIL
auto weighted(const Scores& scores, const Results& results) {
  return mul(redistribute<tp, Replicate>(scores.value()), results);
}
#else
auto weighted(const Scores& scores, const Results& results) {
  return mul(redistribute<tp, Replicate>(scores), results);
}

TEST_CASE("what is gathered on the tape has a gradient") {
  const Mesh<tp> mesh(world(), {any});
  Tape tape;
  const auto scores = tape.input(full<double, Shard<0>>(mesh, {4}, 0.5));
  const auto results = tape.input(full<double, Replicate>(mesh, {4}, 3.));
  tape.backward(sum(weighted(scores, results)));
  CHECK(full_tensor(scores.gradient()).isApproxToConstant(3));
  CHECK(full_tensor(results.gradient()).isApproxToConstant(0.5));
}
#endif
