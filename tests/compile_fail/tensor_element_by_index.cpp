// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

// expect: LayoutError<Reason::this_is_written_otherwise_here, Cure<Hint::take_local_or_full_tensor>>

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
