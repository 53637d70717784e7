// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

// expect: LayoutError<Reason::name_or_form_of_another_library, Cure<Hint::contract_two_operands_or_sum_over_a_dimension_of_one>>

#include <shardwise/shardwise.hpp>

using namespace shardwise;
using Table = Tensor<double, 2, Mesh<tp>, Shard<0>>;

#ifdef SHOULD_FAIL
auto rows(const Table& x) {
  return contract<"rc -> r">(x);
}
#else
auto rows(const Table& x) {
  return sum<1>(x);
}
#endif
