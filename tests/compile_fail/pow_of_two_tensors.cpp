// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

// expect: LayoutError<Reason::name_or_form_of_another_library, Cure<Hint::use_exp_of_the_exponent_times_log>>

#include <shardwise/shardwise.hpp>

using namespace shardwise;
using Table = Tensor<double, 2, Mesh<tp>, Shard<0>>;

#ifdef SHOULD_FAIL
auto power(const Table& x, const Table& y) {
  return pow(x, y);
}
#else
auto power(const Table& x, const Table& y) {
  return exp(y * log(x));
}
#endif
