// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

// expect: LayoutError<Reason::operation_on_parameters_alone_would_never_train_them, Got<Tensor<float, 1, Mesh<tp>, Replicate>>, Cure<Hint::use_alongside_to_put_a_parameter_on_the_tape>>

#include <shardwise/mesh/mesh.hpp>
#include <shardwise/module/parameter.hpp>
#include <shardwise/ops/arithmetic.hpp>
#include <shardwise/ops/reshape.hpp>

using namespace shardwise;
using Matrix = Tensor<float, 2, Mesh<tp>, Replicate>;
using Factors = Parameter<Tensor<float, 1, Mesh<tp>, Replicate>>;

#ifdef SHOULD_FAIL
auto scaled(const Var<Matrix>& x, const Factors& factors) {
  return mul(x, reshape(factors, {2, 3}));
}
#else
auto scaled(const Var<Matrix>& x, const Factors& factors) {
  return mul(x, reshape(alongside(factors, x), {2, 3}));
}
#endif
