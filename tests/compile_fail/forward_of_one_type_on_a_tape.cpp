// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

// A Var comes where a tensor is written.
// expect: LayoutError<Reason::forward_does_not_take_abstract_operands, .*, Cure<Hint::use_auto_parameters_in_forward>, In<OfTensors>, In<AroundIt>>

#include <shardwise/shardwise.hpp>

using namespace shardwise;
using Whole = Tensor<float, 2, Mesh<tp>, Replicate>;

struct OfTensors : Module<OfTensors> {
#ifdef SHOULD_FAIL
  Whole forward(const Whole& x) const {
#else
  auto forward(const auto& x) const {
#endif
      return gelu(x);
}
}
;

struct AroundIt : Module<AroundIt> {
  OfTensors inner;

  auto forward(const auto& x) const {
    return inner(x);
  }
};

auto call(const AroundIt& model, const Whole& x) {
  Tape tape;
  return model(tape.input(x)).shape();
}
