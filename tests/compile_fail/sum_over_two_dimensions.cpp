// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

// expect: LayoutError<Reason::name_or_form_of_another_library, Cure<Hint::reduce_one_dimension_and_then_the_next>>

#include <shardwise/shardwise.hpp>

using namespace shardwise;
using Images = Tensor<float, 3, Mesh<tp>, Shard<0>>;

#ifdef SHOULD_FAIL
auto sums(const Images& x) {
  return sum<1, 2>(x);
}
#else
auto sums(const Images& x) {
  return sum<1>(sum<2>(x));
}
#endif
