// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// In a sequence of layers, each layer takes the output of the layer before it.
// expect: LayoutError<Reason::layer_changes_the_layout_of_its_input, Expected<Tensor<float, 2, Mesh<dp, tp>, Shard<0>, Shard<1>>>, Got<Tensor<float, 2, Mesh<dp, tp>, Shard<0>, Replicate>>, Cure<Hint::redistribute_to_what_is_Expected>, In<detail::Repeat>, In<Model>>

#include <shardwise/shardwise.hpp>

using namespace shardwise;
using Grid = Mesh<dp, tp>;
template <class... P>
using Matrix = Tensor<float, 2, Grid, P...>;

// Gathers a dimension that is cut on tp, and cuts one that is whole.
struct Turn : Module<Turn> {
  auto forward(const auto& x) const {
    if constexpr (tensor_of<decltype(x)>::layout[1].is_shard()) {
      return redistribute<tp, Replicate>(x);
    } else {
      return redistribute<tp, Shard<1>>(x);
    }
  }
};

struct Model : Module<Model> {
  std::vector<Turn> turns;

#ifdef SHOULD_FAIL
  auto forward(const auto& x) const {
    return relu(sequential(x, turns));
  }
#else
  auto forward(const auto& x) const {
    return relu(turns[1](turns[0](x)));
  }
#endif
};

auto step(const Model& model, const Matrix<Shard<0>, Replicate>& x) {
  return model(x);
}
