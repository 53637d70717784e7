// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

// An Eigen matrix is on no tape: it is made of a value.
// expect: LayoutError<Reason::name_or_form_of_another_library, Cure<Hint::use_its_value>>

#include <shardwise/shardwise.hpp>

using namespace shardwise;
using X = Tensor<float, 2, Mesh<tp>, Shard<0>>;

#ifdef SHOULD_FAIL
auto look(const Var<X>& x) {
  return full_tensor(x);
}
#else
auto look(const Var<X>& x) {
  return full_tensor(x.value());
}
#endif
