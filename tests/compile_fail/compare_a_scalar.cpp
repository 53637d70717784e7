// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

// expect: LayoutError<Reason::name_or_form_of_another_library, Cure<Hint::use_the_number_that_item_returns>>

#include <shardwise/shardwise.hpp>

using namespace shardwise;
using Scalar = Tensor<float, 0, Mesh<tp>, Replicate>;

#ifdef SHOULD_FAIL
bool converged(const Scalar& residual) {
  if (residual < 1e-6) return true;
  return false;
}
#else
bool converged(const Scalar& residual) {
  if (item(residual) < 1e-6f) return true;
  return false;
}
#endif
