// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

// expect: LayoutError<Reason::tensor_has_no_such_dimension, Got<Tensor<float, 2, Mesh<tp>, Replicate>>, Cure<Hint::name_an_existing_dimension>>

#include <shardwise/shardwise.hpp>

using namespace shardwise;
using Scores = Tensor<float, 2, Mesh<tp>, Replicate>;

#ifdef SHOULD_FAIL
auto weights(const Scores& x) {
  return softmax<2>(x);
}
#else
auto weights(const Scores& x) {
  return softmax<1>(x);
}
#endif
