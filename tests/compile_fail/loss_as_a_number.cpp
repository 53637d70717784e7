// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

// expect: LayoutError<Reason::name_or_form_of_another_library, Cure<Hint::use_item_of_a_scalar_or_a_function_of_tensors>>

#include <shardwise/shardwise.hpp>

using namespace shardwise;
using Loss = Var<Tensor<float, 0, Mesh<tp>, Replicate>>;

#ifdef SHOULD_FAIL
float read(const Loss& loss) {
  float number = loss;
  return number;
}
#else
float read(const Loss& loss) {
  float number = item(loss);
  return number;
}
#endif
