// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

// The mistake is the only error: not that the module had no forward, nor that the loss had no gradient.
// expect: error: .*misspelt

#include <shardwise/shardwise.hpp>

using namespace shardwise;

struct WithMistake : Module<WithMistake> {
  auto forward(const auto& x) const {
#ifdef SHOULD_FAIL
    return gelu(add(x, misspelt));
#else
    return gelu(x);
#endif
  }
};

struct AroundMistake : Module<AroundMistake> {
  WithMistake inner;

  auto forward(const auto& x) const {
    return inner(x);
  }
};

void step(const AroundMistake& model, const Tensor<float, 2, Mesh<tp>, Replicate>& x) {
  Tape tape;
  const auto y = model(tape.input(x));
  const auto loss = mean(mul(y, y));
  tape.backward(loss);
}
