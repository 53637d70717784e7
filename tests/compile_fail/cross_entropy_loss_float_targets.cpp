// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

// expect: LayoutError<Reason::operand_must_hold_integers, Got<float, float>, Cure<Hint::use_a_tensor_of_int32_or_int64>

#include <shardwise/mesh/mesh.hpp>
#include <shardwise/nn/cross_entropy_loss.hpp>

using namespace shardwise;
using Logits = Var<Tensor<float, 2, Mesh<tp>, Shard<1>>>;  // [rows, classes]

#ifdef SHOULD_FAIL
auto loss(const CrossEntropyLoss& criterion, const Logits& logits,
          const Tensor<float, 1, Mesh<tp>, Replicate>& targets) {
  return criterion(logits, targets);
}
#else
auto loss(const CrossEntropyLoss& criterion, const Logits& logits,
          const Tensor<int, 1, Mesh<tp>, Replicate>& targets) {
  return criterion(logits, targets);
}
#endif
