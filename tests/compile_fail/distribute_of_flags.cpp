// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

// expect: LayoutError<Reason::no_tensor_has_elements_of_this_type, Got<bool>, Cure<Hint::take_float_double_bfloat16_int32_int64_or_uint8>>

#include <array>
#include <shardwise/mesh/mesh.hpp>
#include <shardwise/tensor/distribute.hpp>

using namespace shardwise;

#ifdef SHOULD_FAIL
auto flags(const Mesh<tp>& mesh) {
  const std::array<bool, 4> values{};
  return distribute<Shard<0>>(mesh, {4}, values);
}
#else
auto flags(const Mesh<tp>& mesh) {
  const std::array<std::uint8_t, 4> values{};
  return distribute<Shard<0>>(mesh, {4}, values);
}
#endif
