// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

// expect: write item.x., if it is a scalar, or leave std:: out: sqrt.x.

#include <shardwise/shardwise.hpp>

#include <cmath>

using namespace shardwise;
using Loss = Var<Tensor<float, 0, Mesh<tp>, Replicate>>;

#ifdef SHOULD_FAIL
bool lost(const Loss& loss) {
  return std::isnan(loss);
}
#else
bool lost(const Loss& loss) {
  return std::isnan(item(loss));
}
#endif
