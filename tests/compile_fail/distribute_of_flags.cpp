// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

// expect: LayoutError<Reason::unsupported_element_type, Got<bool>, Cure<Hint::use_float_double_bfloat16_int32_int64_or_uint8>>

#include <shardwise/mesh/mesh.hpp>
#include <shardwise/tensor/distribute.hpp>
#include <vector>

using namespace shardwise;

#ifdef SHOULD_FAIL
auto flags(const Mesh<tp>& mesh) {
  const std::vector<bool> values(4);
  return distribute<Shard<0>>(mesh, {4}, values);
}
#else
auto flags(const Mesh<tp>& mesh) {
  const std::vector<std::uint8_t> values(4);
  return distribute<Shard<0>>(mesh, {4}, values);
}
#endif
