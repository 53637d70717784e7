// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

// expect: LayoutError<Reason::contracted_dimension_sharded_on_one_side_only, On<dp>, Expected<Shard<1>, Shard<1>>, Got<Shard<1>, Reduced>, Cure<Hint::redistribute_to_what_is_Expected>, Of<LinearOp<1>>, In<Linear<Mesh<dp, tp>, ColwiseParallel<tp>.*>>, InA<Mlp>>

#include <shardwise/shardwise.hpp>

using namespace shardwise;
using Grid = Mesh<dp, tp>;
template <class... P>
using Matrix = Tensor<float, 2, Grid, P...>;

template <class MeshType>
struct Model {
  Mlp<MeshType> mlp;

  auto operator()(const auto& x) const {
    auto y = mlp(x);
    return add(x, y);
  }
};

#ifdef SHOULD_FAIL
auto step(Tape& tape, const Model<Grid>& model, const Matrix<Shard<1>, Replicate>& x) {
  auto y = model(tape.constant(x));
  return y.value();
}
#else
auto step(Tape& tape, const Model<Grid>& model, const Matrix<Shard<0>, Replicate>& x) {
  auto y = model(tape.constant(x));
  return y.value();
}
#endif
