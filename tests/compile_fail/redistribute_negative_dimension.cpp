// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

// expect: LayoutError<Reason::tensor_has_no_such_dimension, On<tp>, Expected<Shard<1>>, Got<Shard<-1>>, Cure<Hint::name_an_existing_dimension>>

#include <shardwise/shardwise.hpp>

using namespace shardwise;
using X = Tensor<float, 2, Mesh<tp>, Replicate>;

#ifdef SHOULD_FAIL
auto columns(const X& x) {
  return redistribute<tp, Shard<-1>>(x);
}
#else
auto columns(const X& x) {
  return redistribute<tp, Shard<1>>(x);
}
#endif
