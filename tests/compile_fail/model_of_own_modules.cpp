// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// Modules of your own that derive from `Module` are refused like those of the library. The error is
/// at the line that calls the outermost module, and shows the first mistake, at whatever depth it is.
// page: clang++ too
// expect: LayoutError<Reason::dimension_sharded_on_one_side_only, On<tp>, Expected<Shard<1>, Shard<1>>, Got<Shard<1>, Replicate>, Cure<Hint::redistribute_to_what_is_Expected>, Of<AddOp>, In<Model>>

#include <shardwise/shardwise.hpp>

using namespace shardwise;
using Grid = Mesh<dp, tp>;
template <class... P>
using Matrix = Tensor<float, 2, Grid, P...>;

struct FeedForward : Module<FeedForward> {
  Linear<Grid, ColwiseParallel<tp>> up;
  Linear<Grid, RowwiseParallel<tp>> down;

  auto forward(const auto& x) const {
    return down(gelu(up(x)));
  }
};

struct Model : Module<Model> {
  FeedForward mlp;

  auto forward(const auto& x) const {
    return add(x, mlp(x));
  }
};

#ifdef SHOULD_FAIL
auto step(const Model& model, const Matrix<Shard<0>, Shard<1>>& x) {
  return model(x);
}
#else
auto step(const Model& model, const Matrix<Shard<0>, Replicate>& x) {
  return model(x);
}
#endif
