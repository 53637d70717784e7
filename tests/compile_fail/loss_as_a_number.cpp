// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

// expect: write item.x., if it is a scalar, or leave std:: out: sqrt.x.

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
