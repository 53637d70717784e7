// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

// expect: write item.x., if it is a scalar, or leave std:: out: sqrt.x.

#include <shardwise/shardwise.hpp>

#include <cmath>

using namespace shardwise;
using Table = Tensor<double, 2, Mesh<tp>, Shard<0>>;

#ifdef SHOULD_FAIL
auto root(const Table& x) {
  return std::sqrt(x);
}
#else
auto root(const Table& x) {
  return sqrt(x);
}
#endif
