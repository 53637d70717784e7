// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

// expect: LayoutError<Reason::name_or_form_of_another_library, Cure<Hint::read_values_after_the_call_as_forward_sees_types_alone>>

#include <shardwise/shardwise.hpp>

using namespace shardwise;
using Mean = Tensor<float, 0, Mesh<dp>, Replicate>;

#ifdef SHOULD_FAIL
float read(const Abstract<Mean, true, true>& mean) {  // as in a module's forward
  return item(mean);
}
#else
float read(const Var<Mean>& mean) {
  return item(mean);
}
#endif
