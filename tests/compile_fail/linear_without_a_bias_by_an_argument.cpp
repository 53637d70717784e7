// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

// Whether a layer has a bias is part of its type, not an argument as in PyTorch.
// expect: Hint::write_false_as_the_template_argument_HasBias

#include <shardwise/shardwise.hpp>

using namespace shardwise;

#ifdef SHOULD_FAIL
auto layer(const Mesh<tp>& mesh) {
  return Linear<Mesh<tp>>(mesh, 8, 8, false);
}
#else
auto layer(const Mesh<tp>& mesh) {
  return Linear<Mesh<tp>, NoParallel, float, 1, 1, false>(mesh, 8, 8);
}
#endif
