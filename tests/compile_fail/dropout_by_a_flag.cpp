// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

// expect: LayoutError<Reason::name_or_form_of_another_library, Cure<Hint::pass_the_step_and_leave_it_out_when_you_evaluate>, .*Dropout

#include <shardwise/shardwise.hpp>

using namespace shardwise;
using Matrix = Tensor<float, 2, Mesh<dp>, Shard<0>>;
using Model = Linear<Mesh<dp>>;

#ifdef SHOULD_FAIL
auto evaluate(const Dropout<>& dropout, const Matrix& x) {
  return dropout(x, false);
}
#else
auto evaluate(const Dropout<>& dropout, const Matrix& x) {
  return dropout(x);
}
#endif
