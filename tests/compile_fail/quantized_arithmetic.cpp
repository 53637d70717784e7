// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

// expect: LayoutError<Reason::operation_needs_floating_point_numbers, Got<llm::kernel::Block4, llm::kernel::Block4>

#include <shardwise/llm/decoding/quantized.hpp>
#include <shardwise/mesh/mesh.hpp>

using namespace shardwise;

#ifdef SHOULD_FAIL
auto twice(const Tensor<llm::Block4, 2, Mesh<tp>, Replicate>& w) {
  return add(w, w);
}
#else
auto twice(const Tensor<Eigen::bfloat16, 2, Mesh<tp>, Replicate>& w) {
  return add(w, w);
}
#endif
