// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

// expect: LayoutError<Reason::dimension_sharded_on_one_side_only, On<dp>, Expected<Shard<1>, Shard<0>>, Got<Shard<1>, Reduced>, Cure<Hint::redistribute_to_what_is_Expected>>

#include <shardwise/mesh/mesh.hpp>
#include <shardwise/models/transformer.hpp>

using namespace shardwise;
using Grid = Mesh<dp, tp>;
template <class P>
using Ids = Tensor<int, 2, Grid, P, Replicate>;

#ifdef SHOULD_FAIL
auto call(const LanguageModel<Grid>& model, const Ids<Shard<1>>& ids) {
  return model(ids);
}
#else
auto call(const LanguageModel<Grid>& model, const Ids<Shard<0>>& ids) {
  return model(ids);
}
#endif
