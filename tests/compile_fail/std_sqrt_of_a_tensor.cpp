// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

// expect: LayoutError<Reason::name_or_form_of_another_library, Cure<Hint::use_item_of_a_scalar_or_a_function_of_tensors>>

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
