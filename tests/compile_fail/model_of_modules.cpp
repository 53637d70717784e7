// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// In a model of your own, the error points at the line that calls the module, and a note names the line
/// that calls the model. The module's own operations decide which input it takes. Here the features are
/// cut on `dp`, and a `Linear` that is parallel on `tp` needs them whole on all other axes.
// page: clang++ too
// expect: LayoutError<Reason::contracted_dimension_sharded_on_one_side_only, On<dp>, Expected<Shard<1>, Shard<1>>, Got<Shard<1>, Reduced>, Cure<Hint::redistribute_to_what_is_Expected>, Of<LinearOp<1>>, In<Linear<Mesh<dp, tp>, ColwiseParallel<tp>.*>>>

#include <shardwise/shardwise.hpp>

using namespace shardwise;
using Grid = Mesh<dp, tp>;
template <class... P>
using Matrix = Tensor<float, 2, Grid, P...>;

struct Model {
  Linear<Grid, ColwiseParallel<tp>> up;
  Linear<Grid, RowwiseParallel<tp>> down;

  auto operator()(const auto& x) const {
    auto h = gelu(up(x));
    return down(h);
  }
};

#ifdef SHOULD_FAIL
auto step(const Model& model, const Matrix<Shard<1>, Replicate>& x) {
  auto y = model(x);
  return mean(y);
}
#else
auto step(const Model& model, const Matrix<Shard<0>, Replicate>& x) {
  auto y = model(x);
  return mean(y);
}
#endif
