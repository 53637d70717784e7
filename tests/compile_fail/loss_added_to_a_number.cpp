// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

// expect: LayoutError<Reason::name_or_form_of_another_library, Cure<Hint::use_the_number_that_item_returns>>

#include <shardwise/shardwise.hpp>

using namespace shardwise;
using Loss = Var<Tensor<float, 0, Mesh<tp>, Replicate>>;

#ifdef SHOULD_FAIL
void add_to(double& total, const Loss& loss) {
  total += loss;
}
#else
void add_to(double& total, const Loss& loss) {
  total += item(loss);
}
#endif
