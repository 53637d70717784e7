// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

// expect: LayoutError<Reason::name_or_form_of_another_library, Cure<Hint::pass_the_module_first>>

#include <shardwise/shardwise.hpp>

using namespace shardwise;
using X = Var<Tensor<float, 2, Mesh<tp>, Replicate>>;

#ifdef SHOULD_FAIL
auto again(const X& x, const Mlp<Mesh<tp>>& mlp) {
  return recompute(x, mlp);
}
#else
auto again(const X& x, const Mlp<Mesh<tp>>& mlp) {
  return recompute(mlp, x);
}
#endif
