// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

// expect: LayoutError<Reason::name_or_form_of_another_library, Cure<Hint::write_it_as_a_function_of_the_tensor>>

#include <shardwise/shardwise.hpp>

using namespace shardwise;
using Table = Tensor<double, 2, Mesh<tp>, Shard<0>>;

#ifdef SHOULD_FAIL
auto product(const Table& x, const Table& w) {
  return matmul(w.transpose(), x);
}
#else
auto product(const Table& x, const Table& w) {
  return matmul(transpose<0, 1>(w), x);
}
#endif
