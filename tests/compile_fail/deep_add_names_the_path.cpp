// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// In a deep model the error names the operation that does not fit, and the modules that call it. The innermost
/// module comes first, and the module that you called comes last. `InA` names a template without its arguments.
// page: clang++ too
// expect: LayoutError<Reason::dimension_sharded_on_one_side_only, On<tp>, Expected<Shard<1>, Shard<1>>, Got<Shard<1>, Replicate>, Cure<Hint::redistribute_to_what_is_Expected>, Of<AddOp>, InA<DeepLayer>, In<DeepModel>>

#include <shardwise/shardwise.hpp>

using namespace shardwise;

template <class MeshType>
struct DeepLayer : Module<DeepLayer<MeshType>> {
  Linear<MeshType, ColwiseParallel<tp>> up;
  Linear<MeshType, RowwiseParallel<tp>> down;

  auto forward(const auto& x) const {
    return add(x, down(gelu(up(x))));
  }
};

struct DeepModel : Module<DeepModel> {
  DeepLayer<Mesh<tp>> layer;

  auto forward(const auto& x) const {
    return layer(relu(x));
  }
};

#ifdef SHOULD_FAIL
auto call(const DeepModel& model, const Tensor<float, 2, Mesh<tp>, Shard<1>>& x) {
  return model(x);
}
#else
auto call(const DeepModel& model, const Tensor<float, 2, Mesh<tp>, Replicate>& x) {
  return model(x);
}
#endif
