// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

// expect: LayoutError<Reason::operands_have_different_element_types, Got<float, (long|long int)>, Cure<Hint::give_both_the_same_element_type>>

#include <shardwise/shardwise.hpp>

using namespace shardwise;
template <class T>
using Rows = Tensor<T, 2, Mesh<tp>, Shard<0>>;

#ifdef SHOULD_FAIL
auto below(const Rows<float>& a, const Rows<std::int64_t>& b) {
  return less(a, b);
}
#else
auto below(const Rows<float>& a, const Rows<float>& b) {
  return less(a, b);
}
#endif
