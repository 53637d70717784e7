// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

// expect: LayoutError<Reason::name_or_form_of_another_library, Cure<Hint::write_it_as_a_function_of_the_tensor>>

#include <shardwise/shardwise.hpp>

using namespace shardwise;
using Loss = Tensor<float, 0, Mesh<tp>, Replicate>;

#ifdef SHOULD_FAIL
auto number(const Loss& loss) {
  return loss.item();
}
#else
auto number(const Loss& loss) {
  return item(loss);
}
#endif
