// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// The rows of an embedding's table are the outputs of the head that
/// shares it. So a row-wise embedding needs a column-wise head.
// expect: LayoutError<Reason::tied_weights_have_different_layouts, Expected<Parameter<Tensor<float, 2, Mesh<tp>, Shard<0>>.*>>, Got<Parameter<Tensor<float, 2, Mesh<tp>, Shard<1>>.*>>, Cure<Hint::give_both_modules_styles_of_one_layout>>

#include <shardwise/shardwise.hpp>

using namespace shardwise;
using Head = Linear<Mesh<tp>, ColwiseParallel<tp>, float, 1, 1, false>;
using X = Tensor<float, 2, Mesh<tp>, Replicate>;

#ifdef SHOULD_FAIL
auto logits(const Embedding<Mesh<tp>, ColwiseParallel<tp>>& tokens, const X& x) {
  return Head::multiply(x, tokens.table);
}
#else
auto logits(const Embedding<Mesh<tp>, RowwiseParallel<tp>>& tokens, const X& x) {
  return Head::multiply(x, tokens.table);
}
#endif
