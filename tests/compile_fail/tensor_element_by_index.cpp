// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

// expect: LayoutError<Reason::name_or_form_of_another_library, Cure<Hint::use_full_tensor_which_communicates_or_local_of_this_rank>>

#include <shardwise/shardwise.hpp>

using namespace shardwise;
using Matrix = Tensor<float, 2, Mesh<tp>, Replicate>;

#ifdef SHOULD_FAIL
auto corner(const Matrix& x) {
  return x(0, 0);
}
#else
auto corner(const Matrix& x) {
  return x.local()(0, 0);
}
#endif
