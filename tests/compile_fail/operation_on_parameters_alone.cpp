// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// This is weight decay as a term of the loss. A parameter brings no tape, so it would get no
/// gradient from this term. `alongside(w, loss)` is the parameter on the tape of the loss.
// expect: LayoutError<Reason::operation_on_parameters_alone_would_never_train_them, Got<Tensor<float, 2, Mesh<tp>, Replicate>>, Cure<Hint::use_alongside_to_put_a_parameter_on_the_tape>>

#include <shardwise/mesh/mesh.hpp>
#include <shardwise/module/parameter.hpp>
#include <shardwise/ops/add.hpp>
#include <shardwise/ops/arithmetic.hpp>
#include <shardwise/ops/reduction.hpp>

using namespace shardwise;
using Loss = Tensor<float, 0, Mesh<tp>, Replicate>;
using Weight = Parameter<Tensor<float, 2, Mesh<tp>, Replicate>>;

#ifdef SHOULD_FAIL
auto with_decay(const Var<Loss>& loss, const Weight& w) {
  return add(loss, scale(sum_of_squares(w), 0.1));
}
#else
auto with_decay(const Var<Loss>& loss, const Weight& w) {
  return add(loss, scale(sum_of_squares(alongside(w, loss)), 0.1));
}
#endif
