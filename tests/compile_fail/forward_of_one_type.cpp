// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// Before a call, Shardwise asks `forward` for its result type, with operands that exist as
/// types only. So `forward` must be a template: it takes `const auto&`, and not one tensor type.
// expect: LayoutError<Reason::forward_does_not_take_abstract_operands, Got<Tensor<float, 2, Mesh<tp>, Replicate>>, Cure<Hint::use_auto_parameters_in_forward>, In<OfOneType>>

#include <shardwise/shardwise.hpp>

using namespace shardwise;
using Whole = Tensor<float, 2, Mesh<tp>, Replicate>;

struct OfOneType : Module<OfOneType> {
#ifdef SHOULD_FAIL
  Whole forward(const Whole& x) const {
    return gelu(x);
  }
#else
  auto forward(const auto& x) const {
    return gelu(x);
  }
#endif
};

auto call(const OfOneType& model, const Whole& x) {
  return model(x);
}
